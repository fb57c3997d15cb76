"""Longer traces out of short ones: what is fresh in every round, and what stays shared."""

from __future__ import annotations

from array import array

import pytest

from warmroute.prompts.ladder import Ladder
from warmroute.replay.fleet import Fleet
from warmroute.replay.repeat import repeated, shared_blocks
from warmroute.replay.run import run
from warmroute.replay.trace import Session, Trace, Turn, link_sessions

COMMON = range(900, 1000)


def family(at: int, session: Session) -> object:
    return session.id or at


def turn(blocks: list[int]) -> Turn:
    return Turn(16 * len(blocks), 8, array("Q", blocks), range(0, 16 * len(blocks) + 16, 16))


def talks(starts: tuple[float, ...] = ()) -> Trace:
    """Three sessions of two turns: two that begin with block 1, one that begins with a common block of its own."""
    heads = ([1, 10], [1, 20], [900, 30])
    sessions = [
        Session([turn(head), turn([*head, head[-1] + 1])], starts[at] if starts else None, f"s{at}")
        for at, head in enumerate(heads)
    ]
    link_sessions(sessions, 1 << 60)
    return Trace("talks", sessions, common=COMMON)


def test_a_block_of_several_families_is_shared():
    assert set(shared_blocks(talks(), family)) == {1}
    assert not shared_blocks(talks(), lambda at, session: "all one")


def test_a_round_keeps_what_is_shared_and_renames_the_rest():
    trace = repeated(talks(), 18, {1})
    assert trace.requests == 18
    prompts = [list(turn.blocks) for session in trace.sessions for turn in session.turns]
    assert [blocks[0] for blocks in prompts] == [1, 1, 1, 1, 900, 900] * 3
    own = [{block for turn in session.turns for block in turn.blocks[1:]} for session in trace.sessions]
    assert all(len(blocks) == 2 for blocks in own)
    assert len(set().union(*own)) == 2 * len(own)


def test_a_round_is_chained_and_measured_like_the_first():
    trace = repeated(talks(), 12, {1})
    for before, after in zip(trace.sessions[:3], trace.sessions[3:], strict=True):
        assert before.id != after.id
        for one, other in zip(before.turns, after.turns, strict=True):
            assert (one.prompt_tokens, one.output_tokens, one.ends) == (other.prompt_tokens, 8, other.ends)
        first, second = after.turns
        assert list(second.blocks[:2]) == list(first.blocks)
        assert first.answered_depth == before.turns[0].answered_depth


def test_it_is_cut_to_whole_sessions():
    assert repeated(talks(), 3, {1}).requests == 4
    assert repeated(talks(), 7, {1}).requests == 8


def test_rounds_follow_each_other_at_the_pace_of_the_first():
    trace = repeated(talks((10.0, 12.0, 14.0)), 12, {1})
    assert [session.start for session in trace.sessions] == [10.0, 12.0, 14.0, 16.0, 18.0, 20.0]


@pytest.mark.parametrize("rounds", [1, 3])
def test_every_round_finds_as_much_in_the_caches(rounds: int):
    trace = repeated(talks((0.0, 100.0, 200.0)), 6 * rounds, {1})
    trace.prepare(Ladder.default())
    served = run(trace, "round_robin", Fleet(workers=1)).served
    # Cold in the first round alone: block 1 once, and the common head.
    assert sum(request.cached_tokens for request in served) == 3 * 32 * rounds + 16 * (3 * rounds - 2)
