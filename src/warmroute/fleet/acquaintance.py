"""What is learned of an engine before its first request: its models, and its metrics.

Both are asked for while the worker is not routable yet. So no request is sent astray for want of a model list, and a
restart shows (and the prefixes are forgotten) before anybody counts on them.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from warmroute.engines import Vitals
from warmroute.fleet.client import EngineClient
from warmroute.fleet.errors import NotHealthy
from warmroute.fleet.instance import InstanceInfo
from warmroute.fleet.models import ModelObject
from warmroute.fleet.times import FleetTimes


@dataclass(frozen=True, slots=True)
class Acquaintance:
    """Either may be None: not every engine lists models or shows metrics."""

    models: tuple[ModelObject, ...] | None
    vitals: Vitals | None


async def get_to_know(client: EngineClient, info: InstanceInfo, limit: float) -> Acquaintance:
    """Ask both at once; what is not there after `limit` seconds is left for later."""
    models = asyncio.ensure_future(client.models(info))
    vitals = asyncio.ensure_future(client.vitals(info))
    try:
        done, _ = await asyncio.wait((models, vitals), timeout=limit)
    finally:
        for question in (models, vitals):
            question.cancel()
    return Acquaintance(
        models.result() if models in done else None,
        vitals.result() if vitals in done else None,
    )


async def vouch(client: EngineClient, info: InstanceInfo, probes: int, times: FleetTimes) -> None:
    """Probe a worker that wants to be registered: all of `probes` must pass, else NotHealthy is raised.

    The probes are spaced, but never so far that a high threshold could not be met within the limit.
    """
    spacing = min(times.register_spacing, times.register_limit / (2 * probes))
    try:
        async with asyncio.timeout(times.register_limit):
            for turn in range(probes):
                if turn:
                    await asyncio.sleep(spacing)
                probe = await client.probe(info.url)
                if not probe.passed:
                    raise NotHealthy(info.url, probe.reason)
    except TimeoutError:
        raise NotHealthy(info.url, f"no answer within {times.register_limit:g} s") from None
