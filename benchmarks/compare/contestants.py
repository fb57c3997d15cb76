"""Who is compared: our policies, the peers with the policy that is best for them, and two that know no cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from benchmarks import routers
from benchmarks.routers import Router

Side = Literal["ours", "peer", "plain"]

EARLY = ("--balance-abs-threshold", "8")
"""With the default, 64, the peers balance only when one worker has 64 requests more than another: seldom, or never."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """A router with its options. `make` installs it where needed."""

    name: str
    side: Side
    make: Callable[[], Router]


CONTESTANTS = (
    Contestant("warmroute least_delay", "ours", lambda: routers.warmroute(policy="least_delay")),
    Contestant("warmroute cache_aware", "ours", lambda: routers.warmroute(policy="cache_aware")),
    Contestant("sglang-router", "peer", routers.sglang),
    Contestant("sglang-router, abs 8", "peer", lambda: routers.sglang(options=EARLY)),
    Contestant("vllm-router", "peer", routers.vllm_router),
    Contestant("vllm-router, abs 8", "peer", lambda: routers.vllm_router(EARLY)),
    Contestant("smg", "peer", routers.smg),
    Contestant("smg, abs 8", "peer", lambda: routers.smg(EARLY)),
    Contestant("least connections", "plain", lambda: routers.warmroute(policy="request_num")),
    Contestant("round robin", "plain", lambda: routers.warmroute(policy="round_robin")),
)
"""Ours, peers, plain references: the last two are Warmroute as well, which costs next to nothing in this comparison."""
