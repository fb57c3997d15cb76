"""The families of KV events, as a scrape shows them."""

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.registry import Collector
from tests.support.kv_events import prompt, removed, stored
from tests.support.pools import make_worker

from warmroute.scheduling.exact_index import BLOCK_BYTES, Coverage, ExactIndex
from warmroute.telemetry.kv_counts import KvCounts
from warmroute.telemetry.kv_families import kv_families


def page(index: ExactIndex, counts: KvCounts) -> list[str]:
    class Families(Collector):
        def collect(self):
            return kv_families(index, counts)

    registry = CollectorRegistry()
    registry.register(Families())
    return [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]


def test_what_publishers_have_told():
    index, worker = ExactIndex(1 << 20), make_worker("a:1")
    one, two = index.source(worker, 0), index.source(worker, 1)
    one.apply([stored("abc"), removed("abc"), stored("qrs", 2)])
    two.apply([stored("ab", dense=False)])
    index.cover(one, Coverage.COMPLETE)
    shown = page(index, KvCounts(batches=7, gaps=1))
    labels = '{role="mixed",worker="a:1"}'
    assert f"warmroute_kv_blocks{labels} 2.0" in shown
    assert f"warmroute_kv_blocks_stored_total{labels} 3.0" in shown
    assert f"warmroute_kv_blocks_removed_total{labels} 1.0" in shown
    assert f"warmroute_kv_blocks_unusable_total{labels} 3.0" in shown
    assert f"warmroute_kv_complete{labels} 0.0" in shown
    assert f"warmroute_exact_index_bytes {2.0 * BLOCK_BYTES}" in shown
    assert "warmroute_kv_event_batches_total 7.0" in shown
    assert "warmroute_kv_event_gaps_total 1.0" in shown
    index.cover(two, Coverage.COMPLETE)
    assert f"warmroute_kv_complete{labels} 1.0" in page(index, KvCounts())
    assert index.match(prompt("abc"))


def test_there_are_no_gaps_before_anything_is_told():
    shown = page(ExactIndex(0), KvCounts())
    assert 'warmroute_kv_blocks{role="mixed",worker=""} 0.0' in shown
    assert len(shown) == 5 * 3 + 7 + 1
