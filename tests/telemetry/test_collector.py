"""The page as a Prometheus server reads it: parsed by the client library, compared by value."""

from __future__ import annotations

import gc
import logging
from random import Random

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families

from warmroute.config import SchedulerConfig
from warmroute.prompts.ladder import Ladder
from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.lease import Outcome
from warmroute.scheduling.ledger import Ledger
from warmroute.scheduling.prefix_index import PrefixIndex
from warmroute.scheduling.registry import create_policy
from warmroute.scheduling.scheduler import Scheduler
from warmroute.scheduling.worker import ROLES, Pool, Worker
from warmroute.telemetry.collector import Sources, create_registry
from warmroute.telemetry.metrics import Metrics
from warmroute.telemetry.worker_families import WorkerState


class Router:
    """The parts of a router that a page shows."""

    def __init__(self, *workers: Worker, index_bytes: int = 0) -> None:
        self.workers = list(workers)
        self.metrics = Metrics()
        self.ledger = Ledger()
        policies = {role: create_policy("request_num", SchedulerConfig()) for role in ROLES}
        self.index = index = PrefixIndex(Ladder.default(), index_bytes, 0)
        self.scheduler = Scheduler(policies, index, self.ledger, rng=Random(1), clock=lambda: 0.0)
        self.connections = 0
        self.states: list[WorkerState] = []
        self.breakers = []
        self.registry: CollectorRegistry = create_registry(
            Sources(
                self.metrics,
                self.ledger,
                index,
                lambda: self.workers,
                self.scheduler.policy_name,
                lambda: self.connections,
                worker_states=lambda: self.states,
                build={"version": "1"},
                breakers=lambda: self.breakers,
            )
        )

    def lease(self, worker: Worker, tokens: int):
        return self.scheduler.select(Prompt(tokens=tokens), Pool(worker.role, [worker.candidate]))

    def remove(self, worker: Worker) -> None:
        self.workers.remove(worker)
        self.scheduler.forget(worker)

    def page(self) -> str:
        return generate_latest(self.registry).decode()

    def samples(self, name: str) -> dict[tuple[str, ...], float]:
        """Label values (in order of their names) -> value, of all samples with this name."""
        families = text_string_to_metric_families(self.page())
        return {
            tuple(value for _, value in sorted(sample.labels.items())): sample.value
            for family in families
            for sample in family.samples
            if sample.name == name
        }


@pytest.fixture
def worker() -> Worker:
    return Worker("a:1", "http://a:1")


def test_a_router_without_workers_shows_zeros_and_no_gaps():
    router = Router()
    assert router.samples("warmroute_leases_open") == {(role,): 0 for role in ROLES}
    idle = {(role, ""): 0 for role in ROLES}
    assert router.samples("warmroute_pending_prefill_tokens") == idle
    assert router.samples("warmroute_running_requests") == idle
    assert router.samples("warmroute_prompt_tokens_total") == {(): 0}
    assert router.samples("warmroute_matched_tokens_total") == {(): 0}
    assert router.samples("warmroute_time_to_first_token_seconds_count") == {(): 0}
    assert router.samples("warmroute_upstream_connections") == {(): 0}
    assert router.samples("warmroute_ledger_consistent") == {(): 1}
    assert router.samples("warmroute_leases_lost_total") == {(): 0}
    assert router.samples("warmroute_prefix_index_bytes") == {(): 0}
    assert router.samples("warmroute_prefix_index_evicted_blocks_total") == {(): 0}


def test_a_worker_has_its_series_before_its_first_request(worker):
    router = Router(worker)
    assert router.samples("warmroute_requests_total") == {("served", "request_num", "mixed", "200", "a:1"): 0}
    assert router.samples("warmroute_pending_prefill_tokens")["mixed", "a:1"] == 0
    assert ("mixed", "") not in router.samples("warmroute_pending_prefill_tokens")


def test_gauges_follow_a_lease(worker):
    router = Router(worker)
    lease = router.lease(worker, 40)

    def figures() -> tuple[float, ...]:
        return (
            router.samples("warmroute_leases_open")["mixed",],
            router.samples("warmroute_running_requests")["mixed", "a:1"],
            router.samples("warmroute_pending_prefill_tokens")["mixed", "a:1"],
        )

    assert figures() == (1, 1, 40)
    lease.first_token()
    assert figures() == (1, 1, 0)
    lease.release(Outcome.SERVED)
    assert figures() == (0, 0, 0)


def test_a_removed_workers_series_stay_until_its_last_lease_is_back(worker):
    router = Router(worker)
    lease = router.lease(worker, 40)
    router.metrics.request_done("request_num", "mixed", "a:1", 200)
    router.metrics.request_done("request_num", "mixed", "", 503, "refused")
    router.remove(worker)
    assert router.samples("warmroute_running_requests")["mixed", "a:1"] == 1
    assert router.samples("warmroute_pending_prefill_tokens")["mixed", "a:1"] == 40
    assert router.samples("warmroute_requests_total")["served", "request_num", "mixed", "200", "a:1"] == 1
    lease.release(Outcome.SERVED)
    assert router.samples("warmroute_running_requests") == {(role, ""): 0 for role in ROLES}
    assert router.samples("warmroute_requests_total") == {("refused", "request_num", "mixed", "503", ""): 1}


def test_a_worker_that_came_back_under_its_old_id_is_one_series(worker):
    router = Router(worker)
    before = router.lease(worker, 40)
    router.remove(worker)
    again = Worker("a:1", "http://a:1")
    router.workers.append(again)
    after = router.lease(again, 2)
    assert router.page().count('warmroute_pending_prefill_tokens{role="mixed",worker="a:1"}') == 1
    assert router.samples("warmroute_pending_prefill_tokens")["mixed", "a:1"] == 42
    assert router.samples("warmroute_running_requests")["mixed", "a:1"] == 2
    for lease in (before, after):
        lease.release(Outcome.FAILED)


def test_times_to_first_token_are_a_cumulative_histogram():
    router = Router()
    for seconds in (0.004, 0.02, 0.02, 500.0):
        router.metrics.ttft.observe(seconds)
    buckets = router.samples("warmroute_time_to_first_token_seconds_bucket")
    assert [buckets[bound,] for bound in ("0.005", "0.01", "0.025", "120.0", "+Inf")] == [1, 1, 3, 3, 4]
    assert router.samples("warmroute_time_to_first_token_seconds_count") == {(): 4}
    assert router.samples("warmroute_time_to_first_token_seconds_sum") == {(): 500.044}


def test_an_inconsistent_ledger_shows_and_is_logged_once(worker, caplog):
    router = Router(worker)
    lease = router.lease(worker, 40)
    worker.load.running_requests += 1
    with caplog.at_level(logging.ERROR, "warmroute.telemetry"):
        assert router.samples("warmroute_ledger_consistent") == {(): 0}
        assert router.samples("warmroute_ledger_consistent") == {(): 0}
    (message,) = caplog.messages
    assert message.startswith(
        "ledger is not consistent, restart the router and report this: a:1: running_requests is 2"
    )
    worker.load.running_requests -= 1
    assert router.samples("warmroute_ledger_consistent") == {(): 1}
    lease.release(Outcome.SERVED)


def test_a_lease_that_was_lost_is_counted(worker):
    router = Router(worker)
    lease = router.lease(worker, 40)
    del lease
    gc.collect()
    assert router.samples("warmroute_leases_lost_total") == {(): 1}
    assert router.samples("warmroute_ledger_consistent") == {(): 1}


def test_the_size_of_the_index_and_what_found_no_room_are_shown():
    small = Worker("a:1", "http://a:1", cache_tokens=192)
    router = Router(small, index_bytes=1 << 20)
    router.index.claim(small, [1, 2, 3], 0.0, -1)
    size = router.index.size_bytes
    assert size > 0
    assert router.samples("warmroute_prefix_index_bytes") == {(): size}
    assert router.samples("warmroute_prefix_index_evicted_blocks_total") == {(): 0}
    router.index.claim(small, [4, 5], 1.0, -2)
    assert router.samples("warmroute_prefix_index_evicted_blocks_total") == {(): 2}


def test_no_other_sample_line_can_be_taken_for_leases_or_pending_tokens(worker):
    router = Router(worker)
    router.metrics.request_done("process_tokens", "mixed", "a:1", 200)
    lines = [line for line in router.page().splitlines() if not line.startswith("#")]
    leases = {line.split("{")[0] for line in lines if "lease" in line and "open" in line}
    pending = {line.split("{")[0] for line in lines if "pending" in line and "token" in line}
    assert leases == {"warmroute_leases_open"}
    assert pending == {"warmroute_pending_prefill_tokens"}
    assert not [line for line in lines if "_created" in line]


def test_the_process_is_shown_too():
    page = Router().page()
    for name in ("process_resident_memory_bytes", "process_cpu_seconds_total", "python_info", "python_gc_objects"):
        assert f"\n{name}" in page


def test_the_page_is_valid_openmetrics_as_well(worker):
    router = Router(worker)
    router.metrics.ttft.observe(0.1)
    families = {family.name for family in parse_openmetrics(generate_openmetrics(router.registry).decode())}
    assert {"warmroute_requests", "warmroute_time_to_first_token_seconds"} <= families


def test_prefill_workers_and_reasons_are_there_from_the_start():
    router = Router(Worker("p:1", "http://p:1", "prefill"), Worker("d:1", "http://d:1", "decode"))
    reasons = {("cached",): 0, ("no_prefill",): 0, ("other_path",): 0}
    assert router.samples("warmroute_pd_recomputed_total") == {("p:1",): 0}
    assert router.samples("warmroute_pd_decode_alone_total") == reasons
    router.metrics.pd_recomputed("p:1")
    router.metrics.pd_decode_alone("several_prompts")
    assert router.samples("warmroute_pd_recomputed_total") == {("p:1",): 1}
    assert router.samples("warmroute_pd_decode_alone_total") == {**reasons, ("several_prompts",): 1}
    assert Router().samples("warmroute_pd_recomputed_total") == {("",): 0}


def test_a_workers_sums_are_those_of_all_records_of_its_id_and_go_with_it(worker):
    router = Router(worker)
    held = router.lease(worker, 40)
    router.remove(worker)
    again = Worker("a:1", "http://a:1")
    router.workers.append(again)
    for tally, seconds in ((worker.tally, 1.0), (again.tally, 0.5)):
        tally.first_tokens, tally.ttft_seconds, tally.reported_cached_tokens = 1, seconds, 8
    name = "warmroute_worker_time_to_first_token_seconds"
    assert router.samples(f"{name}_count")["mixed", "a:1"] == 2
    assert router.samples(f"{name}_sum")["mixed", "a:1"] == 1.5
    assert router.samples("warmroute_worker_reported_cached_tokens_total")["mixed", "a:1"] == 16
    held.release(Outcome.SERVED)
    assert router.samples(f"{name}_sum")["mixed", "a:1"] == 0.5
    router.remove(again)
    assert router.samples(f"{name}_sum") == {(role, ""): 0 for role in ROLES}


def test_workers_are_counted_by_state_and_shown_if_they_may_get_requests():
    router = Router()
    assert sum(router.samples("warmroute_workers").values()) == 0
    router.states = [
        WorkerState("mixed", "a:1", "healthy", True),
        WorkerState("mixed", "b:1", "healthy", False),
        WorkerState("decode", "c:1", "draining", False),
    ]
    workers = router.samples("warmroute_workers")
    assert {labels: count for labels, count in workers.items() if count} == {
        ("mixed", "healthy"): 2,
        ("decode", "draining"): 1,
    }
    assert router.samples("warmroute_worker_routable") == {
        ("mixed", "a:1"): 1,
        ("mixed", "b:1"): 0,
        ("decode", "c:1"): 0,
        ("prefill", ""): 0,
    }


def test_what_has_come_is_what_is_over_and_what_runs():
    router = Router()
    router.metrics.received, router.metrics.answered = 7, 5
    assert router.samples("warmroute_requests_received_total") == {(): 7}
    assert router.samples("warmroute_requests_answered_total") == {(): 5}
    assert router.samples("warmroute_requests_running") == {(): 2}


def test_the_build_is_told():
    assert Router().samples("warmroute_build_info") == {("1",): 1}


def test_breakers_show_their_states_and_how_often_they_opened():
    router = Router()
    assert router.samples("warmroute_breaker_opened_total") == {("", ""): 0}
    router.breakers = [("mixed", "a:1", "closed", 0), ("mixed", "b:1", "trying", 1), ("decode", "c:1", "open", 3)]
    states = {("mixed", "a:1"): 0, ("mixed", "b:1"): 1, ("decode", "c:1"): 2, ("prefill", ""): 0}
    assert router.samples("warmroute_breaker_state") == states
    opened = {("mixed", "a:1"): 0, ("mixed", "b:1"): 1, ("decode", "c:1"): 3}
    assert router.samples("warmroute_breaker_opened_total") == opened
