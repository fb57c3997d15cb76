"""`--kv-events`, put together: the exact index, who fills it, and who makes the tokens that are looked up in it."""

from __future__ import annotations

import time
from random import Random

from warmroute.config import Config
from warmroute.config.kv_endpoints import by_worker
from warmroute.fleet.fleet import Fleet
from warmroute.fleet.kv_subscriptions import KvAddresses, KvSubscriptions
from warmroute.gateway.exact_tokens import EngineBlocks, ExactTokens, LocalBlocks
from warmroute.prompts.chat_template import ChatTemplate
from warmroute.prompts.tokenizer import LocalTokenizer
from warmroute.scheduling.exact_index import ExactIndex


class ExactMode:
    """What exact matching needs beside a scheduler. Its subscriptions live from `start` to `stop`, within the fleet."""

    def __init__(
        self, config: Config, index: ExactIndex, fleet: Fleet, tokenizer: LocalTokenizer | None, rng: Random
    ) -> None:
        """Raises TokenizerError when there is a tokenizer but no chat template for it."""
        self.index = index
        self._config = config
        self._fleet = fleet
        self._rng = rng
        manager = config.manager
        addresses = KvAddresses(
            by_worker(manager.kv_events_endpoint),
            by_worker(manager.kv_events_replay_endpoint),
            manager.kv_events_ranks,
        )
        self.subscriptions = KvSubscriptions(
            lambda: fleet.members, fleet.kv_event_sources, index, addresses, time.monotonic
        )
        self._local: LocalBlocks | None = None
        path = config.scheduler.tokenizer
        if tokenizer is not None and path is not None:
            self._local = LocalBlocks(tokenizer, ChatTemplate.beside(path, config.scheduler.chat_template))

    def tokens(self) -> ExactTokens:
        """Where prompts get their tokens from: a tokenizer here, else the engines."""
        seconds = self._config.scheduler.tokenizer_timeout_secs
        return ExactTokens(self._local or EngineBlocks(self._any_engine, self._fleet.ask), seconds)

    def _any_engine(self, model: str | None) -> str | None:
        """The URL of an engine that computes prompts for a model."""
        if self._config.server.splitwise:
            candidates = self._fleet.pairs(model).prefill.candidates
        else:
            candidates = self._fleet.pool("mixed", model).candidates
        return self._rng.choice(candidates).worker.url if candidates else None
