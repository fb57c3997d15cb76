"""Builds what the simulated engine answers: JSON objects and SSE chunks in the form of the OpenAI API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from warmroute.simulation.api_request import Kind
from warmroute.simulation.job import FinishReason, Job
from warmroute.simulation.tokens import unpack_ids

DONE = b"data: [DONE]\n\n"


def usage(jobs: Sequence[Job]) -> dict[str, Any]:
    """Tokens of all choices of one answer."""
    prompt = sum(job.prompt_tokens for job in jobs)
    completion = sum(len(job.words) for job in jobs)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": sum(job.cached_tokens for job in jobs)},
    }


def error_event(body: Mapping[str, Any]) -> bytes:
    """An error in the middle of a stream."""
    return b"data: " + msgspec.json.encode(body) + b"\n\n"


def word_ids(words: Sequence[str]) -> list[int]:
    """The token ids of answer words."""
    return unpack_ids("".join(words).encode("ascii"))


class Writer(Protocol):
    """Writes one answer: `whole` for a client that waits, the others for one that streams."""

    def whole(self, jobs: Sequence[Job], members: Mapping[str, Any]) -> bytes:
        """The answer in one piece, with these further members."""

    def opening(self, index: int) -> bytes:
        """What precedes the first token of a choice."""

    def tokens(self, index: int, job: Job, words: Sequence[str], reason: FinishReason | None) -> bytes:
        """New words of a choice; `reason` goes with the last. Without words, a reason gets an event of its own."""

    def usage(self, jobs: Sequence[Job]) -> bytes:
        """The event that tells the usage."""


class AnswerWriter:
    """Writes answers in the form of the OpenAI API."""

    def __init__(self, kind: Kind, answer_id: str, model: str, created: int) -> None:
        self._kind = kind
        self._head = {"id": answer_id, "created": created, "model": model}
        self._object = "chat.completion" if kind == "chat" else "text_completion"

    def whole(self, jobs: Sequence[Job], members: Mapping[str, Any]) -> bytes:
        """The answer in one JSON object."""
        choices = [self._choice(index, job) for index, job in enumerate(jobs)]
        answer = {**self._head, "object": self._object, "choices": choices, "usage": usage(jobs), **members}
        return msgspec.json.encode(answer)

    def _choice(self, index: int, job: Job) -> dict[str, Any]:
        """FastDeploy tells the token ids with which an answer was gone on with, for another engine to do the same."""
        choice: dict[str, Any] = {"index": index, "logprobs": None, "finish_reason": job.finish_reason}
        text = "".join(job.words)
        ids = (
            {"completion_token_ids": word_ids(job.words[job.spoken :])} if job.finish_reason == "pd_reschedule" else {}
        )
        if self._kind == "chat":
            return choice | {"message": {"role": "assistant", "content": text, **ids}}
        return choice | {"text": text, **ids}

    def opening(self, index: int) -> bytes:
        """What precedes the first token of a choice: in a chat, the chunk that names the role."""
        if self._kind == "chat":
            return self._chunk([self._delta(index, {"role": "assistant", "content": ""}, None)])
        return b""

    def tokens(self, index: int, job: Job, words: Sequence[str], reason: FinishReason | None) -> bytes:
        """One chunk a word; `reason` goes with the last. Without words, a reason gets a chunk of its own."""
        texts = words or ([""] if reason else [])
        last = len(texts) - 1
        return b"".join(self._text_chunk(index, text, reason if at == last else None) for at, text in enumerate(texts))

    def _text_chunk(self, index: int, text: str, reason: FinishReason | None) -> bytes:
        if self._kind == "chat":
            return self._chunk([self._delta(index, {"content": text}, reason)])
        return self._chunk([{"index": index, "text": text, "logprobs": None, "finish_reason": reason}])

    def usage(self, jobs: Sequence[Job]) -> bytes:
        """The chunk without choices that tells the usage."""
        return self._chunk([], usage(jobs))

    def _delta(self, index: int, delta: dict[str, str], reason: FinishReason | None) -> dict[str, Any]:
        return {"index": index, "delta": delta, "logprobs": None, "finish_reason": reason}

    def _chunk(self, choices: list[dict[str, Any]], usage: dict[str, Any] | None = None) -> bytes:
        kind = "chat.completion.chunk" if self._kind == "chat" else self._object
        body = {**self._head, "object": kind, "choices": choices}
        if usage is not None:
            body["usage"] = usage
        return b"data: " + msgspec.json.encode(body) + b"\n\n"
