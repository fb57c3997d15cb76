"""FastDeploy's metrics. Its own router requires unlabelled samples; labelled ones are read here as well.

The KV size is told as a number of blocks; the tokens of a block only as a label of `cache_config_info`, where present.
"""

from __future__ import annotations

from warmroute.engines.exposition import count_label, samples, total
from warmroute.engines.vitals import Dialect, Vitals, make_vitals


def _read(page: bytes) -> Vitals:
    return make_vitals(
        page,
        "fastdeploy",
        running=total(samples(page, "fastdeploy:num_requests_running")),
        waiting=total(samples(page, "fastdeploy:num_requests_waiting")),
        kv_cache_tokens=_kv_cache_tokens(page),
        free_kv_blocks=total(samples(page, "fastdeploy:available_gpu_block_num")),
    )


def _kv_cache_tokens(page: bytes) -> int | None:
    configs = samples(page, "fastdeploy:cache_config_info")
    block_size = next(filter(None, (count_label(sample, "block_size") for sample in configs)), None)
    blocks = total(samples(page, "fastdeploy:max_gpu_block_num"))
    if not block_size or not blocks:
        return None
    return int(blocks) * block_size


FASTDEPLOY = Dialect(b"fastdeploy:", _read)
