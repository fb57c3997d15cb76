"""Placement rules of other routers, from their published formulas, for comparison only.

None of them can be configured for serving: a replay makes them by name. Each gets the same rows as our own policies, so
also our prefix index and our load figures, which are fresher than what most of these rules work with at home.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from warmroute.rivals.aibrix_prefix_cache import aibrix_prefix_cache
from warmroute.rivals.bounded_hash import BoundedHash
from warmroute.rivals.dynamo import Dynamo
from warmroute.rivals.llm_d_default import llm_d_default
from warmroute.rivals.llm_d_sticky import LlmDSticky
from warmroute.rivals.lmetric import lmetric
from warmroute.rivals.mooncake_min_ttft import mooncake_min_ttft
from warmroute.rivals.preble import Preble
from warmroute.rivals.ray_prefix_affinity import RayPrefixAffinity
from warmroute.rivals.sglang_cache_aware import SglangCacheAware
from warmroute.rivals.smg_cache_aware import SmgCacheAware
from warmroute.scheduling.policy import Policy

RIVALS: Mapping[str, Callable[[], Policy]] = {
    "aibrix_prefix_cache": lambda: aibrix_prefix_cache,
    "bounded_hash": BoundedHash,
    "dynamo": Dynamo,
    "dynamo_tuned": lambda: Dynamo(prefill_load_scale=32.0),
    "llm_d_default": lambda: llm_d_default,
    "llm_d_sticky": LlmDSticky,
    "lmetric": lambda: lmetric,
    "mooncake_min_ttft": lambda: mooncake_min_ttft,
    "preble": Preble,
    "ray_prefix_affinity": RayPrefixAffinity,
    "sglang_cache_aware": SglangCacheAware,
    "smg_cache_aware": SmgCacheAware,
}
"""Every rival by name, as a maker: those that remember must not share their memory between two runs."""
