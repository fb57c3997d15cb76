"""The forms of recorded traffic: what becomes a block, a session and a pause."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from warmroute.prompts.ladder import Ladder
from warmroute.replay.readers.lines import TraceError
from warmroute.replay.readers.read import read_trace
from warmroute.replay.trace import Session, Trace, Turn


def write(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def request(**more: Any) -> dict[str, Any]:
    return {"in": 200, "out": 10, "h": [[1, 3]], **more}


def test_mooncakes_last_block_is_partial(tmp_path: Path) -> None:
    row = {"timestamp": 1500, "input_length": 1100, "output_length": 7, "hash_ids": [5, 6, 7]}
    (session,) = read_trace(write(tmp_path / "t", row)).sessions
    (turn,) = session.turns
    assert (session.start, turn.prompt_tokens, turn.output_tokens) == (1.5, 1100, 7)
    assert (list(turn.blocks), list(turn.ends)) == ([5, 6, 7], [0, 512, 1024, 1100])


def test_ragpulses_passages_count_only_where_they_stand(tmp_path: Path) -> None:
    row = {"timestamp": 0, "input_length": 40, "output_length": 1, "block_tokens": [10, 20, 5], "session_id": "s"}
    rows = [{**row, "hash_ids": ids} for ids in ([1, 2, 3], [1, 3, 2], [1, 2, 9])]
    one, other, third = (session.turns[0] for session in read_trace(write(tmp_path / "t", *rows)).sessions)
    assert one.blocks[0] == other.blocks[0]
    assert not {*one.blocks[1:]} & {*other.blocks[1:]}
    assert one.blocks[:2] == third.blocks[:2]
    assert list(one.ends) == [0, 10, 30, 35]


def test_ids_are_local_to_a_session_but_for_its_tools_and_system_prompt(tmp_path: Path) -> None:
    def session(name: str, tools: int, agent: str = "main") -> dict[str, Any]:
        sizes = {"tool_tokens": tools, "system_tokens": 28}
        return {"id": name, "block_size": 64, **sizes, "reqs": [request(agent=agent, t=0.0)]}

    rows = [session("a", 100), session("b", 100), session("c", 200), session("d", 100, "agent_001")]
    a, b, c, d = (one.turns[0].blocks for one in read_trace(write(tmp_path / "t", *rows)).sessions)
    assert list(a[:2]) == list(b[:2])
    assert a[2] != b[2]
    assert not {*a} & {*c}
    assert not {*a} & {*d}


def test_ids_are_the_files_own_without_sizes_of_tools(tmp_path: Path) -> None:
    rows = [{"id": name, "block_size": 64, "reqs": [request()]} for name in "ab"]
    a, b = (one.turns[0].blocks for one in read_trace(write(tmp_path / "t", *rows)).sessions)
    assert list(a) == list(b) == [1, 2, 3]


@pytest.mark.parametrize(
    ("requests", "think"),
    [
        ([request(t=0.0), request(t=90.0, think=12.0)], 12.0),
        ([request(t=0.0), request(t=9.0)], 9.0),
        ([request(t=0.0), request(t=900.0)], 60.0),
    ],
)
def test_the_pause_before_a_turn(tmp_path: Path, requests: list[dict[str, Any]], think: float) -> None:
    row = {"id": "a", "block_size": 64, "reqs": requests}
    (session,) = read_trace(write(tmp_path / "t", row)).sessions
    assert [turn.think for turn in session.turns] == [0.0, think]


def test_sessions_without_starts_begin_at_random_and_more_often_at_a_higher_rate() -> None:
    trace = Trace("t", [Session([Turn(1, 1, [], [0])]) for _ in range(2000)], session_rate=0.5)
    slow, fast = (trace.starts(rate, Random(1)) for rate in (1.0, 4.0))
    assert slow == sorted(slow)
    assert slow[-1] / 2000 == pytest.approx(2.0, rel=0.1)
    assert [4 * start for start in fast] == pytest.approx(slow)


def test_stamps_of_a_coarse_clock_are_spread_up_to_the_next_tick() -> None:
    stamps = [3.0 * tick for tick in range(10) for _ in range(20)]
    trace = Trace("t", [Session([Turn(1, 1, [], [0])], stamp) for stamp in stamps])
    starts = trace.starts(1.0, Random(1))
    assert min(starts) == 0.0
    # The last tick has no next one. All others are moved by less than one, and the first start is the origin.
    for tick, start in zip(stamps[:-20], starts, strict=False):
        assert -3.0 < start - tick < 3.0
    assert len(set(starts[:-20])) == 180


def test_fine_stamps_stay_as_they_are() -> None:
    trace = Trace("t", [Session([Turn(1, 1, [], [0])], stamp) for stamp in (5.0, 5.5, 9.0)])
    assert trace.starts(2.0, Random(1)) == [0.0, 0.25, 2.0]


def test_prompts_with_a_common_beginning_have_fingerprints_with_one() -> None:
    ends = range(0, 6 * 512, 512)
    turns = [Turn(2560, 1, blocks, ends) for blocks in ([1, 2, 3, 4, 5], [1, 2, 3, 8, 9])]
    trace = Trace("t", [Session([turn]) for turn in turns])
    ladder = Ladder.default()
    trace.prepare(ladder)
    one, other = (list(turn.prompt.fingerprint) for turn in turns)
    assert len(one) == ladder.depth(2560 * 4)
    assert one[: ladder.depth(1536 * 4)] == other[: ladder.depth(1536 * 4)]
    assert not {*one[ladder.depth(1536 * 4) :]} & {*other}


def test_bodies_share_blocks_as_their_text_does(tmp_path: Path) -> None:
    system = {"role": "system", "content": "s" * 4000}
    rows = [{"messages": [system, {"role": "user", "content": end * 400}], "max_tokens": 9} for end in "ab"]
    trace = read_trace(write(tmp_path / "t", *rows))
    one, other = (session.turns[0] for session in trace.sessions)
    shared = sum(a == b for a, b in zip(one.blocks, other.blocks, strict=True))
    assert shared * 16 == pytest.approx(1000, abs=40)
    assert (one.output_tokens, trace.sessions[0].start) == (9, None)


def test_conversations_are_closed_loops(tmp_path: Path) -> None:
    talk = [{"role": "user", "content": "question" * 20}, {"role": "assistant", "content": "answer " * 30}]
    path = tmp_path / "t"
    path.write_text(json.dumps([{"traj": [*talk, *talk, *talk]}]))
    (session,) = read_trace(path).sessions
    assert len(session.turns) == 3
    assert session.turns[1].think > 0
    first, second = session.turns[:2]
    assert list(second.blocks[: len(first.blocks)]) == list(first.blocks)
    # The answer comes back in the next turn, so the engine will find it in its cache.
    assert first.answered is second.blocks
    assert len(first.blocks) < first.answered_depth <= len(second.blocks)


def line(**more: Any) -> dict[str, Any]:
    known = {"request_id": "r", "path": "/v1/completions", "status": 200, "outcome": "served", "duration": 2.0}
    return {"time": 1000.0, **known, "prompt_tokens": 200, "output_tokens": 5, "prefix": ["0a", "0b"], **more}


def test_sessions_of_an_access_log_are_closed_loops_and_the_rest_is_not(tmp_path: Path) -> None:
    rows = [
        line(session_id="s"),
        line(time=1010.5, session_id="s", prefix=["0a", "0b", "0c"]),
        line(time=1003.0),
        line(time=1004.0, status=503, outcome="refused", prompt_tokens=None, prefix=None),
    ]
    trace = read_trace(write(tmp_path / "t", *rows))
    assert [(session.start, len(session.turns)) for session in trace.sessions] == [(1000.0, 2), (1003.0, 1)]
    first, second = trace.sessions[0].turns
    assert second.think == 8.5
    assert list(first.blocks) == [10, 11]
    assert first.ends[2] == 128


def test_an_access_log_with_fixed_blocks(tmp_path: Path) -> None:
    (session,) = read_trace(write(tmp_path / "t", line(block_tokens=32))).sessions
    assert session.turns[0].ends[2] == 64


def test_lines_of_an_access_log_that_are_cut_off_are_left_out_and_told(tmp_path: Path, caplog) -> None:
    path = write(tmp_path / "t", line(), line(time=1003.0), line(time=1004.0))
    first, second, third = path.read_bytes().splitlines()
    path.write_bytes(b"\n".join([first, second[:40], third[:90]]))
    assert len(read_trace(path).sessions) == 1
    assert [record.message for record in caplog.records] == [
        f"{path}:{number}: left out, the line is cut off" for number in (2, 3)
    ]
    path.write_bytes(first + b"\n{nonsense}\n")
    with pytest.raises(TraceError, match=":2:"):
        read_trace(path)


def test_an_access_log_without_prefixes_is_no_trace(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="--access-log-prefixes"):
        read_trace(write(tmp_path / "t", line(prefix=None)))


@pytest.mark.parametrize("data", [b"", b"\n\n"])
def test_an_empty_file_is_said_to_be_empty(tmp_path, data) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_bytes(data)
    with pytest.raises(TraceError, match=r"empty\.jsonl: the file is empty"):
        read_trace(path)
