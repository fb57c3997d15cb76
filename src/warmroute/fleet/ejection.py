"""Who of a pool is left out because its requests fail, or get no answer: at most half, and who did so first.

The rule is about failures of requests only. A fleet of which every worker fails may meet a bad request, and requests
that might be served are worth more than a pool of good repute. Workers that refuse connections or fail probes are not
in `routable`, without any such limit: they cannot serve.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from warmroute.fleet.member import Member


def ejected(routable: Sequence[Member]) -> frozenset[Member]:
    """Those that get no request now; the others count as usable, whatever their breakers say."""
    out = [member for member in routable if member.breaker.ejects or member.stuck_since is not None]
    if not out:
        return frozenset()
    out.sort(key=_since)
    return frozenset(out[: len(routable) // 2])


def _since(member: Member) -> float:
    opened = member.breaker.opened_at if member.breaker.ejects else inf
    return min(opened, inf if member.stuck_since is None else member.stuck_since)
