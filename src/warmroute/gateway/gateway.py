"""The data plane of one router, put together: what every exchange shares."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from random import Random
from typing import Protocol

from warmroute.access.keyring import Keyring
from warmroute.access.worker_keys import WorkerKeys
from warmroute.config.cors import response_headers
from warmroute.config.tree import Config
from warmroute.config.values import keys_by_url
from warmroute.engines.dialect import Dialect
from warmroute.engines.peer import Peer
from warmroute.fleet.verdict import Verdict
from warmroute.gateway.admission import Admission
from warmroute.gateway.deadlines import Deadlines, Sweep
from warmroute.gateway.descriptors import Descriptors
from warmroute.gateway.doorkeeper import Doorkeeper
from warmroute.gateway.exchange import Exchange
from warmroute.gateway.explaining import Explainer
from warmroute.gateway.failure_log import FailureLog
from warmroute.gateway.headers import render_headers
from warmroute.gateway.pd.relay import serve_pair
from warmroute.gateway.pd.state import Disaggregation
from warmroute.gateway.protocol import ClientProtocol
from warmroute.gateway.retry_budget import RetryBudget
from warmroute.gateway.single import serve_mixed
from warmroute.gateway.tokenizing import Refiner
from warmroute.gateway.upstream.pool import UpstreamPool
from warmroute.prompts.body import read_request
from warmroute.prompts.ladder import Ladder
from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.pairs import PairPool
from warmroute.scheduling.scheduler import Scheduler
from warmroute.scheduling.worker import Pool, Role, Worker
from warmroute.telemetry.access_log import AccessLog
from warmroute.telemetry.decisions import DecisionLog
from warmroute.telemetry.fastdeploy_metrics import FastDeployMetrics
from warmroute.telemetry.metrics import Metrics
from warmroute.telemetry.request_trace import Tracer
from warmroute.tls import ClientTls


class Workers(Protocol):
    """What the data plane needs of the fleet."""

    def pool(self, role: Role, model: str | None) -> Pool:
        """The workers that may serve a model now."""

    def knows_model(self, role: Role, model: str) -> bool:
        """Whether a worker lists the model."""

    def worker_refused(self, worker: Worker) -> None:
        """A hint: the worker did not accept a connection."""

    def judge(self, worker: Worker, verdict: Verdict, request_id: bytes) -> None:
        """How an attempt has ended on a worker. A good one need not be told unless the worker is `suspect`."""

    def attempt_started(self, worker: Worker, request_id: bytes) -> None:
        """An attempt begins on a worker that is `suspect`; its verdict follows."""

    def pairs(self, model: str | None) -> PairPool:
        """The prefill and decode workers that may serve a model together now."""

    def decode_alone(self, model: str | None) -> Pool:
        """The decode workers that may serve a model without a prefill worker now, if their engine can."""

    def dialect(self, worker: Worker) -> Dialect | None:
        """How the worker's engine is spoken to."""

    def is_routable(self, worker: Worker) -> bool:
        """Whether it may get requests, whatever its breaker says."""

    def handshake(self, prefill: Worker, decode: Worker) -> tuple[Dialect, Peer, Peer]:
        """What it takes to hand a request over from one worker of a pair to the other."""

    async def is_well(self, worker: Worker) -> bool:
        """Whether a worker passes a probe now. To be awaited in a task of its own."""


Serve = Callable[[Exchange, Prompt, "Gateway"], Awaitable[None]]
"""Lets workers answer an exchange; raises GatewayError when they do not."""


class Gateway:
    """Settings, scheduler, fleet and connections of the data plane. To be made inside the event loop that it serves."""

    def __init__(
        self,
        config: Config,
        scheduler: Scheduler,
        fleet: Workers,
        metrics: Metrics,
        *,
        ladder: Ladder,
        tokenizer: Refiner | None = None,
        rng: Random | None = None,
        tls: ClientTls | None = None,
        descriptors: Descriptors | None = None,
        decisions: DecisionLog | None = None,
        tracer: Tracer | None = None,
        fastdeploy_metrics: FastDeployMetrics | None = None,
        access_log: AccessLog | None = None,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.scheduler = scheduler
        self.fleet = fleet
        self.metrics = metrics
        self.ladder = ladder
        self.tokenizer = tokenizer
        self.read = read_request if tokenizer is None else tokenizer.read
        """From a request body to a Prompt."""
        self.access_log = access_log
        self.hands_over = config.server.splitwise
        """Whether two workers serve a request: one hands it over to the other."""
        self.serve: Serve = serve_pair if config.server.splitwise else serve_mixed
        self.role: Role = "decode" if config.server.splitwise else "mixed"
        """The role of the workers whose answers clients get."""
        self.failures = FailureLog(self.loop.time)
        self.pd = Disaggregation(config.scheduler, metrics)
        keys = Keyring(config.security.api_key)
        self.doorkeeper = Doorkeeper(keys, config.security) if keys else None
        self.key_limits = None if self.doorkeeper is None else self.doorkeeper.limits
        self.keeps_credentials = bool(keys or config.security.worker_key)
        """Whether a client's credentials stay here: they are the router's own, or workers get others."""
        self.explainer = Explainer(
            DecisionLog(config.telemetry.decisions_kept) if decisions is None else decisions,
            Keyring(config.security.admin_key),
            explains_all=config.telemetry.explain,
        )
        self.tracer = tracer
        self.fastdeploy_metrics = fastdeploy_metrics
        self.endings = metrics.endings if metrics.records or fastdeploy_metrics is not None else None
        """Where requests that are over are put down; None if nobody counts them."""
        self.explains_all = config.telemetry.explain
        self.admission = Admission(config.scheduler, scheduler, metrics, self.loop)
        self.strict_models = config.scheduler.strict_models
        self.max_body_bytes = config.server.max_body_bytes
        self.client_idle_timeout = config.server.client_idle_timeout
        self.keeps_clients = self.client_idle_timeout > 0
        """Whether a client's connection stays open for its next request."""
        self.max_attempts = config.server.max_attempts
        self.retry_budget = RetryBudget(config.server.retry_budget)
        self.requests = 0
        """Requests that went to workers so far; the retry budget is a share of them."""
        deadlines = Deadlines.of(config.server)
        self.descriptors = descriptors or Descriptors(0, 0, int, self.loop.time)
        self.upstream = UpstreamPool(
            config.server.upstream_idle_timeout,
            self.loop,
            own_cors=bool(config.server.cors_allowed_origins),
            connect_timeout=config.server.connect_timeout,
            patience=deadlines.patience,
            on_deadline=metrics.deadline_over,
            keys=WorkerKeys(keys_by_url(config.security.worker_key)),
            tls=tls,
            descriptors=self.descriptors,
        )
        self._sweep = Sweep(deadlines, self.upstream, self.loop)
        self.clients = self._sweep.clients
        self._origins = config.server.cors_allowed_origins
        self.rng = rng if rng is not None else Random()

    @property
    def protocol_factory(self) -> Callable[..., ClientProtocol]:
        """What to hand to `uvicorn.Config(http=...)`."""
        return functools.partial(ClientProtocol, self)

    @property
    def upstream_connections(self) -> int:
        """Open connections to workers, idle ones included."""
        return self.upstream.open_connections

    def new_request_id(self) -> bytes:
        """An id for a request that brought none: 128 random bits in hexadecimal."""
        return b"%032x" % self.rng.getrandbits(128)

    def worker_frozen(self, worker: Worker) -> None:
        """The worker takes requests and answers none: those of which no byte of an answer has come go elsewhere."""
        self.upstream.give_up_unanswered(worker)

    def unanswered(self, worker: Worker) -> int:
        """How many requests a worker was sent and has not begun to answer."""
        return self.upstream.unanswered(worker)

    def cors_lines(self, origin: bytes) -> bytes:
        """The CORS header lines of an answer to `origin`."""
        if not self._origins or not origin:
            return b""
        return render_headers(response_headers(self._origins, origin.decode("latin-1")))

    async def close(self) -> None:
        """Close what is idle. To be called after the server has ended its exchanges."""
        self._sweep.stop()
        self.pd.close()
        self.admission.close()
        self.upstream.close()
        if self.tokenizer is not None:
            self.tokenizer.close()
