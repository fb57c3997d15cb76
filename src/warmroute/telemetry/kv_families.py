"""The families of `--kv-events`. Without it they are not there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import fields

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from warmroute.scheduling.exact_index import Coverage, ExactIndex
from warmroute.telemetry.families import WorkerValues, worker_counter, worker_gauge
from warmroute.telemetry.kv_counts import KvCounts

_HELP = {
    "batches": "Messages with KV events that were taken in.",
    "unreadable": "Messages with KV events, and events in them, that could not be read.",
    "gaps": "Times that messages of a publisher were missing.",
    "replays": "Replays that publishers were asked for.",
    "losses": "Times that missing messages could not be had, so that a publisher's blocks were forgotten.",
    "restarts": "Publishers that began anew.",
    "resyncs": "Times that a publisher was read anew because something did not fit.",
}


def kv_families(index: ExactIndex, counts: KvCounts) -> Iterator[Metric]:
    """What the publishers have told, by worker, and how it went."""
    blocks: Counter[tuple[str, str]] = Counter()
    stored: Counter[tuple[str, str]] = Counter()
    removed: Counter[tuple[str, str]] = Counter()
    unusable: Counter[tuple[str, str]] = Counter()
    complete: dict[tuple[str, str], float] = {}
    for source, _ in index.sources():
        key = (source.worker.role, source.worker.id)
        blocks[key] += len(source)
        stored[key] += source.stored
        removed[key] += source.removed
        unusable[key] += source.orphans + source.refused
        complete[key] = float(index.coverage(source.worker) is Coverage.COMPLETE)
    yield worker_gauge("warmroute_kv_blocks", "Blocks that a worker holds, as its KV events tell.", _floats(blocks))
    yield worker_gauge("warmroute_kv_complete", "1 if all of a worker's cache has been told, else 0.", complete)
    yield worker_counter("warmroute_kv_blocks_stored", "Blocks that were announced.", _floats(stored))
    yield worker_counter("warmroute_kv_blocks_removed", "Blocks that were taken back.", _floats(removed))
    yield worker_counter(
        "warmroute_kv_blocks_unusable",
        "Announced blocks of an unknown parent, of a cache that is no prefix, or for which there was no room.",
        _floats(unusable),
    )
    for field in fields(counts):
        yield CounterMetricFamily(f"warmroute_kv_event_{field.name}", _HELP[field.name], getattr(counts, field.name))
    yield GaugeMetricFamily("warmroute_exact_index_bytes", "Memory of the exact index, roughly.", index.size_bytes)


def _floats(counts: Counter[tuple[str, str]]) -> WorkerValues:
    return {key: float(count) for key, count in counts.items()}
