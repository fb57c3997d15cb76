"""Why requests went where they went: the last decisions, in rows that were copied when each was made.

Nothing of a prompt's text is in them.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from warmroute.scheduling.witness import Witness
from warmroute.scheduling.worker import Candidate, Role

MOST_ROWS = 32
"""So many candidates of a choice are kept: the chosen one and the best of the others."""
_ROWS_IN_HEADER = 8


@dataclass(frozen=True, slots=True)
class Row:
    """A worker as the policy saw it. `score`: None where the policy has none; the least wins."""

    worker: str
    matched_tokens: int
    pending_prefill_tokens: int
    running_requests: int
    score: float | None


@dataclass(frozen=True, slots=True)
class Choice:
    """One choice: of a mixed worker, or of one side of a pair. `rows` begins with the chosen one, `candidates` tells
    how many there were.
    """

    role: Role
    policy: str
    worker: str
    candidates: int
    rows: tuple[Row, ...]


class Decision(Witness):
    """All choices that were made for one request, and what came of it. A witness of the scheduler.

    There is more than one choice with pairs, and where workers failed. `outcome` is empty while the request runs.
    """

    __slots__ = (
        "choices",
        "duration_seconds",
        "model",
        "outcome",
        "prompt_tokens",
        "request_id",
        "status",
        "time",
        "ttft_seconds",
    )

    def __init__(self, request_id: str, time: float, model: str | None, prompt_tokens: int) -> None:
        """`time` is in unix seconds."""
        self.request_id = request_id
        self.time = time
        self.model = model
        self.prompt_tokens = prompt_tokens
        self.choices: list[Choice] = []
        self.outcome = ""
        self.status = 0
        self.ttft_seconds: float | None = None
        self.duration_seconds: float | None = None

    def chose(
        self, role: Role, policy: str, candidates: Sequence[Candidate], chosen: Candidate, scores: Sequence[float]
    ) -> None:
        """Copy what the policy saw."""
        scored: Sequence[float | None] = scores or [None] * len(candidates)
        rows = [_row(candidate, score) for candidate, score in zip(candidates, scored, strict=True)]
        at = next(number for number, candidate in enumerate(candidates) if candidate is chosen)
        first = rows.pop(at)
        rows.sort(key=_rank)
        self.choices.append(Choice(role, policy, first.worker, len(candidates), (first, *rows[: MOST_ROWS - 1])))

    def ended(self, outcome: str, status: int, ttft_seconds: float | None, duration_seconds: float) -> None:
        """The request is over."""
        self.outcome = outcome
        self.status = status
        self.ttft_seconds = ttft_seconds
        self.duration_seconds = duration_seconds

    def header(self) -> bytes:
        """The decision so far, as the value of a header field: one line of JSON in ASCII, the first rows only."""
        choices = [
            {
                "role": choice.role,
                "policy": choice.policy,
                "worker": choice.worker,
                "candidates": choice.candidates,
                "rows": [_short(row) for row in choice.rows[:_ROWS_IN_HEADER]],
            }
            for choice in self.choices[-2:]
        ]
        fields = {"prompt_tokens": self.prompt_tokens, "choices_made": len(self.choices), "choices": choices}
        return json.dumps(fields, separators=(",", ":")).encode("ascii")


class DecisionLog:
    """The last decisions, newest last."""

    def __init__(self, kept: int) -> None:
        self._decisions: deque[Decision] = deque(maxlen=kept)

    def add(self, decision: Decision) -> None:
        """Keep one; the oldest goes."""
        self._decisions.append(decision)

    def newest(self, limit: int) -> list[Decision]:
        """The last `limit` decisions, newest first."""
        return list(reversed(self._decisions))[:limit]


def _row(candidate: Candidate, score: float | None) -> Row:
    load = candidate.load
    return Row(candidate.worker.id, candidate.matched_tokens, load.pending_prefill_tokens, load.running_requests, score)


def _rank(row: Row) -> tuple[float, int]:
    """The best first: by score, without one by the prompt that is matched."""
    return (0.0 if row.score is None else row.score, -row.matched_tokens)


def _short(row: Row) -> dict[str, object]:
    fields: dict[str, object] = {
        "worker": row.worker,
        "matched": row.matched_tokens,
        "pending": row.pending_prefill_tokens,
        "running": row.running_requests,
    }
    if row.score is not None:
        fields["score"] = round(row.score, 6)  # some policies score in seconds
    return fields
