"""The state of a router as the admin endpoints tell it, read from memory when it is asked for."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from functools import lru_cache

from warmroute.control.admin_models import (
    HistorySample,
    PrefixFlow,
    RouterHistory,
    RouterState,
    Totals,
    WorkerView,
)
from warmroute.control.parts import ControlParts
from warmroute.fleet import Member
from warmroute.scheduling.recent_prefixes import group_prefixes
from warmroute.scheduling.worker import ROLES, Role
from warmroute.telemetry.history import INTERVAL_SECONDS, Sample

_FLOWS_SECONDS = 5.0
"""Where prompts go takes longest to find out, and is no news every second."""


class Snapshots:
    """Makes states and histories. Keeps nothing but the flows of a moment ago."""

    def __init__(
        self,
        parts: ControlParts,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._parts = parts
        self._clock = clock
        self._wall_clock = wall_clock
        self._started = clock()
        self._flows: list[PrefixFlow] = []
        self._flows_until = 0.0
        self._is_splitwise = parts.config.server.splitwise
        roles: tuple[Role, ...] = ("prefill", "decode") if self._is_splitwise else ("mixed",)
        self._policies: dict[str, str] = {role: parts.scheduler.policy_name(role) for role in roles}

    def state(self) -> RouterState:
        """The router at this moment."""
        now = self._clock()
        fleet = self._parts.fleet
        members = sorted(fleet.members, key=lambda member: (ROLES.index(member.role), _as_counted(member.id)))
        return RouterState(
            version=self._parts.version,
            time=self._wall_clock(),
            uptime_seconds=now - self._started,
            mode="splitwise" if self._is_splitwise else "mixed",
            policies=self._policies,
            can_serve=fleet.can_serve() and not self._parts.is_draining(),
            totals=self._totals(members, now),
            workers=[self._worker(member, now) for member in members],
            flows=self._flows_at(now),
        )

    def history(self) -> RouterHistory:
        """The last 15 minutes."""
        samples = [HistorySample(**sample._asdict()) for sample in self._parts.history.samples]
        return RouterHistory(interval_seconds=INTERVAL_SECONDS, samples=samples)

    def newest_sample(self) -> HistorySample | None:
        """The newest of the history, if there is one yet."""
        samples = self._parts.history.samples
        return HistorySample(**samples[-1]._asdict()) if samples else None

    def _totals(self, members: list[Member], now: float) -> Totals:
        # Not the newest sample, which may be seconds older than what is told of each worker.
        last = self._parts.history.latest(now, self._wall_clock()) or Sample(0.0, 0.0, 0.0, None, None, None, 0)
        # With pairs, a request runs on two workers: it is counted where its answer comes from.
        answering = [member for member in members if member.role != "prefill"]
        return Totals(
            workers=len(members),
            routable=sum(map(self._can_be_chosen, members)),
            running=sum(member.running for member in answering),
            queued=self._parts.metrics.queue_length,
            pending_prefill_tokens=sum(member.worker.load.pending_prefill_tokens for member in members),
            requests_per_second=last.requests_per_second,
            errors_per_second=last.errors_per_second,
            hit_share=last.hit_share,
            ttft_p50_seconds=last.ttft_p50_seconds,
            ttft_p99_seconds=last.ttft_p99_seconds,
        )

    def _worker(self, member: Member, now: float) -> WorkerView:
        worker = member.worker
        recent = self._parts.history.recent(worker, now)
        return WorkerView(
            id=member.id,
            url=member.url,
            role=member.role,
            state=member.state,
            breaker=member.breaker.state.value,
            stuck=member.stuck_since is not None,
            can_be_chosen=self._can_be_chosen(member),
            running=worker.load.running_requests,
            pending_prefill_tokens=worker.load.pending_prefill_tokens,
            requests_per_second=recent.requests_per_second,
            hit_share=recent.hit_share,
            ttft_seconds=recent.ttft_seconds,
            known_prefix_tokens=self._parts.scheduler.index.tokens(worker),
            cache_tokens=worker.cache_tokens,
            dialect=member.dialect.name if member.dialect else None,
            models=sorted(member.model_ids),
            source=member.source,
        )

    def _can_be_chosen(self, member: Member) -> bool:
        return member.worker.candidate in self._parts.fleet.pool(member.role, None).members

    def _flows_at(self, now: float) -> list[PrefixFlow]:
        if now >= self._flows_until:
            self._flows_until = now + _FLOWS_SECONDS
            self._flows = [
                PrefixFlow(prefix=None if group.hash is None else f"{group.hash:016x}"[:6], tokens=group.tokens)
                for group in group_prefixes(self._parts.scheduler.index.recent_uses())
            ]
        return self._flows


@lru_cache(maxsize=4096)
def _as_counted(name: str) -> tuple[tuple[str, int], ...]:
    """What sorts names as people do: port 8101 before port 40001."""
    return tuple((text, int(number or 0)) for text, number in re.findall(r"(\D*)(\d*)", name))
