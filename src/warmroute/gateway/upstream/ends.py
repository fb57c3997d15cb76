"""The two whom a connection to a worker serves: where a response goes to, and who keeps the connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from warmroute.gateway.chunked import ChunkPipe
from warmroute.gateway.errors import UpstreamError
from warmroute.gateway.headers import ResponseHead
from warmroute.gateway.known_head import KnownResponse, KnownStream

if TYPE_CHECKING:
    from warmroute.gateway.upstream.connection import UpstreamConnection


class Sink(Protocol):
    """Where a response goes to. `is_holding`: an error is kept back from a client, who waits for something better."""

    is_holding: bool
    drops_good: bool
    """Whether nothing of a good answer is kept but its body: the lines of its head are then of no use."""
    pipe: ChunkPipe | None
    """Takes whole chunks of the body from now on, if they are wanted as they are."""

    def response_received(self, head: ResponseHead | None, body: bytes, complete: bool) -> None:
        """What one read brought. After `complete` the connection is no longer the sink's."""

    def response_failed(self, error: UpstreamError) -> None:
        """The response will not be completed. The connection is no longer the sink's."""


class Owner(Protocol):
    """Who keeps the connection while it carries no exchange."""

    known: KnownResponse | None
    """The head of the worker's last good response, whichever connection it came on."""
    known_stream: KnownStream | None
    """The same for those with a chunked body."""

    def connection_opened(self, connection: UpstreamConnection) -> None:
        """The connection is there; called once."""

    def connection_free(self, connection: UpstreamConnection) -> None:
        """The response is complete and the connection may carry another exchange."""

    def connection_ended(self, connection: UpstreamConnection) -> None:
        """The connection is gone; called once, after `connection_opened`."""
