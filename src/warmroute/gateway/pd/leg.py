"""One leg of a pair: the sink of one connection. Callbacks judge what comes, and move it.

A leg that was sent on a kept connection which had died unnoticed `is_lost`: it is sent once more, on a new one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

from warmroute.engines.dialect import MAX_HELD_BYTES
from warmroute.gateway.chunked import ChunkPipe
from warmroute.gateway.errors import ConnectFailed, ConnectionLost, UpstreamError
from warmroute.gateway.headers import ResponseHead
from warmroute.gateway.held import HeldAnswer
from warmroute.gateway.pd.verdict import Side, Verdict, judge
from warmroute.gateway.upstream.connection import UpstreamConnection
from warmroute.scheduling.lease import Lease

if TYPE_CHECKING:
    from warmroute.gateway.pd.pair_run import PairRun

_ACCEPT = Verdict.ACCEPT  # an attribute of an Enum costs a call
_ACCEPT_ENCODING = re.compile(rb"^accept-encoding:[^\n]*\n", re.IGNORECASE | re.MULTILINE)


class Leg:
    """What both legs have in common. The lease is its own; the pair's run gives it back in the end."""

    side: ClassVar[Side]
    pipe: ChunkPipe | None = None

    # How every leg begins. As defaults of the class they cost nothing until they change.
    status = 0
    collects = False
    """Whether its answer is needed, and is therefore to be readable."""
    is_lost = False
    is_holding = False
    drops_good = False
    body = b""
    """What to send; until the worker answers, it may have to be sent once more."""
    _connection: UpstreamConnection | None = None
    _is_kept = False
    _is_lost_once = False
    _is_cancelled = False
    _is_sent = False
    _head: ResponseHead | None = None
    _held: bytearray | None = None

    def __init__(self, run: PairRun, lease: Lease) -> None:
        self.lease = lease
        self._run: PairRun | None = run
        self._exchange = run.exchange
        self._gateway = gateway = run.gateway
        self._verdict = _ACCEPT
        self.connections = gateway.upstream.of(lease.worker)

    # There.

    def take_kept(self) -> bool:
        """Take a kept connection. Whether there was one."""
        self._connection = connection = self.connections.idle.take(self._gateway.upstream.now())
        self._is_kept = is_kept = connection is not None
        return is_kept

    async def connect(self) -> None:
        """Open a connection. LegFailed when that fails."""
        try:
            # The leg may begin long after the pair was chosen, and what is unused is forgotten.
            self.connections = self._gateway.upstream.of(self.lease.worker)
            self._connection = await self.connections.connect()
        except ConnectFailed as error:
            error.request_lost = self._is_lost_once
            if self._run is not None and not self._is_cancelled:
                raise self._run.fail(self, error) from error

    def send(self) -> None:
        """Send the request on the connection that was opened."""
        connection, exchange = self._connection, self._exchange
        if connection is None:
            return
        if self._is_cancelled or exchange.client_gone or exchange.started:
            # The other leg has decided it while this one was connecting: no engine shall begin with it.
            self.cancel()
            return
        body = self.body
        head = exchange.head_for(self.connections.address, len(body))
        try:
            connection.send(readable(head) if self.collects else head, body, self)
            self._is_sent = True
        except ConnectionLost as error:
            self.response_failed(error)

    async def send_again(self) -> None:
        """Send what was lost on a new connection."""
        self.is_lost = self._is_sent = False
        await self.connect()
        self.send()

    def cancel(self) -> None:
        """End what is under way, for good; nothing more is heard of it."""
        self.is_lost = False
        self._is_cancelled = True
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._is_sent:
            connection.abort()
        else:
            self.connections.put_back(connection)

    def detach(self) -> None:
        """The pair's run is over."""
        self._run = None
        self.body = b""

    # And back.

    def response_received(self, head: ResponseHead | None, body: bytes, complete: bool) -> None:
        """What one read from the worker brought."""
        if complete:
            self._connection = None
        if self._exchange.client_gone:
            return
        if head is not None:
            self.status = status = head.status
            self._head = head
            self.body = b""
            if status != 200:
                self._verdict = judge(self.side, status, client_has_bytes=self._exchange.started)
                if self._run is not None and self._verdict in (Verdict.PASS, Verdict.REPLACE):
                    self._run.cancel_other(self)
        if self._verdict is _ACCEPT:
            self._accept(body, complete)
        elif self._verdict is Verdict.REPLACE:
            self._hold(body, complete)
        elif self._verdict is Verdict.PASS:
            self._refuse(body, complete)
        elif complete:
            self._too_late(f"answered {self.status}", self.status)

    def response_failed(self, error: UpstreamError) -> None:
        """The connection has failed."""
        self._connection = None
        if self._exchange.client_gone:
            return
        if self._run is None or self._exchange.started:
            self._broken(error)
        elif self._is_kept and isinstance(error, ConnectionLost) and not error.response_seen:
            self._is_kept = False
            self._is_lost_once = self._is_sent
            self.is_lost = True
            self._exchange.wake()
        else:
            self._run.fail(self, error)

    def _accept(self, body: bytes, complete: bool) -> None:
        raise NotImplementedError

    def _broken(self, error: UpstreamError) -> None:
        raise NotImplementedError

    def _too_late(self, what: str, status: int) -> None:
        raise NotImplementedError

    def _refuse(self, body: bytes, complete: bool) -> None:
        self._pass_on(body, complete)

    def _hold(self, body: bytes, complete: bool) -> None:
        """Keep an answer back until it is whole. One that is too long to be kept is the client's."""
        held = self._collect(body)
        self.is_holding = not complete
        if complete:
            self._held_back()
        elif len(held) > MAX_HELD_BYTES:
            self._pass_on(b"", False)

    def _collect(self, body: bytes) -> bytearray:
        """Keep this, too. All that is kept."""
        held = self._held
        if held is None:
            held = self._held = bytearray()
        held += body
        return held

    def _held_back(self) -> None:
        run, head = self._run, self._head
        if run is not None and head is not None:
            run.fail(self, HeldAnswer(head, bytes(self._held or b""), run.router_lines, self.status))

    def _pass_on(self, body: bytes, complete: bool) -> None:
        """What is held, what came now and all that follows is the client's, as it is."""
        if self._run is None:
            return
        connection, self._connection = self._connection, None
        self._run.begin_answer(connection)
        if connection is not None:
            connection.hand_to(self._exchange)
        if self._held:
            body = bytes(self._held) + body
        head, self._head = self._head, None
        self._exchange.response_received(head, body, complete)


def readable(head: bytes) -> bytes:
    """The head of a request whose answer must not come compressed."""
    return _ACCEPT_ENCODING.sub(b"", head) if b"accept-encoding" in head.lower() else head
