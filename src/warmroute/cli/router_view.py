"""What the terminal commands read of the admin endpoints. What a newer router tells besides is passed over."""

from __future__ import annotations

from msgspec import Struct


class Worker(Struct):
    """One row of the fleet; shares are 0 to 1, times are seconds."""

    id: str
    role: str
    state: str
    can_be_chosen: bool
    running: int
    pending_prefill_tokens: int
    requests_per_second: float
    hit_share: float | None
    ttft_seconds: float | None
    breaker: str = "closed"
    stuck: bool = False
    dialect: str | None = None

    @property
    def condition(self) -> str:
        """The one word for people: what keeps requests away, or the state."""
        if self.stuck:
            return "stuck"
        return self.state if self.breaker == "closed" else f"breaker {self.breaker.replace('_', ' ')}"


class Totals(Struct):
    """The fleet."""

    workers: int
    routable: int
    running: int
    pending_prefill_tokens: int
    requests_per_second: float
    errors_per_second: float
    hit_share: float | None
    ttft_p50_seconds: float | None
    ttft_p99_seconds: float | None
    queued: int = 0


class State(Struct):
    """The router at one moment."""

    version: str
    uptime_seconds: float
    mode: str
    policies: dict[str, str]
    can_serve: bool
    totals: Totals
    workers: list[Worker]

    @property
    def policy(self) -> str:
        """The names of all policies."""
        return " + ".join(dict.fromkeys(self.policies.values()))


class Sample(Struct):
    """A few seconds of the past."""

    requests_per_second: float
    ttft_p50_seconds: float | None
    hit_share: float | None


class History(Struct):
    """The last minutes, oldest first."""

    interval_seconds: float
    samples: list[Sample]
