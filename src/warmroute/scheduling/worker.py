"""A worker as the scheduler sees it: who it is, what it carries, what it last reported."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from warmroute.scheduling.pace import Pace

Role = Literal["mixed", "prefill", "decode"]
ROLES: tuple[Role, ...] = get_args(Role)
"""All roles; FastDeploy numbers them in this order."""


class Load:
    """What open leases hold on one worker. Only the ledger changes it; everybody may read it.

    Of our own policies only `kv_room` reads `active_tokens`.
    """

    __slots__ = ("active_tokens", "pending_prefill_tokens", "running_requests")

    def __init__(self) -> None:
        self.running_requests = 0
        self.pending_prefill_tokens = 0
        self.active_tokens = 0

    def __repr__(self) -> str:
        return (
            f"Load(running_requests={self.running_requests}, "
            f"pending_prefill_tokens={self.pending_prefill_tokens}, active_tokens={self.active_tokens})"
        )


class Tally:
    """What one worker was given and how fast it answered, since it joined. Sums only: whoever wants a rate or a mean of
    a while compares two readings.

    The ledger counts requests and their prompts (of a pair, where the prompt is computed), the gateway first bytes of
    good answers (for a prefill worker also of its decode worker's, if that comes first) with the `ttft_seconds` they
    took from the complete request on, `streams` with the sum of the mean
    times between two of their pieces, and what the engine reported of its cache: `reported_prompt_tokens` by its own
    count, `reported_cached_tokens` of them.
    """

    __slots__ = (
        "first_tokens",
        "inter_token_seconds",
        "matched_tokens",
        "prompt_tokens",
        "reported_cached_tokens",
        "reported_prompt_tokens",
        "requests",
        "streams",
        "ttft_seconds",
    )

    def __init__(self) -> None:
        self.requests = 0
        self.prompt_tokens = 0
        self.matched_tokens = 0
        self.first_tokens = 0
        self.ttft_seconds = 0.0
        self.streams = 0
        self.inter_token_seconds = 0.0
        self.reported_prompt_tokens = 0
        self.reported_cached_tokens = 0


@dataclass(frozen=True, slots=True)
class EngineReport:
    """What an engine's own metrics said at the last poll. The poller drops a report that is too old."""

    running_requests: float
    waiting_requests: float
    free_kv_blocks: float | None = None


class Worker:
    """The scheduler's record of one engine endpoint. It outlives its removal until its last lease is back.

    `cache_tokens` bounds what the prefix index believes of this worker, in tokens. `departed` is true while it is no
    member of the fleet: a lease that is opened on it all the same (the choice was made among the workers of a moment
    ago) is counted, but nothing of it is remembered, since nobody would ever ask to forget it. `suspect` is true while
    the fleet wants to hear of every attempt on it, good ones too. `tells_prefill` is false for a prefill worker whose
    answer waits for the decode worker: it tells nothing of how long the prompt took.
    """

    __slots__ = (
        "__weakref__",
        "cache_tokens",
        "candidate",
        "departed",
        "id",
        "load",
        "report",
        "role",
        "suspect",
        "tally",
        "tells_prefill",
        "url",
    )

    def __init__(self, worker_id: str, url: str, role: Role = "mixed", cache_tokens: int = 500_000) -> None:
        self.id = worker_id
        self.url = url
        self.role: Role = role
        self.cache_tokens = cache_tokens
        self.departed = False
        self.suspect = False
        self.tells_prefill = True
        self.load = Load()
        self.tally = Tally()
        self.report: EngineReport | None = None
        self.candidate = Candidate(self)

    def __repr__(self) -> str:
        return f"Worker({self.id!r}, role={self.role!r}, {self.load!r})"


class Candidate:
    """One row that a policy sees. Kept per worker and reused; `matched_tokens` is filled for each decision."""

    __slots__ = ("load", "matched_tokens", "pace", "worker")

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.load = worker.load
        self.pace = Pace()
        self.matched_tokens = 0

    @property
    def report(self) -> EngineReport | None:
        """The engine's own figures, or None when none are fresh."""
        return self.worker.report


@dataclass(frozen=True, slots=True)
class Pool:
    """The routable workers of one role (and model), as policies see them. Rebuilt when the fleet changes."""

    role: Role
    candidates: Sequence[Candidate] = ()
    members: frozenset[Candidate] = field(init=False, repr=False, compare=False)
    """The candidates once more, to answer quickly whether a policy returned one of them."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "members", frozenset(self.candidates))

    def is_left(self, excluding: Collection[Worker]) -> bool:
        """Whether there is a worker that is none of these."""
        return any(row.worker not in excluding for row in self.candidates)
