"""The process around a router: event loop, signals, garbage collection, memory, open files, exit code."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import Callable

from warmroute import __version__, build
from warmroute.allocator import keep_freed_memory
from warmroute.app import Router
from warmroute.config import Config
from warmroute.event_loop import loop_factory
from warmroute.fleet.errors import FleetError
from warmroute.open_files import raise_file_limit
from warmroute.prompts.tokenizer import TokenizerError
from warmroute.reloading import Reloader
from warmroute.scheduling.errors import SchedulingError
from warmroute.telemetry.access_log import AccessLogError
from warmroute.tls import TlsError

logger = logging.getLogger(__name__)

_CANNOT_START = 2
# A busy router makes and drops thousands of objects a second, next to none of them in cycles.
_GC_THRESHOLDS = (50_000, 20, 50)


def run(config: Config, load: Callable[[], Config] | None = None, config_path: str = "") -> int:
    """Serve until SIGTERM or SIGINT; returns the exit code: 0, or 2 with one line on stderr if it cannot start.

    With `load`, SIGHUP and changes of the files (the one at `config_path` and the register file) have it called.
    """
    raise_file_limit()
    keep_freed_memory()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_serve(config, load, config_path))


async def _serve(config: Config, load: Callable[[], Config] | None, config_path: str) -> int:
    try:
        router = Router(config)
        # Before it starts: whoever asks meanwhile is heard afterwards.
        reloader = None if load is None else _reloads_when_asked(router, load, config_path)
        await router.start()
    except (OSError, FleetError, SchedulingError, TokenizerError, TlsError, AccessLogError) as error:
        sys.stderr.write(f"warmroute serve: {_reason(error, config)}\n")
        return _CANNOT_START
    _stop_on_signals(router)
    reloading = None if reloader is None else asyncio.create_task(reloader.run(), name="reload")
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    logger.info(
        "warmroute %s (%s) listens on %s port %d, %s, workers: %d",
        __version__,
        build.code(),
        config.server.host,
        router.port,
        _policies(router),
        len(router.fleet.members),
    )
    try:
        await router.wait()
    finally:
        if reloading is not None:
            reloading.cancel()
        await router.stop()
    return 0


def _reloads_when_asked(router: Router, load: Callable[[], Config], config_path: str) -> Reloader:
    """What SIGHUP asks from now on."""
    reloader = Reloader(load, router.reload, lambda: (config_path, router.config.manager.register_path))
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reloader.ask)
    return reloader


def _policies(router: Router) -> str:
    name = router.scheduler.policy_name
    if router.config.server.splitwise:
        return f"prefill policy {name('prefill')}, decode policy {name('decode')}"
    return f"policy {name('mixed')}"


def _reason(error: Exception, config: Config) -> str:
    if isinstance(error, OSError):
        place = f"{config.server.host} port {config.server.port}"
        return f"cannot listen on {place}: {error.strerror or error}; --host and --port choose another place"
    return " ".join(str(error).split())


def _stop_on_signals(router: Router) -> None:
    """The first signal lets running requests end after a while of listening, the second one does not wait for them."""
    seen = False

    def stop(number: signal.Signals) -> None:
        nonlocal seen
        if seen:
            router.abandon_running()
            return
        seen = True
        delay = router.config.server.drain_delay
        what = f"no new requests in {delay:g} s" if delay else "no new requests"
        logger.info("%s: %s, %d running", number.name, what, router.ledger.open_leases)
        router.begin_stop()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
