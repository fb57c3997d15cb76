"""A router that follows KV events: a prompt goes to the engine that has said that it holds it."""

import json

import pytest
from tests.support.http_client import CHAT, COMPLETIONS, ask, post
from tests.support.kv_events import ids
from tests.support.kv_publisher import ScriptedPublisher, removed_map, stored_map
from tests.support.router import config, eventually, running
from tests.support.scripted_worker import ScriptedWorker, answering, response

pytestmark = pytest.mark.asyncio(loop_scope="module")

BLOCKS = "abcdefgh"
PROMPT = {"model": "m", "prompt": [*ids(BLOCKS), 1]}


class Engine:
    """A scripted worker that says where its publisher is, and tokenises every chat to the same tokens."""

    def __init__(self, worker, publisher):
        self.worker, self.publisher = worker, publisher
        worker.script = self.script
        self.tokens = [*ids(BLOCKS), 1]
        self.cached = 0

    async def script(self, request, connection):
        if request.target == b"/kv_event_sources":
            source = {"endpoint": self.publisher.address.replace("127.0.0.1", "*"), "replay_endpoint": None}
            await connection.send(response(json.dumps({"0": source}).encode()))
        elif request.target == b"/tokenize":
            await connection.send(response(json.dumps({"tokens": self.tokens}).encode()))
        else:
            usage = {"prompt_tokens": len(self.tokens), "prompt_tokens_details": {"cached_tokens": self.cached}}
            await connection.send(response(json.dumps({"usage": usage}).encode()))

    @property
    def served(self):
        return sum(request.target in (CHAT.encode(), COMPLETIONS.encode()) for request in self.worker.requests)


def blocks_of(index, port):
    return sum(len(source) for source, _ in index.sources() if source.worker.url.endswith(f":{port}"))


async def send(router, path, body):
    answer = await ask(router.port, post(path, body))
    assert answer.status == 200


async def test_the_engine_that_holds_a_prompt_gets_it():
    async with (
        ScriptedWorker() as one,
        ScriptedWorker() as two,
        ScriptedPublisher() as pub1,
        ScriptedPublisher() as pub2,
    ):
        engines = [Engine(one, pub1), Engine(two, pub2)]
        settings = config(one.url, two.url, scheduler={"kv_events": True})
        async with running(settings) as router:
            for publisher in (pub1, pub2):
                await publisher.subscribed()
            index = router.scheduler.exact
            await pub1.publish(stored_map("x"))
            await pub2.publish(stored_map(BLOCKS))
            await eventually(lambda: index.held == 9, "the events are taken in", 5)
            for _ in range(4):
                await send(router, COMPLETIONS, PROMPT)
            await send(router, CHAT, {"model": "m", "messages": [{"role": "user", "content": "hi"}]})
            assert [engine.served for engine in engines] == [0, 5]
            assert router.metrics.matched_tokens == 5 * 8 * 16

            # It is evicted there and computed by the other one.
            await pub2.publish(removed_map(*(BLOCKS[: end + 1] for end in reversed(range(8)))))
            await pub1.publish(stored_map(BLOCKS))
            await eventually(lambda: blocks_of(index, one.port) == 9, "the events are taken in", 5)
            await send(router, COMPLETIONS, PROMPT)
            assert [engine.served for engine in engines] == [1, 5]
            page = await ask(router.port, b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            assert f'warmroute_kv_complete{{role="mixed",worker="127.0.0.1:{one.port}"}} 1.0'.encode() in page.body


async def test_without_events_requests_are_served_as_ever():
    """The engine knows nothing of them, nor of /tokenize."""
    async with ScriptedWorker(answering(response(b"{}", b"404 Not Found"))) as worker:
        settings = config(worker.url, scheduler={"kv_events": True})
        async with running(settings) as router:
            worker.script = answering(response())
            for path in (CHAT, COMPLETIONS):
                await send(router, path, {"model": "m", "prompt": "hi", "messages": []})
