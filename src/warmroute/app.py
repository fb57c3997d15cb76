"""The only place where everything is put together: configuration to objects to a running server."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import time
from collections.abc import Mapping
from random import Random

import uvicorn

from warmroute import __version__, build
from warmroute.config import Config
from warmroute.config.options import kebab
from warmroute.config.tree import TelemetryConfig
from warmroute.control.app import create_control_app
from warmroute.control.live_feed import LiveFeed
from warmroute.control.parts import ControlParts
from warmroute.exact_mode import ExactMode
from warmroute.fleet.fleet import Fleet
from warmroute.fleet.times import FleetTimes
from warmroute.gateway.descriptors import Descriptors
from warmroute.gateway.gateway import Gateway
from warmroute.gateway.targets import INFERENCE_PATHS
from warmroute.gateway.tokenizing import LocalTokens, Refiner, RemoteTokenizer, Tokenizing
from warmroute.http_server import BACKLOG, HttpServer, bind
from warmroute.open_files import file_limit, open_files
from warmroute.prompts.ladder import BYTES_PER_TOKEN, Ladder
from warmroute.prompts.tokenizer import LocalTokenizer
from warmroute.reloading import Changes, compare
from warmroute.scheduling.exact_index import ExactIndex
from warmroute.scheduling.ledger import Ledger
from warmroute.scheduling.limited import LimitedScheduler, WatchedLedger
from warmroute.scheduling.policy import Policy
from warmroute.scheduling.prefix_index import PrefixIndex
from warmroute.scheduling.registry import create_policy, policy_options
from warmroute.scheduling.scheduler import Scheduler
from warmroute.scheduling.worker import Role, Worker
from warmroute.telemetry.access_log import AccessLog, open_access_log
from warmroute.telemetry.collector import Sources
from warmroute.telemetry.decisions import DecisionLog
from warmroute.telemetry.fastdeploy_metrics import FastDeployMetrics
from warmroute.telemetry.guard import Guard
from warmroute.telemetry.history import History, keep_history
from warmroute.telemetry.loop_lag import watch_loop_lag
from warmroute.telemetry.metrics import Metrics
from warmroute.telemetry.request_trace import Tracer
from warmroute.telemetry.stats import log_stats
from warmroute.tls import ServerTls

logger = logging.getLogger(__name__)

CERTIFICATE_SECONDS = 1.0
"""How long a renewed certificate may go unnoticed."""
_REPORTS_POLL_SECONDS = 1.0


class Router:
    """One router. Several may run in one process: nothing is shared between them.

    With a `seed` every random decision is repeatable. `gateway` exists from `start` on.
    """

    gateway: Gateway

    def __init__(self, config: Config, *, seed: int | None = None, times: FleetTimes | None = None) -> None:
        """Build what needs no event loop. Raises SchedulingError for a policy, TokenizerError for a tokenizer
        file, TlsError for certificates, AccessLogError.
        """
        options = config.scheduler
        self.config = config
        policies = {role: create_policy(name, options) for role, name in self._policy_names().items()}
        self._rng = Random(seed)
        block = options.cache_block_size
        self._ladder = Ladder.default() if block is None else Ladder.fixed(block * BYTES_PER_TOKEN)
        self.index = PrefixIndex(self._ladder, options.index_max_bytes, options.eviction_duration_mins * 60)
        self.scheduler = self._make_scheduler(policies)
        self.ledger = self.scheduler.ledger
        exact = self.scheduler.exact = ExactIndex(options.index_max_bytes) if options.kv_events else None
        self.metrics = Metrics(records=config.telemetry.request_metrics)
        self._tracer = _tracer(config.telemetry)
        self._fastdeploy_metrics = (
            FastDeployMetrics(self.metrics.endings) if config.telemetry.fastdeploy_metrics else None
        )
        self._decisions = DecisionLog(config.telemetry.decisions_kept)
        reads_reports = any(policy.reads_reports for policy in policies.values())
        tick = config.manager.health_check_interval_secs
        self.fleet = Fleet(
            config,
            self._forget,
            on_change=self._fleet_changed,
            on_frozen=self._worker_frozen,
            waiting=self._waiting,
            poll_interval=min(tick, _REPORTS_POLL_SECONDS) if reads_reports else None,
            times=times,
        )
        self._history = History(self.metrics, self.fleet.workers)
        self._feed = LiveFeed()
        security = config.security
        self._tls = ServerTls(security.tls_cert, security.tls_key) if security.tls_cert else None
        self._local_tokenizer = LocalTokenizer(options.tokenizer) if options.tokenizer else None
        self._exact = None if exact is None else ExactMode(config, exact, self.fleet, self._local_tokenizer, self._rng)
        self._is_draining = False
        log = config.log
        self._access_log = (
            AccessLog(
                open_access_log(log.access_log), self.metrics, prefixes=log.access_log_prefixes, block_tokens=block
            )
            if log.access_log
            else None
        )
        self._chores: list[asyncio.Task[None]] = []
        self._server: HttpServer | None = None
        self._serving: asyncio.Task[None] | None = None

    def _make_scheduler(self, policies: Mapping[Role, Policy]) -> Scheduler:
        keep_stacks = self.config.log.level == "debug"
        options = self.config.scheduler
        limit, learns_decode = options.max_inflight_per_worker, options.pd_min_uncached_tokens > 0
        if not limit:
            ledger = Ledger(keep_stacks=keep_stacks)
            return Scheduler(
                policies, self.index, ledger, rng=self._rng, clock=time.monotonic, learns_decode=learns_decode
            )
        ledger = WatchedLedger(keep_stacks=keep_stacks)
        return LimitedScheduler(
            policies,
            self.index,
            ledger,
            limit=limit,
            rng=self._rng,
            clock=time.monotonic,
            learns_decode=learns_decode,
        )

    def _fleet_changed(self) -> None:
        if self._server is not None:
            self.gateway.admission.place_freed()

    @property
    def port(self) -> int:
        """The port that is listened on; 0 before `start`."""
        return self._socket.getsockname()[1] if self._server is not None else 0

    async def start(self) -> None:
        """Listen and begin to probe the workers. Returns once requests are accepted.

        Raises OSError when the address cannot be bound, InvalidInstance for a static worker that makes no sense.
        """
        self._socket = bind(self.config.server.host, self.config.server.port or 0)
        try:
            await self.fleet.start()
        except BaseException:
            self._socket.close()
            raise
        if self._exact is not None:
            await self._exact.subscriptions.start()
        self.gateway = Gateway(
            self.config,
            self.scheduler,
            self.fleet,
            self.metrics,
            ladder=self._ladder,
            tokenizer=self._tokenizing(),
            rng=self._rng,
            tls=self.fleet.tls,
            descriptors=Descriptors(file_limit(), open_files(), lambda: len(self.fleet.members), time.monotonic),
            decisions=self._decisions,
            tracer=self._tracer,
            fastdeploy_metrics=self._fastdeploy_metrics,
            access_log=self._access_log,
        )
        parts = self._control_parts()
        self._server = HttpServer(self._uvicorn_config(parts), self.config.server.drain_timeout)
        self._serving = asyncio.create_task(self._server.serve(sockets=[self._socket]), name="http server")
        accepting = asyncio.create_task(self._server.accepting.wait())
        await asyncio.wait((accepting, self._serving), return_when=asyncio.FIRST_COMPLETED)
        if not accepting.done():
            accepting.cancel()
            await self.stop()
            raise RuntimeError("the HTTP server did not start")
        self._chores = [
            asyncio.create_task(
                log_stats(self.metrics, parts.metric_sources().all_workers, self.config.scheduler.stats_interval_secs),
                name="stats",
            ),
            asyncio.create_task(keep_history(self._history), name="history"),
            asyncio.create_task(self._sweep(self.config.scheduler.eviction_interval_secs), name="prefix sweep"),
            asyncio.create_task(self._renew_certificates(), name="certificates"),
            asyncio.create_task(watch_loop_lag(self.metrics, time.monotonic), name="event loop lag"),
        ]

    async def stop(self) -> None:
        """Stop listening at once, let running requests end (at most `drain-timeout`), close everything."""
        for chore in self._chores:
            chore.cancel()
        await asyncio.gather(*self._chores, return_exceptions=True)
        if self._serving is not None:
            self._stop_listening()
            await self._serving
            await self.gateway.close()
            if self._access_log is not None:
                await self._access_log.close()
        if self._tracer is not None:
            await asyncio.to_thread(self._tracer.close)
        if self._exact is not None:
            await self._exact.subscriptions.stop()
        await self.fleet.stop()

    async def wait(self) -> None:
        """Return when the HTTP server has ended; raises what ended it."""
        if self._serving is not None:
            await asyncio.shield(self._serving)

    def begin_stop(self) -> None:
        """Be unready at once, listen for `drain-delay`, then let running requests end within `drain-timeout`.

        `wait` returns once they have, and who is left was told. Who only watches is not waited for. Until listening
        ends each connection is closed with its next answer, so that clients go elsewhere while nobody is turned away.
        """
        if self._server is not None and not self._is_draining:
            self._is_draining = True
            self._feed.end()
            self.gateway.keeps_clients = False
            self._server.stop_after(self.config.server.drain_delay)

    def reload(self, config: Config) -> None:
        """Take over workers and scheduling weights; what else has changed is named in a warning.

        Raises FleetError or SchedulingError, before anything has changed.
        """
        changes = compare(self.config, config)
        used = {role: name for role, name in self._policy_names().items() if policy_options(name) & changes.weights}
        policies = {role: create_policy(name, changes.config.scheduler) for role, name in used.items()}
        news, gone = self.fleet.restate(changes.config.manager)
        self.scheduler.use(policies)
        self.config = changes.config
        logger.info("configuration reloaded: %d workers new or changed, %d gone, %s", news, gone, _told(changes))
        if changes.fixed:
            logger.warning("only a restart takes over the changes of %s", ", ".join(changes.fixed))

    def abandon_running(self) -> None:
        """Do not wait any longer: clients of running requests are told, and have a moment to read it."""
        if self._server is not None:
            self._server.abandon()

    def _stop_listening(self) -> None:
        self._is_draining = True
        self._feed.end()
        if self._server is not None:
            self._server.stop_listening()

    def metric_sources(self) -> Sources:
        """Where the metrics page reads its values. To be called on the event loop, after `start`."""
        return self._control_parts().metric_sources()

    def _forget(self, worker: Worker) -> None:
        """A worker was removed or has restarted."""
        self.scheduler.forget(worker)
        if self._exact is not None:
            self._exact.subscriptions.forget(worker)

    def _policy_names(self) -> dict[Role, str]:
        options = self.config.scheduler
        return {"mixed": options.policy, "prefill": options.prefill_policy, "decode": options.decode_policy}

    def _tokenizing(self) -> Refiner | None:
        options = self.config.scheduler
        if self._exact is not None:
            return self._exact.tokens()
        if options.tokenizer_url:
            source = RemoteTokenizer(options.tokenizer_url, lambda: self.fleet.http)
            return Tokenizing(source, options.tokenizer_timeout_secs)
        if self._local_tokenizer is not None:
            return Tokenizing(LocalTokens(self._local_tokenizer), options.tokenizer_timeout_secs)
        return None

    def _control_parts(self) -> ControlParts:
        return ControlParts(
            fleet=self.fleet,
            ledger=self.ledger,
            scheduler=self.scheduler,
            metrics=self.metrics,
            config=self.config,
            version=__version__,
            history=self._history,
            feed=self._feed,
            is_draining=lambda: self._is_draining,
            upstream_connections=lambda: self.gateway.upstream_connections,
            inference_paths={path.decode() for path in INFERENCE_PATHS},
            client_connections=lambda: len(self._server.server_state.connections) if self._server is not None else 0,
            build=build_labels(),
            fastdeploy_metrics=self._fastdeploy_metrics,
            decisions=self._decisions,
            kv_events=None if self._exact is None else (self._exact.index, self._exact.subscriptions.counts),
        )

    def _uvicorn_config(self, parts: ControlParts) -> uvicorn.Config:
        tls = self._tls
        return uvicorn.Config(
            create_control_app(parts),
            http=self.gateway.protocol_factory,  # type: ignore[arg-type]  # any factory of protocols will do
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            backlog=BACKLOG,
            ssl_context_factory=None if tls is None else lambda *_: tls.context,
        )

    def _worker_frozen(self, worker: Worker) -> None:
        if self._server is not None:
            self.gateway.worker_frozen(worker)

    def _waiting(self, worker: Worker) -> int:
        return self.gateway.unanswered(worker) if self._server is not None else 0

    async def _renew_certificates(self) -> None:
        guard = Guard(logger, "the renewal of certificates")
        while True:
            await asyncio.sleep(CERTIFICATE_SECONDS)
            with guard:
                if self._tls is not None:
                    self._tls.look()
                self.fleet.tls.look()

    async def _sweep(self, interval: float) -> None:
        """Forget expired prefixes now and then; an index that is used also does so by itself. 0: never."""
        guard = Guard(logger, "the sweep of the prefix index")
        while interval > 0:
            await asyncio.sleep(interval)
            with guard:
                self.index.sweep(time.monotonic())


def _told(changes: Changes) -> str:
    if not changes.weights:
        return "the same weights"
    options = changes.config.scheduler
    return ", ".join(f"{kebab(field)} {getattr(options, field)}" for field in sorted(changes.weights))


def _tracer(options: TelemetryConfig) -> Tracer | None:
    if not options.otlp_endpoint:
        return None
    # Only now: the extra that it needs is seldom installed.
    from warmroute.telemetry.otlp import OtlpTracer

    return OtlpTracer(options.otlp_endpoint, options.otlp_sample_ratio, __version__, os.environ)


def build_labels() -> dict[str, str]:
    """What the running program is made of, in a few words. To be called on the event loop that it runs on."""
    return {
        "version": __version__,
        "code": build.code(),
        "python": platform.python_version(),
        "event_loop": type(asyncio.get_running_loop()).__module__.partition(".")[0],
    }
