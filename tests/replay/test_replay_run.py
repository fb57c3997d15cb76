"""Whole replays: everything ends, nothing is lost, and the same seed gives the same result."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warmroute.prompts.prompt import Prompt
from warmroute.replay.fleet import Fleet
from warmroute.replay.model import EngineModel
from warmroute.replay.result import Result
from warmroute.replay.rival import Rival, View, with_exact_matches
from warmroute.replay.run import run
from warmroute.replay.trace import Session, Trace, Turn, link_sessions
from warmroute.scheduling.choosing import least
from warmroute.scheduling.policies.cache_aware import CacheAware
from warmroute.scheduling.policy import Policy
from warmroute.scheduling.worker import Candidate, Worker

BLOCK = 64


def conversations(count: int, turns: int, seed: int = 0, shared: int = 4, own: int = 8, answer: int = 200) -> Trace:
    """Conversations that share their first blocks and grow by `own` blocks a turn."""
    rng = Random(seed)
    sessions = []
    for number in range(count):
        blocks = list(range(shared))
        rows = []
        for turn in range(turns):
            blocks = [*blocks, *(10_000 * (number + 1) + 100 * turn + at for at in range(own))]
            ends = range(0, (len(blocks) + 1) * BLOCK, BLOCK)
            rows.append(Turn(len(blocks) * BLOCK + rng.randrange(BLOCK), rng.randrange(1, answer), blocks, ends, 1.0))
        sessions.append(Session(rows, None, f"s{number}"))
    link_sessions(sessions, 10**9)
    return Trace("conversations", sessions)


@pytest.mark.parametrize("fleet", [Fleet(4, cache_tokens=20_000), Fleet(prefill=2, decode=2, cache_tokens=20_000)])
@pytest.mark.parametrize("policy", ["round_robin", "cache_aware", "fd_metrics_score", "fd_remote_metrics_score"])
def test_every_request_ends_with_all_its_tokens(fleet: Fleet, policy: str) -> None:
    trace = conversations(60, 5)
    result = run(trace, policy, fleet, rate=4.0)
    turns = [turn for session in trace.sessions for turn in session.turns]
    assert len(result.served) == len(turns)
    assert result.prompt_tokens == sum(turn.prompt_tokens for turn in turns)
    assert result.output_tokens == sum(turn.output_tokens for turn in turns)
    for request in result.served:
        assert request.arrival < request.first_token <= request.end
        assert 0 <= request.cached_tokens < request.prompt_tokens


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 25),
    st.integers(1, 5),
    st.sampled_from([2500, 6000, 50_000]),
    st.sampled_from([(1, 0, 0), (3, 0, 0), (8, 1, 2), (8, 2, 1)]),
    st.sampled_from([64, 700, 8192]),
    st.sampled_from([1, 3, 256]),
)
def test_nothing_is_held_when_all_is_over(
    sessions: int, turns: int, cache: int, engines: tuple[int, int, int], step_tokens: int, running: int
) -> None:
    seen: list[View] = []

    def make(view: View) -> Policy:
        seen.append(view)
        return lambda candidates, prompt, rng: rng.choice(candidates)

    model = EngineModel(step_tokens=step_tokens, max_running=running)
    workers, prefill, decode = engines
    fleet = Fleet(workers, model, cache, prefill, decode)
    result = run(conversations(sessions, turns), Rival("any", make), fleet, rate=5.0)
    assert len(result.requests) == sessions * turns
    for engine in seen[0].engines.values():
        assert (engine.running, len(engine.waiting), engine.pending_tokens) == (0, 0, 0)
        assert (engine.cache.pinned, engine.cache.private) == (0, 0)
        assert 0 <= engine.cache.idle <= engine.cache.capacity


def test_a_pair_takes_a_prefill_a_transfer_and_a_step() -> None:
    model = EngineModel(step_tokens=100_000)
    trace = Trace("one", [Session([Turn(6400, 3, list(range(100)), range(0, 101 * BLOCK, BLOCK))], 0.0)])
    (served,) = run(trace, "cache_aware", Fleet(prefill=1, decode=1, model=model)).served
    prefill, transfer = model.prefill_seconds(6400), model.transfer_seconds(6400)
    assert served.first_token == pytest.approx(prefill + transfer + model.decode_step(1, 6400))
    rest = model.decode_steps(2, 1, 6401)
    assert served.end == pytest.approx(served.first_token + rest)


def test_a_decode_engine_pulls_only_what_it_lacks() -> None:
    blocks, ends = list(range(100)), range(0, 101 * BLOCK, BLOCK)
    trace = Trace("twice", [Session([Turn(6400, 2, blocks, ends), Turn(6400, 2, blocks, ends, 5.0)], 0.0)])
    model = EngineModel(transfer=0.0, transfer_token=1e-3)
    first, second = run(trace, "cache_aware", Fleet(prefill=1, decode=1, model=model)).served
    assert first.first_token - first.arrival > 6.4
    assert second.first_token - second.arrival < 0.1


@pytest.mark.parametrize(("tells", "running"), [(True, 0), (False, 1)])
def test_the_router_hears_of_a_computed_prompt_at_once_or_when_it_was_taken_over(tells: bool, running: int) -> None:
    seen: list[int] = []

    def choose(candidates: Sequence[Candidate], prompt: Prompt, rng: Random) -> Candidate:
        seen.append(candidates[0].load.running_requests)
        return candidates[0]

    turn = Turn(6400, 3, list(range(100)), range(0, 101 * BLOCK, BLOCK))
    model = EngineModel(step_tokens=100_000, transfer=1000.0)
    later = model.prefill_seconds(6400) + 1.0
    trace = Trace("two", [Session([turn], 0.0), Session([turn], later)])
    run(trace, choose, Fleet(prefill=1, decode=1, model=model, tells_prefill=tells), decode_policy="request_num")
    assert seen == [0, running]


def test_prompt_tokens_are_cached_or_computed() -> None:
    computed: list[int] = []

    def make(view: View) -> Policy:
        def choose(candidates: Sequence[Candidate], prompt: Prompt, rng: Random) -> Candidate:
            computed[:] = [engine.computed_tokens for engine in view.engines.values()]
            return rng.choice(candidates)

        return choose

    trace = conversations(30, 4)
    # The last request's choice is made before its own prompt is computed, so one more round is played behind it.
    trace.sessions.append(Session([Turn(1, 1, [], [0])], None))
    for session in trace.sessions[:-1]:
        session.start = 0.0
    trace.sessions[-1].start = 1e6
    result = run(trace, Rival("watch", make), Fleet(3))
    assert sum(computed) + 1 == sum(result.uncached_tokens)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(["cache_aware", "power_of_two", "process_tokens"]))
def test_the_same_seed_gives_the_same_result(seed: int, policy: str) -> None:
    def play() -> Result:
        return run(conversations(10, 3), policy, Fleet(3, cache_tokens=8000), rate=3.0, seed=seed)

    assert play().requests == play().requests


def test_all_policies_see_the_same_arrivals() -> None:
    first = [
        sorted(r.arrival for r in run(conversations(20, 1), policy, Fleet(3), seed=5).requests)
        for policy in ("round_robin", "power_of_two")
    ]
    assert first[0] == first[1]


def test_what_fits_no_cache_is_refused_and_holds_nothing_up() -> None:
    trace = conversations(5, 3)
    result = run(trace, "cache_aware", Fleet(2, cache_tokens=1700))
    assert result.refused == 5
    assert len(result.served) == 10


def test_affinity_shows_in_the_hit_share() -> None:
    trace = conversations(40, 6)
    cold, warm = (run(trace, policy, Fleet(8), rate=2.0) for policy in ("round_robin", "cache_aware"))
    assert warm.hit_share > cold.hit_share + 0.1
    assert warm.first_token is not None
    assert cold.first_token is not None
    assert warm.first_token.mean < cold.first_token.mean


def test_answers_come_back_as_cached_tokens() -> None:
    blocks = list(range(20))
    ends = range(0, 21 * BLOCK, BLOCK)
    first = Turn(10 * BLOCK, 4 * BLOCK + 1, blocks[:10], ends[:11])
    second = Turn(20 * BLOCK, 1, blocks, ends)
    trace = Trace("two turns", [Session([first, second], 0.0)])
    link_sessions(trace.sessions, 100)
    assert [r.cached_tokens for r in run(trace, "round_robin", Fleet(1)).served] == [0, 14 * BLOCK]


def test_slower_engines_get_less_from_a_policy_that_learns() -> None:
    class Learning:
        def __init__(self) -> None:
            self.seconds: dict[Worker, float] = {}

        def __call__(self, candidates: Sequence[Candidate], prompt: Prompt, rng: Random) -> Candidate:
            return least(candidates, [self.seconds.get(row.worker, 0.0) for row in candidates], rng)

        def first_token(self, worker: Worker, prompt: Prompt, uncached_tokens: int, seconds: float) -> None:
            self.seconds[worker] = seconds

    result = run(conversations(50, 1), Learning(), Fleet(2, speeds=(1.0, 0.1)))
    by_worker = [sum(r.worker == worker for r in result.served) for worker in (0, 1)]
    assert by_worker[0] > 4 * by_worker[1]


def test_an_exact_view_beats_a_forgetful_index() -> None:
    fleet = Fleet(4, cache_tokens=20_000)
    trace = conversations(80, 5)
    believed = run(trace, "cache_aware", fleet, rate=6.0)
    known = run(trace, with_exact_matches(CacheAware(), "exact"), fleet, rate=6.0)
    assert all(r.believed_tokens >= r.cached_tokens for r in known.served if r.prompt_tokens % BLOCK)
    assert any(r.believed_tokens > r.cached_tokens for r in believed.served)


def test_what_engines_tell_of_their_caches_corrects_the_index() -> None:
    """Answers take room that the router knows nothing of, so it believes in prefixes that are gone."""
    trace = conversations(60, 6, answer=3000, own=16, shared=0)
    rng = Random(1)
    for session in trace.sessions:
        for turn in session.turns[1:]:
            turn.think = rng.expovariate(1 / 400)
    wrong = []
    for tells in (False, True):
        result = run(trace, "cache_aware", Fleet(2, cache_tokens=60_000, tells_cached=tells), rate=0.3)
        wrong.append(sum(max(0, r.believed_tokens - r.cached_tokens) for r in result.served))
    assert 0 < wrong[1] < wrong[0]


def test_the_view_foresees_what_the_queue_will_have_cached() -> None:
    seen: list[tuple[int, int, int]] = []

    def make(view: View) -> Policy:
        def choose(candidates: Sequence[Candidate], prompt: Prompt, rng: Random) -> Candidate:
            worker = candidates[0].worker
            assert view.turn is not None
            engine = view.engines[worker]
            seen.append((view.cached_tokens(worker), engine.foreseen_tokens(view.turn), engine.pending_tokens))
            return candidates[0]

        return choose

    blocks, ends = list(range(100)), range(0, 101 * BLOCK, BLOCK)
    sessions = [Session([Turn(100 * BLOCK, 1, blocks, ends)], at / 1000) for at in range(3)]
    run(Trace("burst", sessions), Rival("watch", make), Fleet(1, EngineModel(step_tokens=1000)))
    whole = 100 * BLOCK
    # The first is being computed when the second comes, so a step of it is done; the third waits behind both.
    assert seen == [(0, 0, 0), (0, whole, whole - 1000), (0, whole, whole - 1000)]


def test_the_view_predicts_the_first_token_of_an_idle_engine() -> None:
    predicted: list[float] = []

    def make(view: View) -> Policy:
        def choose(candidates: Sequence[Candidate], prompt: Prompt, rng: Random) -> Candidate:
            predicted.append(view.first_token_seconds(candidates[0].worker))
            return candidates[0]

        return choose

    trace = Trace("one", [Session([Turn(30_000, 5, [1, 2], [0, 15_000, 30_000])], 0.0)])
    result = run(trace, Rival("watch", make), Fleet(1, EngineModel()))
    assert result.first_token is not None
    assert predicted == [pytest.approx(result.first_token.mean, rel=1e-6)]
