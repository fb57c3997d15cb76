"""The comparison with other routers: its texts, its workloads, its verdicts, and one whole run."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from pathlib import Path

import pytest
from benchmarks.compare.__main__ import main
from benchmarks.compare.contestants import CONTESTANTS
from benchmarks.compare.engines import rendered_ids
from benchmarks.compare.play import Run, play
from benchmarks.compare.report import Row, as_json, chosen, sentence, table, verdicts
from benchmarks.compare.texts import MESSAGE_CHARS, TextSession, block_text, messages, prompt_text
from benchmarks.compare.workloads import (
    CLAUDE_CODE,
    CONVERSATION,
    LONGEST_SESSION,
    Workload,
    cold_groups,
    hot_prefixes,
    short_sessions,
    workloads,
)
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import routers
from warmroute.replay.trace import Session, Trace, Turn
from warmroute.simulation.tokens import TOKEN_BYTES, encode_chat

WORKLOAD = Workload("made", 0.5, 300_000, lambda: Trace("made", []))
RUN = Run(
    mean=2.0,
    p50=1.0,
    p99=9.0,
    cached_share=0.5,
    imbalance=1.1,
    requests=10,
    failed=0,
    not_sent=0,
    errors={},
    lag=0.01,
    busy=(0.1, 0.2, 0.3),
    machine_busy=0.5,
    seconds=3.0,
)


def alike(one: str, other: str) -> int:
    """How many characters two texts have in common at their beginnings."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def turn(*blocks: int, size: int = 16, more: int = 0) -> Turn:
    ends = range(0, (len(blocks) + 1) * size, size)
    return Turn(len(blocks) * size + more, 5, blocks, ends)


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(8, 600))
def test_texts_are_equal_for_equal_blocks_only(one: int, other: int, tokens: int):
    assert len(block_text(one, tokens)) == 4 * tokens
    assert block_text(one, 2 * tokens).startswith(block_text(one, tokens))
    assert (block_text(one, tokens) == block_text(other, tokens)) == (one == other)


def test_prompts_share_the_text_of_their_shared_blocks():
    one, other = prompt_text(turn(1, 2, 3), 7), prompt_text(turn(1, 2, 4, more=5), 8)
    assert len(one) == 4 * 48
    assert len(other) == 4 * 53
    shared = alike(one, other)
    # Two different words may begin with the same letters.
    assert 4 * 32 <= shared < 4 * 32 + 8


@given(st.integers(0, 40_000), st.integers(0, 40_000))
def test_equal_beginnings_become_equal_messages(shared: int, length: int):
    text = "".join(chr(97 + at % 26) for at in range(length))
    other = text[:shared] + "#"
    one, two = messages(text), messages(other)
    assert "".join(message["content"] for message in one) == text
    same = alike(text, other) // MESSAGE_CHARS
    assert one[:same] == two[:same]


def test_a_session_asks_what_was_recorded():
    session = TextSession(Session([turn(1, 2, more=3), turn(1, 2, 5)]), 4)
    body = session.body(0, [])
    assert len(session) == 2
    assert (body["max_tokens"], body["stream"]) == (5, True)
    # A message has two tokens around it, and one opens the answer.
    assert len(encode_chat(body["messages"])) // TOKEN_BYTES == 35 + 2 + 1


def test_rendered_ids_are_equal_as_far_as_prompts_are():
    def ids(*blocks: int) -> list[int]:
        return rendered_ids(json.dumps({"messages": messages(prompt_text(turn(*blocks, size=512), 0))}).encode())

    one, other = ids(1, 2, 3), ids(1, 2, 4)
    assert len(one) == 3 * 512 * 4 // 256
    assert one[: len(one) * 2 // 3] == other[: len(one) * 2 // 3]
    assert not set(one[len(one) * 2 // 3 :]) & set(other)


def test_the_made_workloads():
    cold = cold_groups(80)
    assert set(Counter(session.turns[0].blocks[0] for session in cold.sessions).values()) == {8}
    hot = hot_prefixes(400)
    most, *_ = Counter(session.turns[0].blocks[0] for session in hot.sessions).most_common()
    assert most[1] == pytest.approx(200, abs=40)
    for trace in (cold, hot):
        starts = [session.start for session in trace.sessions]
        assert starts == sorted(starts)
        own = [session.turns[0].blocks[1] for session in trace.sessions]
        assert len(set(own)) == len(own)


def test_without_traces_only_made_workloads():
    assert [one.name for one in workloads(None, 10)] == ["hot prefixes", "cold groups"]
    rates = {one.name: one.rate for one in workloads(Path("traces"), 10)}
    assert rates.pop("busy conversation") > 1.0
    assert set(rates.values()) == {1.0}
    assert len(rates) == 4


def test_long_sessions_are_cut():
    trace = Trace("t", [Session([turn(at) for at in range(50)]) for _ in range(4)])
    cut = short_sessions(trace, 40)
    assert [len(session.turns) for session in cut.sessions] == [LONGEST_SESSION] * 2


def test_the_best_peer_is_one_without_errors():
    def run(mean: float, failed: int = 0) -> list[Run]:
        return [dataclasses.replace(RUN, mean=mean, failed=failed)]

    runs = {
        "warmroute least_delay": run(1.0),
        "warmroute cache_aware": run(1.5),
        "smg": run(2.5),
        "vllm-router": run(0.5, failed=1),
        "round robin": run(0.1),
    }
    least, aware = verdicts(WORKLOAD, runs)
    assert (least.ours, least.peer, least.ratio, least.met) == ("warmroute least_delay", "smg", 0.4, True)
    assert (aware.ratio, aware.met) == (0.6, False)
    assert "missed" in sentence(aware)
    assert not verdicts(WORKLOAD, {"warmroute least_delay": run(1.0)})
    busy = {**runs, "smg": [dataclasses.replace(RUN, mean=2.5, lag=0.9)]}
    assert "not judged" in sentence(verdicts(WORKLOAD, busy)[0])
    told = as_json({WORKLOAD: runs}, {"smg": "1"}, {"speed": 10})["workloads"]["made"]
    assert told["verdicts"][1] == {**dataclasses.asdict(aware), "met": False}
    assert table(WORKLOAD, runs, 10).row_count == 5


def test_a_row_is_the_mean_and_the_worst():
    row = Row.of([RUN, dataclasses.replace(RUN, mean=4.0, lag=0.5, failed=2, not_sent=1, busy=(0.7, 0.1, 0.9))])
    assert (row.mean, row.lag, row.errors, row.busiest) == (3.0, 0.5, 3, 0.7)


def test_contestants_are_chosen_by_the_beginning_of_their_name():
    assert chosen([]) == list(CONTESTANTS)
    assert [one.name for one in chosen(["smg", "round"])] == ["smg", "smg, abs 8", "round robin"]
    with pytest.raises(ValueError, match="no contestant is called 'nginx'"):
        chosen(["nginx"])


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--only", "x"], "no contestant is called 'x'"),
        (["--workload", "x"], "no workload is called x"),
        (["--traces", "nowhere"], f"nowhere lacks {CONVERSATION}, {CLAUDE_CODE}"),
    ],
)
def test_what_is_not_there_is_said(argv: list[str], said: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as stopped:
        main(argv)
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err


async def test_one_run(tmp_path: Path):
    """Sixteen prompts of two groups, dealt in turn: each engine computes each group once."""
    turns = [Turn(400, 4, [at % 2, 100 + at], [0, 320, 400]) for at in range(32)]
    trace = Trace("t", [Session([one], 20.0 * at) for at, one in enumerate(turns)])
    run = await play(routers.warmroute(policy="round_robin"), WORKLOAD, trace, 1, 100.0, tmp_path)
    assert (run.requests, run.failed, run.not_sent) == (32, 0, 0)
    # Every eighth prompt is of the same group, so each engine has 4 of one group: 3 of them find it.
    assert run.cached_share == pytest.approx(3 / 4 * 320 / 403, abs=0.02)
    assert run.imbalance == pytest.approx(1.0, abs=0.01)
    assert run.mean > 0
