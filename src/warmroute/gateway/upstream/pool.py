"""All connections to all workers: take an idle one, open a new one, keep what comes back.

One timer for all of them, running only while something is idle, closes what has been idle for too long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from warmroute.access.worker_keys import WorkerKeys
from warmroute.fleet.client import OUT_OF_RESOURCES
from warmroute.gateway.descriptors import Descriptors
from warmroute.gateway.errors import ConnectFailed, ConnectTimedOut, FirstByteTimedOut, OutOfResources
from warmroute.gateway.known_head import KnownResponse, KnownStream
from warmroute.gateway.sockets import keep_alive
from warmroute.gateway.upstream.address import Address
from warmroute.gateway.upstream.connection import UpstreamConnection
from warmroute.gateway.upstream.idle import IdleConnections
from warmroute.gateway.upstream.opening import OpeningTime
from warmroute.gateway.upstream.patience import Patience
from warmroute.scheduling.worker import Worker
from warmroute.tls import ClientTls

MAX_IDLE_PER_WORKER = 256
_SHORTEST_SWEEP_SECONDS = 0.1

_ENDLESS = Patience(0, 0)


class WorkerConnections:
    """The connections to one worker."""

    __slots__ = (
        "_connecting",
        "_pool",
        "address",
        "alone_lines",
        "idle",
        "known",
        "known_stream",
        "open",
        "role_line",
        "url_line",
        "worker",
    )

    def __init__(self, worker: Worker, pool: UpstreamPool) -> None:
        """ValueError when the worker's URL is none."""
        self._pool = pool
        self.worker = worker
        self.address = Address.of(worker.url, pool.keys.authorization(worker.url))
        self.url_line = b"X-Router-Worker-URL: %b\r\n" % worker.url.encode("ascii")
        self.role_line = b""
        """What the client is told if this worker is one of a pair (names as in FastDeploy's router)."""
        if worker.role != "mixed":
            role = worker.role.capitalize().encode("ascii")
            self.role_line = b"X-Router-%b-URL: %b\r\n" % (role, worker.url.encode("ascii"))
        self.alone_lines = self.url_line + self.role_line
        """What the client is told if this worker alone answers it."""
        self.idle: IdleConnections[UpstreamConnection] = IdleConnections(pool.idle_timeout, MAX_IDLE_PER_WORKER)
        self.open: set[UpstreamConnection] = set()
        self.known: KnownResponse | None = None
        self.known_stream: KnownStream | None = None
        self._connecting = 0

    @property
    def unused(self) -> bool:
        """Whether nothing is open, and nothing is being opened."""
        return not self.open and not self._connecting

    def put_back(self, connection: UpstreamConnection) -> None:
        """Keep a connection after all that was taken or opened, and then not used."""
        if not connection.is_closed:
            self.connection_free(connection)

    async def connect(self) -> UpstreamConnection:
        """Open a new connection. ConnectFailed when that is refused or takes too long, OutOfResources when it is not
        the worker that stands in the way.
        """
        if self._pool.descriptors.is_exhausted:
            raise OutOfResources(str(self._pool.descriptors))
        connection = UpstreamConnection(self, self.worker.url, own_cors=self._pool.own_cors)
        connected = False
        self._connecting += 1
        try:
            await self._pool.loop.create_task(self._open(connection))
            connected = True
            return connection
        finally:
            self._connecting -= 1
            self._pool.watch()
            if not connected:
                # A cancellation may come between the connection and its delivery; nobody else would count it out.
                connection.abort()

    async def _open(self, connection: UpstreamConnection) -> None:
        address, url, seconds = self.address, self.worker.url, self._pool.connect_timeout
        try:
            async with OpeningTime(seconds, self._pool.loop):
                tls = self._pool.tls.context if address.secure else None
                transport, _ = await self._pool.loop.create_connection(
                    lambda: connection, address.host, address.port, ssl=tls
                )
            keep_alive(transport)
        except TimeoutError as late:
            self._pool.on_deadline("connect")
            raise ConnectTimedOut(f"no connection within {seconds:g} s", url) from late
        except (OSError, UnicodeError) as error:
            if isinstance(error, OSError) and error.errno in OUT_OF_RESOURCES:
                raise OutOfResources(str(error)) from error
            raise ConnectFailed(str(error), url) from error

    def connection_opened(self, connection: UpstreamConnection) -> None:
        """Keep an eye on a connection, until it ends."""
        self.open.add(connection)
        self._pool.descriptors.upstream += 1

    def connection_free(self, connection: UpstreamConnection) -> None:
        """Keep a connection for the next exchange."""
        pool = self._pool
        surplus = connection if pool.closed else self.idle.put(connection, pool.now())
        if surplus is not None:
            surplus.abort()
        if pool.timer is None:
            pool.watch()

    def connection_ended(self, connection: UpstreamConnection) -> None:
        """Forget a connection that has ended."""
        self.open.discard(connection)
        self._pool.descriptors.upstream -= 1
        self.idle.remove(connection)
        self._pool.watch()


class _ByWorker(dict[Worker, WorkerConnections]):
    """Makes what is missing."""

    def __init__(self, pool: UpstreamPool) -> None:
        self._pool = pool

    def __missing__(self, worker: Worker) -> WorkerConnections:
        connections = self[worker] = WorkerConnections(worker, self._pool)
        return connections


class UpstreamPool:
    """The connections to all workers. `own_cors`: the gateway writes CORS fields, a worker's are left out.

    `on_deadline` hears the name of each deadline that was over. All times are in seconds.
    """

    def __init__(
        self,
        idle_timeout: float,
        loop: asyncio.AbstractEventLoop,
        *,
        own_cors: bool = False,
        keys: WorkerKeys | None = None,
        tls: ClientTls | None = None,
        descriptors: Descriptors | None = None,
        connect_timeout: float = 2.0,
        patience: Patience = _ENDLESS,
        on_deadline: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.idle_timeout = idle_timeout
        self.keys = keys or WorkerKeys()
        self.tls = tls or ClientTls()
        self.descriptors = descriptors or Descriptors(0, 0, int, loop.time)
        self.connect_timeout = connect_timeout
        self.on_deadline = on_deadline
        self.own_cors = own_cors
        self._patience = patience
        self.now = loop.time
        self.loop = loop
        self._workers = _ByWorker(self)
        self.of = self._workers.__getitem__
        """The connections to one worker. Bound to the dictionary itself, it costs no Python frame."""
        self.timer: asyncio.TimerHandle | None = None
        self.closed = False

    @property
    def open_connections(self) -> int:
        """How many connections are open, idle ones included."""
        return sum(len(connections.open) for connections in self._workers.values())

    def check(self, now: float) -> None:
        """End every response that has been waited for too long."""
        patience = self._patience
        for connections in tuple(self._workers.values()):
            for connection in tuple(connections.open):
                error = connection.check(now, patience)
                if error is not None:
                    self.on_deadline("first_byte" if isinstance(error, FirstByteTimedOut) else "stream_idle")

    def unanswered(self, worker: Worker) -> int:
        """How many requests a worker was sent and has not begun to answer."""
        connections = self._workers.get(worker)
        return 0 if connections is None else sum([connection.is_unanswered for connection in connections.open])

    def give_up_unanswered(self, worker: Worker) -> int:
        """End all that a worker was sent and has not begun to answer; how many that was."""
        connections = self._workers.get(worker)
        if connections is None:
            return 0
        return sum([connection.give_up_unanswered() for connection in tuple(connections.open)])

    def watch(self) -> None:
        """Make sure that idle connections, and records that are no longer used, are looked at in time."""
        if self.timer is None and not self.closed:
            self.timer = self.loop.call_later(max(self.idle_timeout, _SHORTEST_SWEEP_SECONDS), self._sweep)

    def _sweep(self) -> None:
        now = self.now()
        oldest: list[float] = []
        for worker, connections in list(self._workers.items()):
            for connection in connections.idle.expire(now):
                connection.abort()
                self.on_deadline("upstream_idle")
            if connections.idle.oldest is not None:
                oldest.append(connections.idle.oldest)
            elif connections.unused:
                del self._workers[worker]
        self.timer = None
        if oldest and not self.closed:
            delay = max(min(oldest) + self.idle_timeout - now, _SHORTEST_SWEEP_SECONDS)
            self.timer = self.loop.call_later(delay, self._sweep)

    def close(self) -> None:
        """Close what is idle; connections in use end with their exchanges."""
        self.closed = True
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        for connections in self._workers.values():
            for connection in connections.idle.clear():
                connection.abort()
