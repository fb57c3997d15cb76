"""What a real engine published (vLLM 0.32 on a CPU, 40 blocks of 32 tokens), against what it said it had cached.

Each line of the fixture is a request (its token ids, and the cached tokens of its answer's usage) or the frames that it
made the engine publish: prompts that hit, that end with a block, with a salt, and evictions in a cache that is full.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.pools import make_worker

from warmroute.engines.kv_events.batch import read_batch, read_message
from warmroute.prompts.fingerprint import pack_token_ids
from warmroute.prompts.token_blocks import TokenBlocks
from warmroute.scheduling.exact_index import ExactIndex

LINES: list[dict[str, Any]] = [
    json.loads(line) for line in Path(__file__).with_name("fixtures").joinpath("vllm.jsonl").read_text().splitlines()
]
BLOCKS = 40


def test_what_is_predicted_is_what_the_engine_had():
    index, worker = ExactIndex(1 << 30), make_worker()
    source = index.source(worker)
    compared = []
    for line in LINES:
        if "frames" in line:
            message = read_message([bytes.fromhex(frame) for frame in line["frames"]])
            batch = read_batch(message.payload)
            assert batch.unreadable == 0
            source.apply(batch.events)
            assert len(source) <= BLOCKS
            continue
        blocks = TokenBlocks(pack_token_ids(line["prompt"]), line["salt"])
        if not line.get("after_reset"):  # that is announced with the next request's own blocks
            compared.append((index.match(blocks).get(worker, 0), line["cached_tokens"]))
    assert len(compared) == 11
    assert [predicted for predicted, _ in compared] == [cached for _, cached in compared]
    assert sum(cached for _, cached in compared) > 200
    assert source.orphans == source.refused == 0


def test_the_frames_are_numbered_from_zero():
    numbers = [
        read_message([bytes.fromhex(frame) for frame in line["frames"]]).sequence for line in LINES if "frames" in line
    ]
    assert numbers == list(range(len(numbers)))
