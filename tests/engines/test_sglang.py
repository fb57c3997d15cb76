import pytest
from tests.engines.pages import SGLANG_OLDER_PAGE, SGLANG_PAGE

from warmroute.engines.sglang import SGLANG


def test_parallel_ranks_and_priorities_are_not_counted_twice():
    vitals = SGLANG.read(SGLANG_PAGE)
    assert vitals.report is not None
    assert (vitals.report.running_requests, vitals.report.waiting_requests) == (6.0, 3.0)
    assert vitals.kv_cache_tokens == 2 * 471_258


def test_priorities_without_an_aggregate_add_up():
    page = SGLANG_PAGE.replace(b'priority="",', b'priority="5",')
    vitals = SGLANG.read(page)
    assert vitals.report is not None
    assert vitals.report.waiting_requests == 6.0


def test_free_pages_follow_the_usage():
    vitals = SGLANG.read(SGLANG_PAGE + b'sglang:page_size{model_name="m"} 2.0\n')
    assert vitals.report is not None
    assert vitals.report.free_kv_blocks is not None
    assert round(vitals.report.free_kv_blocks) == round(471_258 * 0.72)


def test_an_older_release_tells_pages_and_an_idle_one_has_no_gauges_yet():
    vitals = SGLANG.read(SGLANG_OLDER_PAGE)
    assert vitals.kv_cache_tokens == 64_000
    assert vitals.report is None


@pytest.mark.parametrize(("usage", "free"), [(b"-1e308", 2 * 471_258), (b"1e308", 0)])
def test_a_usage_that_cannot_be_is_full_or_empty(usage, free):
    vitals = SGLANG.read(SGLANG_PAGE.replace(b" 0.28", b" " + usage))
    assert vitals.report is not None
    assert vitals.report.free_kv_blocks == free
