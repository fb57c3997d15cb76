"""Every row of the second table of docs/reference/faults.md."""

import asyncio

import pytest
from tests.faults.stage import MODES, staged
from tests.faults.table import ClientFault, client_faults
from tests.faults.worker_faults import JSON_TYPE, good
from tests.support.http_client import Client
from tests.support.pd import EVENTS, JSON_BODY, chat
from tests.support.router import assert_nothing_held, eventually
from tests.support.scripted_worker import SSE_HEAD, Hanging, answering, chunk, head

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROWS = client_faults()
SLOW_SIZE = 30_000_000


class Play:
    """One client against one stage; a method for each row."""

    def __init__(self, stage, client: Client) -> None:
        self.stage = stage
        self.client = client

    async def resets_inside_the_head(self):
        await self.client.send(chat()[:30])
        await asyncio.sleep(0.02)
        self.client.abort()

    async def resets_inside_the_body(self):
        await self.client.send(chat()[:-30])
        await asyncio.sleep(0.02)
        self.client.abort()

    async def stops_inside_the_head(self):
        await self.client.send(chat()[:30])
        await self._is_refused()

    async def stops_inside_the_body(self):
        await self.client.send(chat()[:-30])
        await self._is_refused()

    async def _is_refused(self):
        answer = await self.client.read_response()
        assert answer.status == 408
        assert answer.error["code"] == "request_timeout"
        self.client.end_sending()
        assert await self.client.read_to_end() == b""
        assert self.stage.counted()["deadlines"]["client_read"] == 1

    async def drips_its_head(self):
        await self._drips(chat()[:45])

    async def drips_its_body(self):
        await self._drips(chat()[:-30])

    async def _drips(self, begin: bytes):
        await self.client.send(begin)

        async def drip():
            while True:
                await asyncio.sleep(0.1)
                await self.client.send(b"x")

        dripping = asyncio.create_task(drip())
        await self._is_refused()
        dripping.cancel()
        await asyncio.gather(dripping, return_exceptions=True)

    async def waits_to_be_told_to_go_on(self):
        self.stage.fail(answering(good(stream=False)), 1)
        head, _, body = chat().partition(b"\r\n\r\n")
        await self.client.send(head + b"\r\nExpect: 100-continue\r\n\r\n")
        assert (await self.client.read_head()).status == 100
        assert not self.stage.failing.seen
        await self.client.send(body)
        assert (await self.client.read_response()).body == JSON_BODY

    async def resets_while_the_worker_computes(self):
        await self._waits(Hanging())
        self.client.abort()

    async def closes_its_sending_side_while_the_worker_computes(self):
        await self._waits(Hanging())
        self.client.end_sending()

    async def _waits(self, hanging: Hanging):
        self.stage.fail(hanging, 1)
        await self.client.send(chat(stream=True))
        await asyncio.wait_for(hanging.started.wait(), 5)

    async def resets_behind_the_first_chunk(self):
        await self._waits(Hanging(SSE_HEAD + chunk(EVENTS[0])))
        await self.client.read_head()
        assert await self.client.read_chunk() == EVENTS[0]
        self.client.abort()

    async def resets_in_the_middle_of_a_whole_answer(self):
        await self._waits(Hanging(head(b"200 OK", [JSON_TYPE, (b"Content-Length", b"1000")]) + b"{"))
        await self.client.read_head()
        assert await self.client.reader.readexactly(1) == b"{"
        self.client.abort()

    async def resets_behind_the_answer(self):
        self.stage.fail(answering(good(stream=False)), 1)
        assert (await self.client.ask(chat())).body == JSON_BODY
        self.client.abort()

    async def reads_slowly(self):
        body = b"x" * SLOW_SIZE
        data = head(b"200 OK", [JSON_TYPE, (b"Content-Length", b"%d" % SLOW_SIZE)]) + body
        self.stage.fail(answering(data), 1)
        await self.client.send(chat())
        await self.client.read_head()
        await asyncio.sleep(1.2)  # longer than a worker may be silent here
        received = 0
        while received < SLOW_SIZE:
            received += len(await asyncio.wait_for(self.client.reader.read(2**20), 5))
        assert received == SLOW_SIZE

    async def sends_three_requests_at_once(self):
        self.stage.fail(answering(good(stream=False)), 3)
        await self.client.send(chat() * 3)
        for _ in range(3):
            assert (await self.client.read_response()).body == JSON_BODY


def method_of(row: ClientFault) -> str:
    return row.name.replace(" ", "_")


async def test_every_row_is_played():
    assert {method_of(row) for row in ROWS} == {name for name in vars(Play) if not name.startswith("_")}


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "prefill"])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
async def test_row(stages, row: ClientFault, mode: str):
    hasty = row.name.startswith(("stops", "reads", "drips"))
    stage = await stages.of(mode, hasty=hasty)
    await stage.begin(good(stream=False))
    stage.expects("served")
    async with await Client.connect(stage.router.port, receive_buffer=65536) as client:
        await getattr(Play(stage, client), method_of(row))()
        await assert_nothing_held(stage.router)
        await check(stage, row)


async def check(stage, row: ClientFault) -> None:
    for side in filter(None, (stage.failing, stage.partner)):
        assert len(side.seen) == int(row.requests)
    await eventually(
        lambda: sum(stage.counted()["statuses"].values()) == (int(row.requests) or row.status != "none"),
        "the requests are counted",
    )
    assert set(stage.counted()["statuses"]) == (set() if row.status == "none" else {row.status})
    assert not stage.counted()["failed_attempts"], "no worker is to blame"
    if row.connection == "closed":
        await eventually(lambda: not any(map(stage.is_open, stage.connections)), "the connection is closed")
    elif row.connection == "kept":
        await asyncio.sleep(0.02)
        assert all(map(stage.is_open, stage.connections))


@pytest.mark.parametrize("mode", MODES)
async def test_clients_with_bad_requests_never_make_a_worker_unroutable(mode):
    """Ten at a time, with the breaker as it is by default: only what workers do counts against them."""
    async with staged(mode, breaker_failures=5) as stage:
        await stage.begin(good(stream=False))
        stage.expects("served")
        refusal = answering(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\n{}")
        stage.fail(refusal, 200)

        async def bad_client(number: int):
            for turn in range(10):
                async with await Client.connect(stage.router.port) as client:
                    kind = (number + turn) % 4
                    await client.send(
                        (chat(), chat()[:-30], b"\x00garbage\r\n\r\n", chat().replace(b"messages", b"messag\xff\xfe"))[
                            kind
                        ]
                    )
                    if kind != 1:
                        await client.read_head()
                    client.abort()

        await asyncio.gather(*map(bad_client, range(10)))
        await assert_nothing_held(stage.router)
        assert stage.routable() == (2 if mode == "mixed" else 4)
        assert not stage.counted()["failed_attempts"]
        stage.failing.first.clear()
        async with await Client.connect(stage.router.port) as client:
            assert (await client.ask(chat())).status == 200
