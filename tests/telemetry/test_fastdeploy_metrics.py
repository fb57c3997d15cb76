from collections import Counter
from weakref import ref

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from warmroute.scheduling.worker import Worker
from warmroute.telemetry.endings import Endings
from warmroute.telemetry.fastdeploy_metrics import MOST_SESSIONS, FastDeployMetrics
from warmroute.telemetry.metrics import OUTCOMES

MIXED = Worker("a:1", "http://a:1")
PREFILL = Worker("p:1", "http://p:1", role="prefill")
DECODE = Worker("d:1", "http://d:1", role="decode")


class Rig:
    """FastDeploy's metrics, and what they read."""

    def __init__(self) -> None:
        self.endings = Endings()
        self.metrics = FastDeployMetrics(self.endings)

    def over(self, target: bytes, status: int, outcome: str, seconds: float, worker: Worker | None, *prefill: Worker):
        role = "mixed" if worker is None else worker.role
        prefill_worker = prefill[0] if prefill else None
        self.endings.add((target, status, outcome, "random", role, worker, prefill_worker, seconds, 0.0))


def samples(metrics: FastDeployMetrics) -> dict[str, float]:
    registry = CollectorRegistry()
    registry.register(metrics)
    lines = generate_latest(registry).decode().splitlines()
    return {name: float(value) for name, _, value in (x.rpartition(" ") for x in lines if not x.startswith("#"))}


def test_the_names_and_labels_are_those_of_the_go_router():
    rig = Rig()
    for number in range(99):
        rig.over(b"/v1/completions?key=secret", 200, "served", number / 100, None)
    rig.over(b"/v1/completions", 200, "served", 0.99, DECODE, PREFILL)
    rig.metrics.session_placed("s", "http://p:1")
    assert samples(rig.metrics) == {
        'http_requests_total{endpoint="/v1/completions",method="POST",status_code="200"}': 100,
        'http_request_duration_seconds{endpoint="/v1/completions",method="POST",quantile="0.95"}': 0.94,
        'http_request_duration_seconds{endpoint="/v1/completions",method="POST",quantile="0.99"}': 0.98,
        'http_request_duration_seconds_sum{endpoint="/v1/completions",method="POST"}': 49.5,
        'http_request_duration_seconds_count{endpoint="/v1/completions",method="POST"}': 100,
        'inference_requests_total{decode_worker="http://d:1",mixed_worker="",prefill_worker="http://p:1",'
        'status_code="200"}': 1,
        "router_cache_hit_total": 0,
        "router_cache_request_total": 1,
    }


rows = st.tuples(
    st.sampled_from([b"/a", b"/a?x", b"/b"]),
    st.sampled_from([200, 503]),
    st.sampled_from(OUTCOMES),
    st.integers(0, 64).map(float),
    st.sampled_from([None, MIXED, DECODE]),
    st.sampled_from([None, PREFILL]),
)
Row = tuple[bytes, int, str, float, Worker | None, Worker | None]


@given(st.lists(st.lists(rows, max_size=8), max_size=5))
def test_nothing_is_counted_twice_or_left_out_whenever_the_list_is_counted(batches: list[list[Row]]):
    rig = Rig()
    for batch in batches:
        for row in batch:
            rig.over(*row)
        rig.endings.settle()
    all_rows = [(row[0].decode()[:2], *row[1:]) for batch in batches for row in batch]
    found = {family.name: family.samples for family in rig.metrics.collect()}
    by_path = {(s.labels["endpoint"], int(s.labels["status_code"])): s.value for s in found["http_requests"]}
    assert by_path == Counter((path, status) for path, status, *_ in all_rows)
    answered = [row for row in all_rows if row[4] is not None and row[2] in ("served", "error")]
    assert sum(s.value for s in found["inference_requests"]) == len(answered)
    of_pairs = [s.value for s in found["inference_requests"] if s.labels["prefill_worker"] == PREFILL.url]
    assert sum(of_pairs) == sum(row[5] is PREFILL for row in answered)
    times = {(s.name[29:], s.labels["endpoint"]): s.value for s in found["http_request_duration_seconds"]}
    for path in {row[0] for row in all_rows}:
        seconds = [row[3] for row in all_rows if row[0] == path]
        assert (times["_count", path], times["_sum", path]) == (len(seconds), sum(seconds))


def test_queries_do_not_make_a_count_longer():
    """A client may put a number of its own into each: the event loop stands still while they are counted."""

    class Target(bytes):
        compared = 0

        def __eq__(self, other: object) -> bool:
            Target.compared += 1
            return super().__eq__(other)

        __hash__ = bytes.__hash__

    rig = Rig()
    for number in range(200):
        rig.over(Target(b"/v1/completions?%d" % number), 200, "served", 0.5, None)
    rig.endings.settle()
    assert Target.compared < 1000
    assert samples(rig.metrics)['http_request_duration_seconds_count{endpoint="/v1/completions",method="POST"}'] == 200


def test_the_page_is_read_by_the_client_library():
    rig = Rig()
    rig.over(b"/v1/completions", 200, "served", 0.5, None)
    registry = CollectorRegistry()
    registry.register(rig.metrics)
    kinds = {family.name: family.type for family in text_string_to_metric_families(generate_latest(registry).decode())}
    assert kinds["http_request_duration_seconds"] == "summary"
    assert kinds["http_requests"] == "counter"


def test_a_hit_is_a_session_that_stays_where_it_was():
    metrics = Rig().metrics
    for session, worker in (("s", "a"), ("s", "a"), ("s", "b"), ("t", "b"), ("s", "b")):
        metrics.session_placed(session, worker)
    assert (metrics.cache_requests, metrics.cache_hits) == (5, 2)


def test_sessions_are_bounded_and_the_oldest_is_forgotten():
    metrics = Rig().metrics
    metrics.session_placed("first", "a")
    for number in range(MOST_SESSIONS):
        metrics.session_placed(str(number), "a")
    metrics.session_placed("first", "a")
    assert metrics.cache_hits == 0
    metrics.session_placed("first", "a")
    assert metrics.cache_hits == 1


def test_a_long_name_of_a_session_is_not_kept():
    class Name(str):
        __slots__ = ("__weakref__",)

    metrics = Rig().metrics
    name = Name("x" * 1_000_000)
    kept = ref(name)
    metrics.session_placed(name, "a")
    metrics.session_placed(name, "a")
    del name
    assert metrics.cache_hits == 1
    assert kept() is None


def test_series_go_with_their_worker():
    rig = Rig()
    metrics = rig.metrics
    rig.over(b"/v1/completions", 200, "served", 0.5, MIXED)
    rig.over(b"/v1/completions", 200, "served", 0.5, Worker("b:1", "http://b:1"))
    metrics.keep_workers(["http://b:1"])
    assert [name for name in samples(metrics) if "http://a:1" in name] == []
    assert [name for name in samples(metrics) if "http://b:1" in name] != []
