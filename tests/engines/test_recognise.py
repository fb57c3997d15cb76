import pytest
from tests.engines.pages import FASTDEPLOY_PAGE, SGLANG_PAGE, VLLM_PAGE

from warmroute.engines import read_metrics
from warmroute.engines.recognise import DIALECTS, recognise


@pytest.mark.parametrize(
    ("page", "owners", "name"),
    [
        (FASTDEPLOY_PAGE, [], "fastdeploy"),
        (SGLANG_PAGE, [], "sglang"),
        (VLLM_PAGE, [], "vllm"),
        (VLLM_PAGE, ["sglang"], "vllm"),
        (b"", ["vllm"], "vllm"),
        (b"", ["FastDeploy"], "fastdeploy"),
        (b"", [None, 7, "me", "sglang"], "sglang"),
        (b"", ["me"], None),
        (b"", [], None),
    ],
)
def test_an_engine_is_recognised_by_its_metrics_else_by_its_models(
    page: bytes, owners: list[object], name: str | None
) -> None:
    dialect = recognise(read_metrics(page), owners)
    assert dialect is (None if name is None else DIALECTS[name])


def test_every_dialect_is_found_by_its_name() -> None:
    assert [(name, dialect.name) for name, dialect in DIALECTS.items()] == [
        ("fastdeploy", "fastdeploy"),
        ("sglang", "sglang"),
        ("vllm", "vllm"),
    ]


@pytest.mark.parametrize(
    ("page", "connector"),
    [
        (VLLM_PAGE, None),
        (VLLM_PAGE + b'vllm:nixl_num_failed_transfers_total{engine="0"} 0.0\n', "NixlConnector"),
        (SGLANG_PAGE, None),
    ],
)
def test_the_kv_connector_is_told_by_its_metrics(page: bytes, connector: str | None) -> None:
    vitals = read_metrics(page)
    assert vitals is not None
    assert vitals.kv_connector == connector
