"""What a load run measured: one record per request, and the summary of all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Record:
    """One request. Times are seconds since it was sent; `error` is the kind of failure, None for a complete answer."""

    error: str | None = None
    first_token_seconds: float | None = None
    total_seconds: float = 0.0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    worker: str | None = None
    text: str = ""


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` (0 to 1) of the sorted `values` lie, interpolated between its two neighbours."""
    position = share * (len(values) - 1)
    low = int(position)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (position - low)


@dataclass(frozen=True, slots=True)
class Spread:
    """How a time is distributed, in seconds."""

    mean: float
    p50: float
    p90: float
    p99: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread | None:
        """None when there are no values."""
        if not values:
            return None
        ordered = sorted(values)
        return cls(sum(ordered) / len(ordered), *(percentile(ordered, share) for share in (0.5, 0.9, 0.99)))

    def as_dict(self) -> dict[str, float]:
        """For JSON, rounded to microseconds."""
        return {name: round(getattr(self, name), 6) for name in ("mean", "p50", "p90", "p99")}


@dataclass(frozen=True, slots=True)
class Summary:
    """A whole run. Times and tokens are those of complete answers; `not_sent` were given up after a failure or stop."""

    elapsed_seconds: float
    requests: int
    not_sent: int
    errors: dict[str, int] = field(default_factory=dict)
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    first_token: Spread | None = None
    total: Spread | None = None
    workers: dict[str, int] = field(default_factory=dict)

    @property
    def failed(self) -> int:
        """Requests without a complete answer."""
        return sum(self.errors.values())

    @property
    def cached_share(self) -> float | None:
        """Part of the prompt tokens that came out of a cache, as the engines told it."""
        return self.cached_tokens / self.prompt_tokens if self.prompt_tokens else None

    @property
    def output_tokens_per_second(self) -> float:
        """Over the whole run."""
        return self.output_tokens / self.elapsed_seconds if self.elapsed_seconds else 0.0

    @property
    def busiest_over_mean(self) -> float | None:
        """Requests of the busiest worker over the mean of those that got any; None when no worker was named."""
        if not self.workers:
            return None
        return max(self.workers.values()) * len(self.workers) / sum(self.workers.values())

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "elapsed_seconds": round(self.elapsed_seconds, 3),
            "requests": self.requests,
            "completed": self.requests - self.failed,
            "failed": self.failed,
            "not_sent": self.not_sent,
            "errors": self.errors,
            "prompt_tokens": self.prompt_tokens,
            "cached_tokens": self.cached_tokens,
            "cached_share": None if self.cached_share is None else round(self.cached_share, 5),
            "output_tokens": self.output_tokens,
            "output_tokens_per_second": round(self.output_tokens_per_second, 2),
            "first_token_seconds": self.first_token and self.first_token.as_dict(),
            "total_seconds": self.total and self.total.as_dict(),
            "requests_per_worker": self.workers,
            "busiest_worker_over_mean": self.busiest_over_mean and round(self.busiest_over_mean, 4),
        }


def summarise(records: Sequence[Record], elapsed_seconds: float, planned: int) -> Summary:
    """Sum up the records of a run that was to send `planned` requests."""
    complete = [record for record in records if record.error is None]
    return Summary(
        elapsed_seconds=elapsed_seconds,
        requests=len(records),
        not_sent=planned - len(records),
        errors=dict(Counter(record.error for record in records if record.error is not None).most_common()),
        prompt_tokens=sum(record.prompt_tokens for record in complete),
        cached_tokens=sum(record.cached_tokens for record in complete),
        output_tokens=sum(record.output_tokens for record in complete),
        first_token=Spread.of([r.first_token_seconds for r in complete if r.first_token_seconds is not None]),
        total=Spread.of([record.total_seconds for record in complete]),
        workers=dict(sorted(Counter(record.worker for record in records if record.worker is not None).items())),
    )
