import pytest
from tests.engines.pages import VLLM_OLDER_PAGE, VLLM_PAGE

from warmroute.engines.vllm import VLLM


def test_the_ranks_of_an_engine_add_up():
    vitals = VLLM.read(VLLM_PAGE)
    assert vitals.report is not None
    assert (vitals.report.running_requests, vitals.report.waiting_requests) == (7.0, 1.0)
    assert vitals.report.free_kv_blocks == 16384.0
    assert vitals.kv_cache_tokens == 2 * 524_288
    assert vitals.work_done == 3030.0


def test_an_older_release_tells_blocks_and_uses_the_old_usage_name():
    vitals = VLLM.read(VLLM_OLDER_PAGE)
    assert vitals.kv_cache_tokens == 573 * 16
    assert vitals.report is not None
    assert vitals.report.free_kv_blocks == 573 / 2
    assert vitals.started_at is None


def test_blocks_that_are_not_known_yet_are_no_capacity():
    vitals = VLLM.read(VLLM_OLDER_PAGE.replace(b'num_gpu_blocks="573"', b'num_gpu_blocks="None"'))
    assert vitals.kv_cache_tokens is None
    assert vitals.report is not None
    assert vitals.report.free_kv_blocks is None


def test_a_renamed_gauge_gives_no_report_instead_of_zero():
    vitals = VLLM.read(VLLM_PAGE.replace(b"vllm:num_requests_running{", b"vllm:requests_running{"))
    assert vitals.report is None
    assert vitals.kv_cache_tokens == 2 * 524_288


@pytest.mark.parametrize(("usage", "free"), [(b"-1e308", 573), (b"1e308", 0), (b"-0.5", 573), (b"1.5", 0)])
def test_a_usage_that_cannot_be_is_full_or_empty(usage, free):
    """Unclamped, the first one becomes infinitely many blocks, which no page can show as a whole number."""
    vitals = VLLM.read(VLLM_OLDER_PAGE.replace(b" 0.5", b" " + usage))
    assert vitals.report is not None
    assert vitals.report.free_kv_blocks == free
