"""Every metric that docs/metrics.md tells of is on /metrics from the first scrape on, and moves."""

from __future__ import annotations

import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.lease import Outcome

REFERENCE = Path(__file__).parents[2] / "docs" / "metrics.md"
ROW = re.compile(r"^\| `(warmroute_\w+)` \| (\w+) \| (.*?) \|", re.MULTILINE)


def documented() -> dict[str, tuple[str, set[str]]]:
    """Name -> (type, label names), as the reference page says."""
    rows = ROW.findall(REFERENCE.read_text())
    return {name: (kind, set(re.findall(r"`(\w+)`", labels))) for name, kind, labels in rows}


def shown(page: str) -> dict[str, tuple[str, set[str]]]:
    """The same, as a scrape says."""
    families = {}
    for family in text_string_to_metric_families(page):
        if family.name.startswith("warmroute_"):
            name = f"{family.name}_total" if family.type == "counter" else family.name
            labels = {label for sample in family.samples for label in sample.labels} - {"le"}
            families[name] = (family.type, labels)
    return families


def totals(page: str) -> dict[str, float]:
    """Sample name -> sum over all label values."""
    sums: dict[str, float] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            sums[sample.name] = sums.get(sample.name, 0) + sample.value
    return sums


async def test_the_page_shows_what_is_documented_from_the_start_and_nothing_else(control, engine):
    await control.add(engine)
    answer = await control.get("/metrics")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert shown(answer.body) == documented()


async def test_every_documented_metric_moves(control, engine):
    await control.add(engine)
    before = totals((await control.get("/metrics")).body)
    metrics, pool = control.parts.metrics, control.parts.fleet.pool("mixed", None)
    lease = control.parts.scheduler.select(Prompt(tokens=100), pool)
    metrics.prompt_tokens += 100
    metrics.matched_tokens += 60
    metrics.ttft.observe(0.25)
    metrics.request_done(lease.policy, "mixed", lease.worker.id, 200)
    lease.worker.load.active_tokens += 1  # what no code path can do: the audit must see it
    moved = totals((await control.get("/metrics")).body)
    lease.worker.load.active_tokens -= 1
    lease.release(Outcome.SERVED)
    assert {
        name: moved[name] - before[name] for name in moved if moved[name] != before[name] and "warmroute" in name
    } == {
        "warmroute_requests_total": 1,
        "warmroute_leases_open": 1,
        "warmroute_running_requests": 1,
        "warmroute_pending_prefill_tokens": 100,
        "warmroute_prompt_tokens_total": 100,
        "warmroute_worker_prompt_tokens_total": 100,
        "warmroute_matched_tokens_total": 60,
        "warmroute_time_to_first_token_seconds_bucket": 10,
        "warmroute_time_to_first_token_seconds_count": 1,
        "warmroute_time_to_first_token_seconds_sum": 0.25,
        "warmroute_ledger_consistent": -1,
    }
    assert moved["warmroute_upstream_connections"] == 7


async def test_openmetrics_is_given_to_who_asks_for_it(control):
    answer = await control.get("/metrics", headers={"accept": "application/openmetrics-text; version=1.0.0"})
    assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert answer.body.endswith("# EOF\n")
