"""Valid requests, damaged and cut at random: always an answer or a close, never a fault of the router."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from random import Random

import uvicorn
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.gateway.fakes import FakeTransport
from tests.gateway.rig import CHAT, FakeFleet, control_app, post
from uvicorn.server import ServerState

from warmroute.config.tree import Config, ServerConfig
from warmroute.gateway.gateway import Gateway
from warmroute.prompts.ladder import Ladder
from warmroute.scheduling.ledger import Ledger
from warmroute.scheduling.prefix_index import PrefixIndex
from warmroute.scheduling.scheduler import Scheduler
from warmroute.telemetry.metrics import Metrics

MESSAGES = [
    post(),
    post(version=b"1.0"),
    post(b"/v1/completions?x", b'{"prompt":[1,2]}', [b"Expect: 100-continue", b"Origin: https://a"]),
    post(b"/register", b"{}"),
    post(headers=[b"Connection: Upgrade", b"Upgrade: h2c"]),
    b"GET http://r/health HTTP/1.1\r\nHost: r\r\nConnection: close\r\n\r\n",
    b"POST /tokenize HTTP/1.1\r\nHost: r\r\nTransfer-Encoding: chunked\r\n\r\n2;a\r\n{}\r\n0\r\nA: b\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\n\r\n",
    b"\x16\x03\x01\x02\x00",
]
ANSWERS = re.compile(rb"HTTP/1\.1 (\d+) ")

streams = st.lists(st.sampled_from(MESSAGES), min_size=1, max_size=5)
edits = st.lists(st.tuples(st.integers(0, 500), st.binary(max_size=4), st.integers(0, 8)), max_size=4)
cuts = st.lists(st.integers(0, 600), max_size=6)


def make_gateway(ledger: Ledger) -> Gateway:
    config = Config(server=ServerConfig(max_body_bytes=1000, cors_allowed_origins=("https://a",)))
    ladder = Ladder.default()
    scheduler = Scheduler(
        {"mixed": lambda candidates, prompt, rng: candidates[0]},
        PrefixIndex(ladder, 1 << 20, 60),
        ledger,
        rng=Random(1),
        clock=time.monotonic,
    )
    return Gateway(config, scheduler, FakeFleet(), Metrics(), ladder=ladder, rng=Random(2))


async def play(data: bytes, cuts: list[int], ledger: Ledger, *, learns: bool = True) -> bytes:
    """Deliver `data` in pieces, let everything run, and return what came out. `learns`: heads are known again."""
    gateway = make_gateway(ledger)
    config = uvicorn.Config(control_app, http=gateway.protocol_factory, ws="none", lifespan="off", log_config=None)
    config.load()
    state = ServerState()
    protocol = gateway.protocol_factory(config=config, server_state=state, app_state={})
    if not learns:
        protocol._lessons = 0
    transport = FakeTransport()
    protocol.connection_made(transport)
    start = 0
    for end in [*sorted(cuts), len(data)]:
        if end > start and not transport.closed:
            assert transport.reading
            protocol.data_received(data[start:end])
            start = end
            for _ in range(6):
                await asyncio.sleep(0)
    transport.closed = True
    protocol.connection_lost(None)
    async with asyncio.timeout(2):
        while state.tasks:
            await asyncio.sleep(0)
    await gateway.close()
    return bytes(transport.written)


@settings(max_examples=150)
@given(streams, edits, cuts)
def test_damaged_and_cut_requests(messages, edits, cuts):
    data = b"".join(messages)
    for position, inserted, deleted in edits:
        data = data[:position] + inserted + data[position + deleted :]
    ledger = Ledger()
    with _no_faults_logged():
        written = asyncio.run(play(data, cuts, ledger))
    assert written == b"" or written.startswith(b"HTTP/1.1 ")
    assert {int(status) for status in ANSWERS.findall(written)} <= {100, 200, 400, 413, 503}
    assert ledger.open_leases == 0


REPEATED = [post(body=b"{%b}" % (b" " * size)) for size in (0, 7, 900, 1000)] + MESSAGES


@settings(max_examples=150)
@given(st.lists(st.sampled_from(REPEATED), min_size=2, max_size=8), st.booleans(), cuts, edits)
def test_a_head_that_is_known_again_changes_nothing(messages, whole, cuts, edits):
    """Each message in one read, as most come, or cut and damaged: as if every head had been parsed."""
    data = b"".join(messages)
    if whole:
        cuts = [len(b"".join(messages[:count])) for count in range(1, len(messages))]
    else:
        for position, inserted, deleted in edits:
            data = data[:position] + inserted + data[position + deleted :]
    with _no_faults_logged():
        written = [asyncio.run(play(data, cuts, Ledger(), learns=learns)) for learns in (True, False)]
    assert written[0] == written[1]


def test_undamaged_requests_are_all_answered():
    """The same play, so that it is known to reach the answers."""
    written = asyncio.run(play(post() + MESSAGES[6] + post(b"/register", b"{}"), [10, 100], Ledger()))
    assert [int(status) for status in ANSWERS.findall(written)] == [503, 503, 200]
    assert written.endswith(b"control /register 2")
    assert CHAT not in written


class _no_faults_logged(logging.Handler):  # noqa: N801 - reads like a function
    """Fails when something is logged as an error."""

    def __enter__(self) -> None:
        self.setLevel(logging.ERROR)
        logging.getLogger().addHandler(self)

    def __exit__(self, *exc_info: object) -> None:
        logging.getLogger().removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        raise AssertionError(record.getMessage()) from (record.exc_info[1] if record.exc_info else None)
