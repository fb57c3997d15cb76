"""A router that follows SGLang: what its own code once published, sent again over real sockets, in both encodings.

There is no /kv_event_sources, so its publishers are configured, in the form of its `--kv-events-config`. Its events are
maps in 0.5.23 and were arrays before, with at most the fields below; hashes are signed.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from tests.engines.kv_events.test_recorded_sglang import lines
from tests.support.http_client import COMPLETIONS, ask, post
from tests.support.kv_publisher import ScriptedPublisher
from tests.support.router import config, eventually, running
from tests.support.scripted_worker import ScriptedWorker, response

pytestmark = pytest.mark.asyncio(loop_scope="module")

ARRAYS = {
    "BlockStored": ("block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium"),
    "BlockRemoved": ("block_hashes", "medium"),
    "AllBlocksCleared": (),
}


def recorded(frames: list[str]) -> list[dict[str, Any]]:
    """The events of a recorded message."""
    _, events, _ = msgspec.msgpack.decode(bytes.fromhex(frames[2]))
    return list(events)


def as_array(event: dict[str, Any]) -> list[Any]:
    """An event as releases before the maps wrote it: the salt in a map where vLLM has the adapter's name."""
    fields = [event.get(name) for name in ARRAYS[event["type"]]]
    salt = event.get("cache_salt")
    return [event["type"], *fields, *([{"cache_salt": salt}] if salt else [])]


async def engine_answer(request, connection):
    """It knows nothing of /kv_event_sources, nor how much was cached."""
    if request.target == COMPLETIONS.encode():
        await connection.send(response(json.dumps({"usage": {"prompt_tokens": 1}}).encode()))
    else:
        await connection.send(response(b"{}", b"404 Not Found"))


@pytest.mark.parametrize("page", [1, 64])
@pytest.mark.parametrize("arrays", [False, True])
async def test_predictions_follow_what_is_published(page: int, arrays: bool):
    """The first events came before the router and are replayed, one is lost on the way and asked for again."""
    script = list(lines(page))
    async with ScriptedWorker(engine_answer) as worker, ScriptedPublisher() as publisher:

        async def publish(line: dict[str, Any], *, lost: bool = False) -> None:
            publisher.loses = lost
            events = recorded(line["frames"])
            await publisher.publish(*(map(as_array, events) if arrays else events))

        early = [line for line in script[:4] if "frames" in line]
        for line in early:
            await publish(line)
        settings = config(
            worker.url,
            scheduler={"kv_events": True, "policy": "cache_aware"},
            kv_events_endpoint=(publisher.address.replace("127.0.0.1", "0.0.0.0"),),
            kv_events_replay_endpoint=(publisher.replay.replace("127.0.0.1", "*"),),
        )
        async with running(settings) as router:
            await publisher.subscribed()
            counts = router._exact.subscriptions.counts
            held_back = None
            predicted, cached = [], []
            for at, line in enumerate(script[4:], 4):
                if "frames" in line:
                    # The message before the last is kept from the router: the next one shows the gap.
                    held_back = at if held_back is None and at > 10 else held_back
                    await publish(line, lost=held_back == at)
                    continue
                if held_back == at - 1:
                    continue  # nothing has shown the gap yet
                await eventually(lambda: counts.batches == publisher.next, "all events are taken in", 5)
                before = router.metrics.matched_tokens
                body = {"model": "m", "prompt": line["prompt"]} | ({"cache_salt": line["salt"]} if line["salt"] else {})
                answer = await ask(router.port, post(COMPLETIONS, body))
                assert answer.status == 200
                predicted.append(router.metrics.matched_tokens - before)
                cached.append(line["cached_tokens"] // max(page, 16) * max(page, 16))
            assert predicted == cached
            assert len(predicted) >= 10
            assert sum(predicted) > 900
            assert counts.gaps == 1
            assert publisher.asked[0] == 0
            assert len(publisher.asked) == 2
            assert (counts.losses, counts.unreadable, counts.resyncs, counts.restarts) == (0, 0, 0, 0)
