"""Recorded workloads: what is read, and what a bad file is told."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from warmroute.simulation.load.readers import WorkloadError, answer_characters, read_sessions

CALLS = [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"a":1}'}}]
CONVERSATION = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "x" * 41},
    {"role": "user", "content": "And?"},
    {"role": "assistant", "content": None, "tool_calls": CALLS},
    {"role": "tool", "content": "42", "tool_call_id": "c1"},
    {"role": "assistant", "content": "ab"},
    {"role": "user", "content": "Bye"},
]


@pytest.fixture
def write(tmp_path: Path):
    def write_file(content: bytes | str, name: str = "load") -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write_file


def test_each_line_is_a_session_of_one_body(write):
    bodies = [{"prompt": "one", "max_tokens": 3}, {"messages": CONVERSATION[:2], "model": "m"}]
    sessions = read_sessions(write("\n\n".join(map(json.dumps, bodies)) + "\n"))
    assert [session.body(0, []) for session in sessions] == bodies
    assert [len(session) for session in sessions] == [1, 1]


def test_each_assistant_turn_is_a_request_with_the_turns_before_it(write):
    [session] = read_sessions(write(json.dumps([{"traj": CONVERSATION, "reward": 1.0}])))
    assert len(session) == 3
    bodies = [session.body(turn, []) for turn in range(3)]
    assert [body["messages"] for body in bodies] == [CONVERSATION[:2], CONVERSATION[:4], CONVERSATION[:6]]
    assert [body["max_tokens"] for body in bodies] == [10, answer_characters(CONVERSATION[4]) // 4, 1]
    assert all(body["stream"] is True for body in bodies)


def test_tool_calls_count_as_what_the_model_wrote():
    written = json.dumps(CALLS, separators=(",", ":"))
    assert answer_characters({"content": None, "tool_calls": CALLS}) == len(written)
    assert answer_characters({"content": "abc", "tool_calls": CALLS}) == 3 + len(written)


@pytest.mark.parametrize("content", [json.dumps([{"traj": CONVERSATION}]), '{"prompt": "x"}'])
def test_gzipped_files_are_read_whatever_their_name(write, content):
    plain, packed = read_sessions(write(content)), read_sessions(write(gzip.compress(content.encode())))
    assert [s.body(0, []) for s in plain] == [s.body(0, []) for s in packed]


def test_conversations_without_an_assistant_turn_are_left_out(write):
    path = write(json.dumps([{"traj": CONVERSATION[:2]}, {"traj": CONVERSATION}]))
    assert len(read_sessions(path)) == 1


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('{"prompt":"x"}\n{"prompt":', "load:2: not valid JSON"),
        ('{"prompt":"x"}\n\n7\n', "load:3: not an OpenAI body"),
        ('{"input":"x"}', "load:1: not an OpenAI body"),
        (b'{"prompt":"\xff"}', "load:1: not valid JSON"),
        ("", "load: no requests"),
        ("[", "load: not valid JSON"),
        ("[]", "load: no assistant turn"),
        ('[{"traj":[]}]', "load: no assistant turn"),
        ('[{"traj":[]},{"turns":[]}]', "load: conversation 2: an object with a list `traj`"),
        ('[{"traj":["hi"]}]', "load: conversation 1: an object with a list `traj`"),
        (gzip.compress(b'{"prompt":"x"}' * 100, mtime=0)[:-20], "load: the gzip data is damaged"),
    ],
)
def test_a_bad_file_is_told_with_its_place(write, content, told):
    with pytest.raises(WorkloadError, match=told):
        read_sessions(write(content))


def test_a_missing_file_is_told(tmp_path):
    with pytest.raises(WorkloadError, match="none: No such file"):
        read_sessions(tmp_path / "none")
