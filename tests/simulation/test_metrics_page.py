"""The metrics pages, read by the parser of prometheus-client."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from warmroute.simulation.core import EngineCore
from warmroute.simulation.job import Job
from warmroute.simulation.kv_cache import KvCache
from warmroute.simulation.metrics_page import metrics_page
from warmroute.simulation.settings import EngineSettings
from warmroute.simulation.timing import Timing
from warmroute.simulation.tokens import encode_text


def page(dialect: str, model: str = "m") -> dict[str, tuple[dict[str, str], float]]:
    """Samples by name, of an engine with one request in prefill, one waiting, and a finished one that hit half."""
    core = EngineCore(Timing(), KvCache(1600, 16), 8)
    core.submit(Job(encode_text("abcd" * 64), 16), 0.0)
    core.submit(Job(encode_text("abcd" * 64 + "efgh" * 64), 1), 0.0)
    core.advance(1000.0)
    core.submit(Job(encode_text("ijkl" * 64), 16), 1000.0)
    core.submit(Job(encode_text("mnop" * 64), 16), 1000.0)
    text = metrics_page(core, EngineSettings(dialect=dialect, model=model), 1234.5)
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return {sample.name: (sample.labels, sample.value) for sample in samples}


@pytest.mark.parametrize(
    ("dialect", "labels", "values"),
    [
        (
            "fastdeploy",
            {},
            {
                "fastdeploy:num_requests_running": 1,
                "fastdeploy:num_requests_waiting": 1,
                "fastdeploy:max_gpu_block_num": 100,
                "fastdeploy:available_gpu_block_num": 95,
                "fastdeploy:gpu_cache_usage_perc": 0.05,
            },
        ),
        (
            "vllm",
            {"engine": "0", "model_name": "m"},
            {
                "vllm:num_requests_running": 1,
                "vllm:num_requests_waiting": 1,
                "vllm:kv_cache_usage_perc": 0.05,
                "vllm:prefix_cache_queries_total": 256,
                "vllm:prefix_cache_hits_total": 64,
                "vllm:generation_tokens_total": 17,
            },
        ),
        (
            "sglang",
            {"engine_type": "unified", "model_name": "m", "pp_rank": "0", "tp_rank": "0"},
            {
                "sglang:num_running_reqs": 1,
                "sglang:num_queue_reqs": 1,
                "sglang:max_total_num_tokens": 1600,
                "sglang:token_usage": 0.05,
                "sglang:cache_hit_rate": 0.25,
            },
        ),
    ],
)
def test_names_and_labels_are_those_of_the_real_engine(dialect, labels, values):
    found = page(dialect)
    assert {name: found[name] for name in values} == {name: (labels, value) for name, value in values.items()}
    assert found["process_start_time_seconds"] == ({}, 1234.5)


def test_vllm_tells_the_size_of_its_cache():
    labels, value = page("vllm")["vllm:cache_config_info"]
    assert value == 1
    assert (labels["block_size"], labels["num_gpu_blocks"], labels["kv_cache_size_tokens"]) == ("16", "100", "1600")


def test_fastdeploy_samples_have_no_labels():
    """Its own router reads only `name value`."""
    found = page("fastdeploy")
    labelled = {name for name, (labels, _) in found.items() if labels}
    assert labelled == {"fastdeploy:cache_config_info"}


def test_odd_model_names_are_escaped():
    odd = 'a"b\\c\nd'
    assert page("vllm", odd)["vllm:num_requests_running"][0]["model_name"] == odd
