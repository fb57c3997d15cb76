from warmroute.scheduling.worker import Tally
from warmroute.telemetry.metrics import TTFT_BUCKETS, Metrics


def test_requests_are_counted_per_policy_role_worker_status_and_outcome():
    metrics = Metrics()
    metrics.request_done("cache_aware", "mixed", "a:1", 200)
    metrics.request_done("cache_aware", "mixed", "a:1", 200)
    metrics.request_done("cache_aware", "mixed", "a:1", 500)
    metrics.request_done("cache_aware", "mixed", "", 503, "refused")
    assert metrics.requests == {
        ("cache_aware", "mixed", "a:1", 200, "served"): 2,
        ("cache_aware", "mixed", "a:1", 500, "error"): 1,
        ("cache_aware", "mixed", "", 503, "refused"): 1,
    }


def test_a_time_to_first_token_falls_into_the_bucket_that_includes_its_bound():
    metrics = Metrics()
    metrics.ttft.observe(TTFT_BUCKETS[0])
    metrics.ttft.observe(TTFT_BUCKETS[0] + 1e-6)
    metrics.ttft.observe(TTFT_BUCKETS[-1] + 1)
    assert metrics.ttft.counts == [1, 1, *[0] * (len(TTFT_BUCKETS) - 2), 1]
    assert metrics.ttft.sum == 2 * TTFT_BUCKETS[0] + 1e-6 + TTFT_BUCKETS[-1] + 1


def test_counts_of_gone_workers_are_dropped_and_those_without_a_worker_kept():
    metrics = Metrics()
    for worker in ("a:1", "b:1", ""):
        metrics.request_done("random", "mixed", worker, 200)
    metrics.keep_workers({"b:1"})
    assert metrics.requests == {
        ("random", "mixed", "b:1", 200, "served"): 1,
        ("random", "mixed", "", 200, "served"): 1,
    }


def test_counts_of_pairs_and_of_those_that_did_without():
    metrics = Metrics()
    for worker in ("p:1", "p:2", "p:1"):
        metrics.pd_recomputed(worker)
    metrics.pd_decode_alone("cached")
    assert (metrics.recomputed, metrics.decode_alone) == ({"p:1": 2, "p:2": 1}, {"cached": 1})
    metrics.keep_workers({"p:2"})
    assert metrics.recomputed == {"p:2": 1}


def test_a_stream_is_one_value_for_all_and_one_for_its_worker():
    metrics, tally = Metrics(), Tally()
    metrics.streamed(tally, 0.02)
    metrics.streamed(tally, 0.04)
    assert (metrics.inter_token.count, metrics.inter_token.sum) == (2, 0.06)
    assert (tally.streams, tally.inter_token_seconds) == (2, 0.06)


def test_what_was_believed_too_much_and_too_little_does_not_cancel_out():
    metrics, tally = Metrics(), Tally()
    metrics.cache_reported(tally, 1000, 512, 750)
    metrics.cache_reported(tally, 1000, 512, 250)
    assert (metrics.reported_prompt_tokens, metrics.reported_cached_tokens) == (2000, 1024)
    assert metrics.reported_believed_tokens == 1000
    assert metrics.reported_error_tokens == (750 - 512) + (512 - 250)
    assert (tally.reported_prompt_tokens, tally.reported_cached_tokens) == (2000, 1024)


def test_without_records_a_request_that_is_over_leaves_nothing():
    metrics = Metrics(records=False)
    metrics.request_done("random", "mixed", "a:1", 200)
    assert metrics.requests == {}
