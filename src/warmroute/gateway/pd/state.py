"""What the PD relays of one gateway share: settings, and what outlives an exchange."""

from __future__ import annotations

import logging
from typing import Protocol
from weakref import WeakSet

from warmroute.config.tree import SchedulerConfig
from warmroute.scheduling.pairs import PairLease
from warmroute.scheduling.worker import Worker
from warmroute.telemetry.metrics import Metrics

logger = logging.getLogger(__name__)


class Lingering(Protocol):
    """A prefill leg whose client has its answer already."""

    def give_up(self) -> None:
        """Wait for its end no longer."""


class Disaggregation:
    """`min_uncached_tokens`: a decode worker that lacks fewer tokens of a prompt serves it alone, if its engine can.
    `give_backs`: how often a request that engines give back goes to another pair; `avoids_who_gave_back`: never to the
    same decode worker.
    """

    def __init__(self, options: SchedulerConfig, metrics: Metrics) -> None:
        self.min_uncached_tokens = options.pd_min_uncached_tokens
        self.give_backs = options.preempt_retry_count
        self.avoids_who_gave_back = options.preempt_retry_exclude_decode
        self.lingering: set[Lingering] = set()
        self._metrics = metrics
        self._told: WeakSet[Worker] = WeakSet()

    def recomputed(self, pair: PairLease) -> None:
        """The prefill worker gave no handle, so the decode worker does its work again. Logged once per worker."""
        worker = pair.prefill.worker
        self._metrics.pd_recomputed(worker.id)
        if worker not in self._told:
            self._told.add(worker)
            logger.warning(
                "prefill worker %s hands nothing over: decode worker %s computes the prompt again; is a KV connector "
                "configured? (told once; warmroute_pd_recomputed_total counts)",
                worker.id,
                pair.decode.worker.id,
            )

    def close(self) -> None:
        """Wait for nothing any longer."""
        for leg in tuple(self.lingering):
            leg.give_up()
