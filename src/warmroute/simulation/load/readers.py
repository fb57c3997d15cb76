"""Reads recorded workloads: JSON lines with one OpenAI body each, or the conversation files of tau-bench."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from warmroute.simulation.load.workload import RecordedBody, Session

CHARS_PER_TOKEN = 4


class WorkloadError(ValueError):
    """A workload that cannot be read. The message names the file and the place in it."""


def read_sessions(path: Path) -> list[Session]:
    """Sessions of a file, which may be gzipped. Raises WorkloadError."""
    data = _content(path)
    if data.lstrip()[:1] == b"[":
        return _read_conversations(path, data)
    return _read_lines(path, data)


def _content(path: Path) -> bytes:
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    except OSError as error:
        raise WorkloadError(f"{path}: {error.strerror or error}") from None
    except (EOFError, zlib.error) as error:
        raise WorkloadError(f"{path}: the gzip data is damaged: {error}") from None


def _read_lines(path: Path, data: bytes) -> list[Session]:
    sessions: list[Session] = []
    for number, line in enumerate(data.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            body = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise WorkloadError(f"{path}:{number}: not valid JSON: {error}") from None
        if not isinstance(body, dict) or not ("messages" in body or "prompt" in body):
            raise WorkloadError(f"{path}:{number}: not an OpenAI body: an object with `messages` or `prompt` is wanted")
        sessions.append(RecordedBody(body))
    if not sessions:
        raise WorkloadError(f"{path}: no requests in it")
    return sessions


def _read_conversations(path: Path, data: bytes) -> list[Session]:
    try:
        rows = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise WorkloadError(f"{path}: not valid JSON: {error}") from None
    sessions: list[Session] = []
    for number, row in enumerate(rows, start=1):
        messages = row.get("traj") if isinstance(row, dict) else None
        if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
            raise WorkloadError(f"{path}: conversation {number}: an object with a list `traj` of messages is wanted")
        conversation = Conversation(messages)
        if len(conversation):
            sessions.append(conversation)
    if not sessions:
        raise WorkloadError(f"{path}: no assistant turn in it")
    return sessions


@dataclass(frozen=True, slots=True)
class Conversation:
    """A recorded conversation: one request for each assistant turn, with the recorded messages before it.

    `max_tokens` is the length of the recorded turn, four characters a token, so that the engine works as long as the
    recorded one; what it answers is not used.
    """

    messages: Sequence[Mapping[str, Any]]
    needs_answers = False

    def __len__(self) -> int:
        return len(self._answers())

    def _answers(self) -> list[int]:
        return [at for at, message in enumerate(self.messages) if at and message.get("role") == "assistant"]

    def body(self, turn: int, answers: Sequence[str]) -> dict[str, Any]:
        """The streamed chat request that asks for the assistant turn number `turn`."""
        at = self._answers()[turn]
        return {
            "messages": list(self.messages[:at]),
            "max_tokens": max(1, answer_characters(self.messages[at]) // CHARS_PER_TOKEN),
            "stream": True,
        }


def answer_characters(message: Mapping[str, Any]) -> int:
    """Characters that the model wrote for a message: its text and its tool calls as JSON."""
    content = message.get("content")
    calls = message.get("tool_calls")
    written = content if isinstance(content, str) else ""
    return len(written) + (len(json.dumps(calls, ensure_ascii=False, separators=(",", ":"))) if calls else 0)
