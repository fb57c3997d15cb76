from tests.engines.pages import FASTDEPLOY_PAGE

from warmroute.engines.fastdeploy import FASTDEPLOY


def test_a_page_of_an_engine():
    vitals = FASTDEPLOY.read(FASTDEPLOY_PAGE)
    assert vitals.report is not None
    assert (vitals.report.running_requests, vitals.report.waiting_requests) == (12.0, 3.0)
    assert vitals.report.free_kv_blocks == 1200.0
    assert vitals.kv_cache_tokens == 2000 * 64
    assert vitals.started_at == 1764029123.45
    assert vitals.work_done == 9_000_000.0


def test_labelled_samples_of_several_processes_add_up():
    page = b'fastdeploy:num_requests_running{pid="7"} 2\nfastdeploy:num_requests_running{pid="8"} 3e0\n'
    vitals = FASTDEPLOY.read(page + b"fastdeploy:num_requests_waiting 0\n")
    assert vitals.report is not None
    assert vitals.report.running_requests == 5.0


def test_a_cache_size_without_block_size_is_unknown():
    page = FASTDEPLOY_PAGE.replace(b'block_size="64",', b"")
    assert FASTDEPLOY.read(page).kv_cache_tokens is None
