"""A changed configuration while requests run: who notices it, and what of it can be taken over.

Workers and scheduling weights change at run time; everything else needs a restart and is named in a warning. What
cannot be read changes nothing.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Collection
from dataclasses import dataclass

from warmroute.config import Config
from warmroute.config.load import ConfigError
from warmroute.config.options import all_options
from warmroute.fleet.errors import FleetError
from warmroute.scheduling.errors import SchedulingError

logger = logging.getLogger(__name__)

LOOK_SECONDS = 1.0

WORKERS = {"manager": frozenset({"worker", "prefill", "decode", "register_path"})}
WEIGHTS = {
    "scheduler": frozenset(
        {
            "hit_ratio_weight",
            "load_balance_weight",
            "waiting_weight",
            "balance_abs_threshold",
            "balance_rel_threshold",
        }
    )
}


@dataclass(frozen=True, slots=True)
class Changes:
    """What is different. `config` is the old one with all that can be taken over; `weights` are fields of its
    scheduler section that have changed, `fixed` the options that only a restart changes, as `section.key`.
    """

    config: Config
    weights: frozenset[str]
    fixed: tuple[str, ...]


def compare(old: Config, new: Config) -> Changes:
    """Tell what can be taken over from what cannot."""
    config = _with(_with(old, new, WORKERS), new, WEIGHTS)
    weights = frozenset(
        field for field in WEIGHTS["scheduler"] if getattr(old.scheduler, field) != getattr(new.scheduler, field)
    )
    fixed = tuple(
        option.path
        for option in all_options()
        if getattr(getattr(config, option.section), option.field) != getattr(getattr(new, option.section), option.field)
    )
    return Changes(config, weights, fixed)


def _with(config: Config, new: Config, fields: dict[str, frozenset[str]]) -> Config:
    for section, names in fields.items():
        given = getattr(new, section)
        part = getattr(config, section).model_copy(update={name: getattr(given, name) for name in names})
        config = config.model_copy(update={section: part})
    return config


class Reloader:
    """Has a configuration loaded anew when told to, or when a file has changed and has been left alone for a look.

    `load` gives the configuration, or raises ConfigError; it runs in a thread. `take` takes it over, or raises before
    it has changed anything. `files` names the files that are looked at.
    """

    def __init__(
        self,
        load: Callable[[], Config],
        take: Callable[[Config], None],
        files: Callable[[], Collection[str]],
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        self._load = load
        self._take = take
        self._files = files
        self._look_seconds = look_seconds
        self._asked = asyncio.Event()
        self._fault = ""

    def ask(self) -> None:
        """Reload now, whether a file has changed or not."""
        self._asked.set()

    async def run(self) -> None:
        """Look and reload until cancelled."""
        loaded = seen = self._look()
        while True:
            asked = await self._wait()
            before, seen = seen, self._look()
            # A file that is still being written may be whole YAML and lack half of its workers.
            if asked or (seen != loaded and seen == before):
                loaded = seen
                await self._reload()
                if self._look().keys() != loaded.keys():  # the new configuration names other files
                    loaded = seen = self._look()

    async def _reload(self) -> None:
        try:
            self._take(await asyncio.to_thread(self._load))
            self._fault = ""
        except ConfigError as error:
            more = len(error.problems) - 1
            hint = f" ({more} more: `warmroute check` with the same flags tells all)" if more else ""
            self._tell(f"{error}{hint}")
        except (FleetError, SchedulingError) as error:
            self._tell(str(error))
        except Exception:  # whatever foreign code in a policy may raise
            logger.exception("the configuration is not reloaded, all stays as it was")

    def _tell(self, fault: str) -> None:
        """Warn of a fault once; whoever asks again is answered, but warned of nothing new."""
        level = logging.INFO if fault == self._fault else logging.WARNING
        self._fault = fault
        logger.log(level, "the configuration is not reloaded, all stays as it was: %s", fault)

    async def _wait(self) -> bool:
        try:
            async with asyncio.timeout(self._look_seconds):
                await self._asked.wait()
        except TimeoutError:
            return False
        self._asked.clear()
        return True

    def _look(self) -> dict[str, object]:
        return {path: _state_of(path) for path in self._files() if path}


def _state_of(path: str) -> object:
    """What differs when a file was written or replaced, also by a symbolic link, as Kubernetes does it."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size
