"""Reading the requests of a client connection, and refusing what is none.

A POST to an inference path becomes an Exchange and is relayed; any other request is handed on to uvicorn and its ASGI
application.
"""

# ruff: noqa: D102 - most methods are those of httptools' protocols

from __future__ import annotations

import logging

import httptools

from warmroute.gateway.errors import BodyTooLarge, GatewayError, InternalError, MalformedRequest, OutOfResources
from warmroute.gateway.exchange import Exchange
from warmroute.gateway.headers import RequestHead, read_request_head
from warmroute.gateway.known_head import KnownRequest
from warmroute.gateway.limits import (
    MAX_BODY_PIECES,
    MAX_HEAD_BYTES,
    MAX_HEADERS,
    MAX_TARGET_BYTES,
    refuse_head,
    refuse_head_size,
    refuse_target_and_headers,
)
from warmroute.gateway.targets import inference_kind, origin_form, without_upgrade
from warmroute.gateway.turns import TurnTaking
from warmroute.prompts.body import Kind

logger = logging.getLogger(__name__)


class RequestReading(TurnTaking):
    """One client connection: what comes in."""

    # As defaults of the class, for want of arguments of its own.
    _in_head = False
    _head_bytes = 0  # received since the last head was complete: no less than the head under way
    _bytes_before = 0  # of these, what came no later than the end of the last request: no less than was its own
    _control_body_bytes = 0
    _upgrade_asked = False
    _fed: bytes | None = None  # what the parser has got of the request whose head it reads, if it was one piece
    _known: KnownRequest | None = None
    _lessons = 8  # so many heads are learned at most: a client that repeats none is not worth it
    _missing = 0  # bytes to come of a body whose head was known
    _admitted_by: bytes | None = None  # the very field of the last request that was let in: most repeat all fields
    _is_surplus = False  # came when hardly a file more could be opened

    # httptools

    def on_message_begin(self) -> None:
        self.url = b""
        self.headers = []
        self._in_head = True
        self._began = self._last_activity

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # else it is a trailer
            self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._in_head = False
        if self._last_request_seen:
            return
        parser, url, headers = self.parser, self.url, self.headers
        method = parser.get_method()
        if parser.should_upgrade() and method != b"CONNECT":
            self._upgrade_asked = True
            return
        refusal: GatewayError | None = None
        if self._head_bytes > MAX_HEAD_BYTES or len(headers) > MAX_HEADERS or len(url) > MAX_TARGET_BYTES:
            refusal = refuse_target_and_headers(url, headers)
        if url[:1] != b"/":
            try:
                self.url = url = origin_form(url)
            except ValueError as error:
                refusal = refusal or MalformedRequest(str(error))
        kind = inference_kind(url) if method == b"POST" else None
        if kind is not None:
            self._begin_parsed(kind, refusal)
        else:
            self._begin_control(refusal)

    def on_body(self, body: bytes) -> None:
        reading = self._reading
        if isinstance(reading, Exchange):
            reading.body_pieces.append(body)
            if len(reading.body_pieces) >= MAX_BODY_PIECES:
                reading.fold_body()
            reading.body_size = size = reading.body_size + len(body)
            if size > self._gateway.max_body_bytes:
                self._refuse_rest(BodyTooLarge(self._gateway.max_body_bytes))
        elif reading is not None:
            self._control_body_bytes += len(body)
            if self._control_body_bytes > self._gateway.max_body_bytes:
                self._refuse_rest(BodyTooLarge(self._gateway.max_body_bytes))
            else:
                super().on_body(body)

    def on_message_complete(self) -> None:
        self._bytes_before = self._head_bytes
        reading, self._reading = self._reading, None
        if isinstance(reading, Exchange):
            reading.complete_body()
            reading.complete_at = self._last_activity
            if reading is self._current:
                self._answer(reading)
        elif reading is not None:
            super().on_message_complete()

    def _feed(self, data: bytes) -> None:
        if self._last_request_seen and self._reading is None:
            return
        if self._missing:
            self._go_on_known(data)
            return
        self._fed = data if not self._head_bytes and self._reading is None else None
        self._head_bytes += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            if self._upgrade_asked:
                self._read_without_upgrade(data[upgrade.args[0] :])
                return
        except httptools.HttpParserCallbackError:
            logger.exception("a request could not be read because of a fault in the router")
            self._refuse_rest(InternalError())
        except httptools.HttpParserError as error:
            self._refuse_rest(MalformedRequest(f"Invalid HTTP request: {error}"))
        if not self._in_head:
            self._head_bytes = self._bytes_before = 0
        elif self._head_bytes - self._bytes_before > MAX_HEAD_BYTES:
            self._refuse(refuse_head_size(self.url))

    def _read_without_upgrade(self, rest: bytes) -> None:
        """Read a request again as if it had not asked for another protocol: the parser took it for bodiless."""
        self._upgrade_asked = False
        head = without_upgrade(self.parser.get_method(), self.url, self.parser.get_http_version(), self.headers)
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._feed(head + rest)

    # A request begins.

    def _begin_parsed(self, kind: Kind, refusal: GatewayError | None) -> None:
        gateway = self._gateway
        version = self.parser.get_http_version()
        head = read_request_head(self.headers, keeps_credentials=gateway.keeps_credentials)
        refusal = refusal or refuse_head(head, version, gateway.max_body_bytes)
        keep_alive = version == "1.1" and self.parser.should_keep_alive() and gateway.keeps_clients
        exchange = self._new_exchange(kind, head, self.url, refusal, keep_alive)
        exchange.http_1_0 = version != "1.1"
        if exchange.keep_alive and self._fed is not None and self._lessons:
            self._lessons -= 1
            self._known = KnownRequest.of(self._fed, kind, head, self.url)
        self._fed = None
        self._enqueue(exchange)

    def _begin_known(self, known: KnownRequest, body: bytes) -> None:
        """A request has come whose head needs no parser. `body` is the body, or what there is of it."""
        self._began = self._last_activity
        keep_alive = self._gateway.keeps_clients
        exchange = self._new_exchange(known.kind, known.fields, known.target, None, keep_alive)
        if exchange.refusal is not None:
            self._enqueue(exchange)
            return
        self._current = exchange
        missing = known.head.length - len(body)
        if missing:
            self._missing = missing
            if body:
                self.on_body(body)
            return
        exchange.body = body
        exchange.body_size = known.head.length
        exchange.body_complete = True
        exchange.complete_at = self._last_activity
        self._reading = None
        self._answer(exchange)

    def _go_on_known(self, data: bytes) -> None:
        body = data if len(data) <= self._missing else data[: self._missing]
        self._missing -= len(body)
        self.on_body(body)
        if not self._missing:
            self.on_message_complete()
            if len(body) < len(data):
                self.data_received(data[len(body) :])

    def _new_exchange(
        self,
        kind: Kind,
        head: RequestHead,
        target: bytes,
        refusal: GatewayError | None,
        keep_alive: bool,
    ) -> Exchange:
        """The request whose body is read from now on, unless it is refused."""
        gateway = self._gateway
        request_id = head.request_id or gateway.new_request_id()
        exchange = Exchange(self, head, gateway.metrics, request_id, kind, target)
        exchange.keep_alive = keep_alive
        if head.origin:
            exchange.extra_headers = gateway.cors_lines(head.origin)
        if gateway.doorkeeper is not None and head.authorization is not self._admitted_by:
            refusal = refusal or gateway.doorkeeper.refusal(head)
            if refusal is None and not head.api_key:
                self._admitted_by = head.authorization
        if self._is_surplus and gateway.descriptors.is_short:
            refusal = refusal or OutOfResources(str(gateway.descriptors))
        if refusal is None:
            self._reading = exchange
            self._last_request_seen = not keep_alive
        else:
            exchange.refusal = refusal
            exchange.keep_alive = False
            self._last_request_seen = True
        return exchange

    def _begin_control(self, refusal: GatewayError | None) -> None:
        """Hand the request on to uvicorn, which has not heard of it yet."""
        self._fed = None
        head, version = read_request_head(self.headers), self.parser.get_http_version()
        refusal = refusal or refuse_head(head, version, self._gateway.max_body_bytes)
        if refusal is not None:
            self._refuse(refusal)
            return
        url, headers = self.url, self.headers
        super().on_message_begin()
        self.url = url
        for name, value in headers:
            super().on_header(name, value)
        self.cycle = None  # type: ignore[assignment]  # whose turn it is, is decided here
        self._control_body_bytes = 0
        super().on_headers_complete()
        self._reading = self.cycle

    def _refuse(self, error: GatewayError) -> None:
        """Answer what cannot be taken for a request, when its turn comes, and close."""
        self._in_head = False
        self._last_request_seen = True
        exchange = Exchange(self, RequestHead(), self._gateway.metrics, request_id=self._gateway.new_request_id())
        exchange.refusal = error
        self._enqueue(exchange)

    def _refuse_rest(self, error: GatewayError) -> None:
        reading, self._reading = self._reading, None
        self._last_request_seen = True
        if isinstance(reading, Exchange):
            reading.refusal = error
            reading.keep_alive = False
            if reading is self._current:
                self._answer(reading)
        elif reading is None:
            self._refuse(error)
        elif reading is self._current and not reading.response_started:
            self._disconnect(reading)
            self._current = None
            self._refuse(error)
        else:
            self.transport.close()
