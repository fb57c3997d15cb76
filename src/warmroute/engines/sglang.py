"""SGLang's metrics. A page can say the same thing several times, so a plain sum would count twice.

Tensor- and pipeline-parallel ranks repeat the figures of their data-parallel rank; only the latter add up. With
priority scheduling there is one sample per priority and one aggregate whose label `priority` is empty.
"""

from __future__ import annotations

from warmroute.engines.exposition import Sample, count_label, mean_share, samples, total
from warmroute.engines.vitals import Dialect, Vitals, make_vitals


def _read(page: bytes) -> Vitals:
    page_size, capacity = _capacity(page)
    return make_vitals(
        page,
        "sglang",
        running=total(_per_rank(samples(page, "sglang:num_running_reqs"))),
        waiting=total(_per_rank(samples(page, "sglang:num_queue_reqs"))),
        kv_cache_tokens=capacity,
        free_kv_blocks=_free_pages(page, page_size, capacity),
    )


def _per_rank(found: list[Sample]) -> list[Sample]:
    """One sample per data-parallel rank."""
    aggregates = [sample for sample in found if sample.labels.get("priority") == ""]
    ranks: dict[str, Sample] = {}
    for sample in aggregates or found:
        key = sample.labels.get("dp_rank", "") + "/" + sample.labels.get("priority", "")
        if key not in ranks or sample.value > ranks[key].value:
            ranks[key] = sample
    return list(ranks.values())


def _capacity(page: bytes) -> tuple[int, int | None]:
    """Tokens of a page and of the whole KV pool: two gauges, or the labels of one info sample in older releases."""
    info = _per_rank(samples(page, "sglang:cache_config_info"))
    sizes = [int(sample.value) for sample in samples(page, "sglang:page_size")]
    page_size = max([*sizes, *(count_label(rank, "page_size") or 0 for rank in info), 1])
    told = total(_per_rank(samples(page, "sglang:max_total_num_tokens")))
    if told:
        return page_size, int(told)
    pages = sum(count_label(rank, "num_pages") or 0 for rank in info)
    return page_size, pages * page_size or None


def _free_pages(page: bytes, page_size: int, capacity: int | None) -> float | None:
    usage = _per_rank(samples(page, "sglang:token_usage"))
    if capacity is None or not usage:
        return None
    return capacity / page_size * (1.0 - mean_share(usage))


SGLANG = Dialect(b"sglang:", _read)
