from warmroute.telemetry.metrics import TTFT_BUCKETS, Metrics


def test_requests_are_counted_per_policy_role_worker_and_status():
    metrics = Metrics()
    metrics.request_done("cache_aware", "mixed", "a:1", 200)
    metrics.request_done("cache_aware", "mixed", "a:1", 200)
    metrics.request_done("cache_aware", "mixed", "a:1", 500)
    metrics.request_done("cache_aware", "mixed", "", 503)
    assert metrics.requests == {
        ("cache_aware", "mixed", "a:1", 200): 2,
        ("cache_aware", "mixed", "a:1", 500): 1,
        ("cache_aware", "mixed", "", 503): 1,
    }


def test_prompt_and_matched_tokens_add_up():
    metrics = Metrics()
    metrics.prompt_seen(100, 0)
    metrics.prompt_seen(120, 96)
    assert (metrics.prompt_tokens, metrics.matched_tokens) == (220, 96)


def test_a_time_to_first_token_falls_into_the_bucket_that_includes_its_bound():
    metrics = Metrics()
    metrics.first_token(TTFT_BUCKETS[0])
    metrics.first_token(TTFT_BUCKETS[0] + 1e-6)
    metrics.first_token(TTFT_BUCKETS[-1] + 1)
    assert metrics.ttft_counts == [1, 1, *[0] * (len(TTFT_BUCKETS) - 2), 1]
    assert metrics.ttft_sum == 2 * TTFT_BUCKETS[0] + 1e-6 + TTFT_BUCKETS[-1] + 1


def test_counts_of_gone_workers_are_dropped_and_those_without_a_worker_kept():
    metrics = Metrics()
    for worker in ("a:1", "b:1", ""):
        metrics.request_done("random", "mixed", worker, 200)
    metrics.keep_workers({"b:1"})
    assert metrics.requests == {("random", "mixed", "b:1", 200): 1, ("random", "mixed", "", 200): 1}


def test_counts_of_pairs_and_of_those_that_did_without():
    metrics = Metrics()
    for worker in ("p:1", "p:2", "p:1"):
        metrics.pd_recomputed(worker)
    metrics.pd_decode_alone("cached")
    assert (metrics.recomputed, metrics.decode_alone) == ({"p:1": 2, "p:2": 1}, {"cached": 1})
    metrics.keep_workers({"p:2"})
    assert metrics.recomputed == {"p:2": 1}
