"""SGLang's own `/generate`: prompts as `text` or `input_ids`, answers with `meta_info`, log probabilities if wanted.

A list of prompts gets a list of answers; the events of its stream name theirs by `index`. Every event of a stream has
the whole text so far. Log probabilities are made up, but always the same for the same token at the same place. Those of
the prompt are known to the engine that has computed it: a decode engine tells none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from xxhash import xxh3_64_intdigest

from warmroute.simulation.api_answer import word_ids
from warmroute.simulation.api_errors import ApiError
from warmroute.simulation.api_request import NATURAL_LENGTH, GenerationRequest, read_prompts, room_for_answer, typed
from warmroute.simulation.job import FinishReason, Job
from warmroute.simulation.tokens import TOKEN_BYTES, unpack_ids

Entry = tuple[float | None, int, None]
"""Log probability (None where it is not known), token id, text (never told)."""


@dataclass(frozen=True, slots=True)
class NativeOptions:
    """How the answers look. `logprob_start` is the first prompt token that gets an entry; -1: none does."""

    batch: bool
    return_logprob: bool
    logprob_start: int


def read_native(fields: dict[str, Any], context_tokens: int) -> tuple[GenerationRequest, NativeOptions]:
    """A request to `/generate`. Raises ApiError."""
    name = "text" if fields.get("text") is not None else "input_ids"
    prompts = read_prompts(fields.get(name), name)
    sampling = typed(fields, "sampling_params", dict, "an object") or {}
    limit = typed(sampling, "max_new_tokens", int, "an integer")
    if limit is not None and limit < 1:
        raise ApiError("`max_new_tokens` must be at least 1.", param="max_new_tokens")
    room = room_for_answer(prompts, limit, context_tokens)
    request = GenerationRequest(
        kind="generate",
        model="",
        prompts=prompts,
        max_tokens=limit or min(NATURAL_LENGTH, room),
        finishes_with="length",
        stream=bool(typed(fields, "stream", bool, "a boolean")),
        include_usage=False,
        salt=0,
        request_id=typed(fields, "rid", str, "a string"),
    )
    start = typed(fields, "logprob_start_len", int, "an integer")
    value = fields[name]
    batch = isinstance(value, list) and not isinstance(value[0], int)
    wanted = bool(typed(fields, "return_logprob", bool, "a boolean"))
    return request, NativeOptions(batch, wanted, -1 if start is None else start)


class NativeWriter:
    """Writes answers in SGLang's own form."""

    def __init__(self, options: NativeOptions, answer_id: str) -> None:
        self._options = options
        self._answer_id = answer_id

    def whole(self, jobs: Sequence[Job], members: Mapping[str, Any]) -> bytes:
        """One answer object, or the list of them."""
        answers = [self._answer(index, job, job.finish_reason) for index, job in enumerate(jobs)]
        return msgspec.json.encode(answers if self._options.batch else answers[0])

    def opening(self, index: int) -> bytes:
        """Nothing."""
        return b""

    def tokens(self, index: int, job: Job, words: Sequence[str], reason: FinishReason | None) -> bytes:
        """One event with all that there is so far."""
        if not words and reason is None:
            return b""
        answer = self._answer(index, job, reason)
        if self._options.batch:
            answer["index"] = index
        return b"data: " + msgspec.json.encode(answer) + b"\n\n"

    def usage(self, jobs: Sequence[Job]) -> bytes:
        """Nothing: it is in `meta_info`."""
        return b""

    def _answer(self, index: int, job: Job, reason: FinishReason | None) -> dict[str, Any]:
        meta: dict[str, Any] = {
            "id": f"{self._answer_id}-{index}" if self._options.batch else self._answer_id,
            "finish_reason": None if reason is None else {"type": reason, "length": len(job.words)},
            "prompt_tokens": job.prompt_tokens,
            "completion_tokens": len(job.words),
            "cached_tokens": job.cached_tokens,
        }
        if self._options.return_logprob:
            known = self._options.logprob_start >= 0 and not job.receives
            meta["input_token_logprobs"] = _entries(job.prompt, self._options.logprob_start) if known else []
            answer = job.prompt + "".join(job.words).encode("ascii")
            meta["output_token_logprobs"] = _entries(answer, job.prompt_tokens)
        return {"text": "".join(job.words), "output_ids": word_ids(job.words), "meta_info": meta}


def _entries(packed: bytes, start: int) -> list[Entry]:
    """Of the tokens from `start`; nothing precedes the first one, so its probability is not known."""
    ids = unpack_ids(packed)
    return [(_logprob(packed, at) if at else None, ids[at], None) for at in range(start, len(ids))]


def _logprob(packed: bytes, at: int) -> float:
    """Depends on the token and the eight before it; a multiple of 2^-12, so that its JSON is short and exact."""
    end = (at + 1) * TOKEN_BYTES
    return -(xxh3_64_intdigest(packed[max(0, end - 9 * TOKEN_BYTES) : end]) % 2**14) / 2**12
