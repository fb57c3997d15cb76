"""What SGLang's own code published (0.5.23), against what its radix cache says that it holds.

The fixture was recorded without a GPU from that release's `RadixCache`, `KVCacheEventRecorder` and `ZmqEventPublisher`,
for pages of 1, 16 and 64 tokens: prompts that hit, end within a node, or have a salt, evictions and a flush. A line is
the page size that those after it have, a request (token ids, and the tokens that the cache had of it), or the frames
that were published.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.pools import make_worker

from warmroute.engines.kv_events.batch import read_batch, read_message
from warmroute.prompts.fingerprint import pack_token_ids
from warmroute.prompts.token_blocks import TokenBlocks
from warmroute.scheduling.exact_index import ExactIndex

FIXTURE = Path(__file__).with_name("fixtures") / "sglang.jsonl"
LEAST_BLOCK = 16
"""Pages below this are taken together."""


def lines(page: int) -> Iterator[dict[str, Any]]:
    """The requests and frames of one page size."""
    current = 0
    for text in FIXTURE.read_text().splitlines():
        line = json.loads(text)
        if "page" in line:
            current = line["page"]
        elif current == page:
            yield line


@pytest.mark.parametrize("page", [1, 16, 64])
def test_what_is_predicted_is_what_the_cache_had(page: int):
    index, worker = ExactIndex(1 << 30), make_worker()
    source = index.source(worker)
    compared = []
    for line in lines(page):
        if "frames" in line:
            message = read_message([bytes.fromhex(frame) for frame in line["frames"]])
            batch = read_batch(message.payload)
            assert (batch.unreadable, batch.rank) == (0, 0)
            source.apply(batch.events)
            continue
        blocks = TokenBlocks(pack_token_ids(line["prompt"]), line["salt"])
        compared.append((index.match(blocks).get(worker, 0), line["cached_tokens"]))
    block = max(page, LEAST_BLOCK)
    assert len(compared) == 14
    assert [predicted for predicted, _ in compared] == [cached // block * block for _, cached in compared]
    assert sum(cached for _, cached in compared) > 1000
    assert source.orphans == source.refused == 0
