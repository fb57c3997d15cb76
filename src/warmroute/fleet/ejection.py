"""Who of a pool is left out because its breaker is open: at most half, those first whose breakers opened first.

The rule is about failures of requests only. A fleet of which every worker fails may meet a bad request, and requests
that might be served are worth more than a pool of good repute. Workers that refuse connections or fail probes are not
in `routable`, without any such limit: they cannot serve.
"""

from __future__ import annotations

from collections.abc import Sequence

from warmroute.fleet.member import Member


def ejected(routable: Sequence[Member]) -> frozenset[Member]:
    """Those that get no request now; the others count as usable, whatever their breakers say."""
    out = [member for member in routable if member.breaker.ejects]
    if not out:
        return frozenset()
    out.sort(key=lambda member: member.breaker.opened_at)
    return frozenset(out[: len(routable) // 2])
