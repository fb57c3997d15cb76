"""What the router says of itself, and what the system says of it, once a second."""

from __future__ import annotations

import asyncio
import statistics
import time

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.soak.processes import Process

INDEX_REACHED = "warmroute_prefix_index_evicted_blocks_total"


class Watch:
    """Samples of one run. Times are seconds since its start."""

    def __init__(self, router: Process, url: str) -> None:
        self._router = router
        self._url = url
        self._begun = time.monotonic()
        self.memory: list[tuple[float, int]] = []
        self.inconsistent = 0
        self.index_reached_at: float | None = None

    async def run(self, until: asyncio.Event) -> None:
        """Look once a second until the event is set."""
        async with aiohttp.ClientSession(trust_env=False) as http:
            while not until.is_set():
                samples = await read_metrics(http, self._url)
                now = time.monotonic() - self._begun
                self.memory.append((now, self._router.rss_bytes()))
                self.inconsistent += samples.get("warmroute_ledger_consistent") != 1
                if self.index_reached_at is None and samples.get(INDEX_REACHED, 0) > 0:
                    self.index_reached_at = now
                await asyncio.sleep(1)

    def memory_around(self, seconds: float) -> float:
        """Median of the samples of ten seconds up to that moment, in bytes; 0 without any."""
        near = [rss for at, rss in self.memory if seconds - 10 <= at <= seconds]
        return statistics.median(near) if near else 0.0


async def read_metrics(http: aiohttp.ClientSession, url: str) -> dict[str, float]:
    """The metrics page: sums over all labels, by the name of the sample."""
    async with http.get(f"{url}/metrics") as answer:
        page = await answer.text()
    sums: dict[str, float] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            sums[sample.name] = sums.get(sample.name, 0.0) + sample.value
    return sums


async def healthy_workers(http: aiohttp.ClientSession, url: str) -> set[str]:
    """Ids of the workers that the router holds for healthy now."""
    async with http.get(f"{url}/workers") as answer:
        workers = (await answer.json())["workers"]
    return {worker["id"] for worker in workers if worker["state"] == "healthy"}
