"""Requests that are over, counted in batches."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from warmroute.scheduling.worker import Worker
from warmroute.telemetry.endings import Batch, Ending, Endings
from warmroute.telemetry.metrics import OUTCOMES, Metrics

A, B, PREFILL = Worker("a:1", "http://a:1"), Worker("b:1", "http://b:1"), Worker("p:1", "http://p:1", role="prefill")

endings = st.tuples(
    st.sampled_from([b"/a", b"/b"]),
    st.sampled_from([200, 404, 503]),
    st.sampled_from(OUTCOMES),
    st.sampled_from(["random", "cache_aware"]),
    st.just("mixed"),
    st.sampled_from([None, A, B]),
    st.sampled_from([None, PREFILL]),
    st.integers(0, 64).map(float),
    st.integers(0, 64).map(float),
)


@given(st.lists(st.lists(endings, max_size=8), max_size=5))
def test_every_reader_gets_everything_once_however_it_is_cut(batches: list[list[Ending]]):
    told: tuple[list[Batch], list[Batch]] = ([], [])
    kept = Endings()
    for reader in told:
        kept.read_by(reader.append)
    for batch in batches:
        for ending in batch:
            kept.add(ending)
        kept.settle()
    every = [ending for batch in batches for ending in batch]
    for reader in told:
        assert sum((batch.counts for batch in reader), Counter()) == Counter(ending[:7] for ending in every)
        rows = [row for batch in reader for row in zip(*batch[1:], strict=True)]
        assert rows == [(target, outcome, worker, *times) for target, _, outcome, _, _, worker, _, *times in every]


@given(st.lists(st.lists(endings, max_size=8), max_size=5))
def test_metrics_count_all_and_time_what_was_served(batches: list[list[Ending]]):
    metrics = Metrics()
    for batch in batches:
        for ending in batch:
            metrics.endings.add(ending)
        metrics.settle()
    every = [ending for batch in batches for ending in batch]
    keys = [
        (policy, role, worker.id if worker else "", status, how) for _, status, how, policy, role, worker, *_ in every
    ]
    assert metrics.requests == Counter(keys)
    served = [times for _, _, how, _, _, worker, _, *times in every if how == "served" and worker is not None]
    assert (metrics.duration.count, metrics.duration.sum) == (len(served), sum(seconds for seconds, _ in served))
    assert (metrics.added.count, metrics.added.sum) == (len(served), sum(added for _, added in served))


def test_whoever_reads_need_not_settle():
    metrics = Metrics()
    for seconds in (0.5, 0.25):
        metrics.endings.add((b"/a", 200, "served", "random", "mixed", A, None, seconds, 0.125))
        assert metrics.added.count == metrics.duration.count
    assert (metrics.duration.sum, metrics.added.sum) == (0.75, 0.25)
    assert metrics.requests == {("random", "mixed", "a:1", 200, "served"): 2}


def test_without_records_they_are_put_down_for_others_only():
    metrics = Metrics(records=False)
    others: list[Batch] = []
    metrics.endings.read_by(others.append)
    metrics.endings.add((b"/a", 200, "served", "random", "mixed", A, None, 0.5, 0.125))
    metrics.settle()
    assert (metrics.requests, metrics.duration.count, len(others)) == ({}, 0, 1)
