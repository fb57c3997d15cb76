"""What a hostile client may send: what goes to a worker is exactly one request, and the same whatever the cuts."""

from __future__ import annotations

import asyncio
import time
from random import Random

import h11
import uvicorn
from tests.fuzz.cutting import pieces_of
from tests.gateway.fakes import FakeTransport
from tests.gateway.rig import FakeFleet, control_app
from uvicorn.server import ServerState

from warmroute.config.tree import Config, ServerConfig
from warmroute.gateway.exchange import Exchange
from warmroute.gateway.gateway import Gateway
from warmroute.gateway.headers import Framing, ResponseHead
from warmroute.gateway.upstream.address import Address
from warmroute.prompts.ladder import Ladder
from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.ledger import Ledger
from warmroute.scheduling.prefix_index import PrefixIndex
from warmroute.scheduling.scheduler import Scheduler
from warmroute.telemetry.metrics import Metrics

_ADDRESS = Address.of("http://worker:80")
_ANSWER = ResponseHead(200, b"OK", b"content-length: 2\r\n", Framing.LENGTH, False)


class Edge:
    """A gateway whose requests end in a list instead of a worker."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.loop.set_exception_handler(lambda _, context: self.faults.append(str(context)))
        self.faults: list[str] = []
        self.sent: list[tuple[bytes, bytes]] = []
        self.gateway = self.loop.run_until_complete(self._gateway())
        self.config = uvicorn.Config(
            control_app, http=self.gateway.protocol_factory, ws="none", lifespan="off", log_config=None
        )
        self.config.load()

    async def _gateway(self) -> Gateway:
        scheduler = Scheduler(
            {"mixed": lambda candidates, prompt, rng: candidates[0]},
            PrefixIndex(Ladder.default(), 1 << 20, 60),
            Ledger(),
            rng=Random(1),
            clock=time.monotonic,
        )
        options = Config(server=ServerConfig(max_body_bytes=1000))
        gateway = Gateway(options, scheduler, FakeFleet(), Metrics(), ladder=Ladder.default(), rng=Random(2))
        gateway.serve = self._serve
        return gateway

    async def _serve(self, exchange: Exchange, prompt: Prompt, gateway: Gateway) -> None:
        self.sent.append((exchange.head_for(_ADDRESS, exchange.body_size), exchange.body))
        exchange.attach(None, b"")
        exchange.response_received(_ANSWER, b"{}", True)

    def play(self, pieces: list[bytes], *, learns: bool = True) -> list[tuple[bytes, bytes]]:
        """What would have been sent to workers when a client sends these pieces and leaves.

        If the connection `learns`, a head that it has had before is known by its bytes.
        """
        self.loop.run_until_complete(self._play(pieces, learns))
        assert not self.faults, self.faults
        sent, self.sent = self.sent, []
        return sent

    def close(self) -> None:
        """The end."""
        self.loop.run_until_complete(self.gateway.close())
        self.loop.close()

    async def _play(self, pieces: list[bytes], learns: bool) -> None:
        state = ServerState()
        protocol = self.gateway.protocol_factory(config=self.config, server_state=state, app_state={})
        if not learns:
            protocol._lessons = 0
        transport = FakeTransport()
        protocol.connection_made(transport)
        for piece in pieces:
            if transport.closed:
                break
            protocol.data_received(piece)
            for _ in range(3):
                await asyncio.sleep(0)
        for _ in range(12):
            await asyncio.sleep(0)
        transport.closed = True
        protocol.connection_lost(None)
        for _ in range(100):
            if not state.tasks:
                break
            await asyncio.sleep(0)
        assert not state.tasks, "a request does not end"
        written = bytes(transport.written)
        assert not written or written.startswith(b"HTTP/1.1 "), written[:50]
        assert b"HTTP/1.1 500 " not in written, "a fault of the router"


def check(data: bytes, edge: Edge) -> None:
    """AssertionError for an input that shows a fault."""
    message, pieces = pieces_of(data)
    sent = edge.play(pieces)
    whole = edge.play([message] if message else [])
    count = min(len(sent), len(whole))
    assert _without_ids(sent[:count]) == _without_ids(whole[:count]), "cuts change what a worker gets"
    for head, body in sent:
        check_for_worker(head, body)
    # Once more on the same connection: heads are known by then.
    again = edge.play(pieces * 2)
    assert _without_ids(again) == _without_ids(edge.play(pieces * 2, learns=False)), "known is not same"


def _without_ids(sent: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return [(head.rpartition(b"x-request-id: ")[0], body) for head, body in sent]


def check_for_worker(head: bytes, body: bytes) -> None:
    """A strict parser must read one request with this body, and nothing behind it."""
    reader = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
    reader.receive_data(head + body)
    request = reader.next_event()
    assert isinstance(request, h11.Request), request
    names = [name for name, _ in request.headers]
    assert names.count(b"content-length") == names.count(b"host") == names.count(b"x-request-id") == 1
    assert not {b"transfer-encoding", b"connection", b"upgrade", b"te", b"keep-alive"} & set(names)
    read = b""
    while isinstance(event := reader.next_event(), h11.Data):
        read += event.data
    assert isinstance(event, h11.EndOfMessage), event
    assert read == body
    assert reader.trailing_data[0] == b"", "bytes behind the request"
