import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engines.pages import FASTDEPLOY_PAGE, SGLANG_PAGE, VLLM_PAGE

from warmroute.engines import read_metrics


@pytest.mark.parametrize(
    ("page", "dialect"), [(FASTDEPLOY_PAGE, "fastdeploy"), (VLLM_PAGE, "vllm"), (SGLANG_PAGE, "sglang")]
)
def test_the_dialect_is_recognised_by_its_names(page, dialect):
    vitals = read_metrics(page)
    assert vitals is not None
    assert vitals.dialect == dialect


@pytest.mark.parametrize("page", [b"", b"<html>vllm:</html>", b"# HELP vllm:x y\n", b"process_start_time_seconds 1\n"])
def test_a_page_in_no_dialect_is_unknown(page):
    assert read_metrics(page) is None


@given(st.sampled_from([FASTDEPLOY_PAGE, VLLM_PAGE, SGLANG_PAGE]), st.integers(0, 3000), st.binary(max_size=20))
def test_a_damaged_page_never_raises(page, at, noise):
    vitals = read_metrics(page[:at] + noise + page[at + len(noise) :])
    assert vitals is None or vitals.report is None or vitals.report.running_requests >= 0
