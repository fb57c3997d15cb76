"""Who may send inference requests, once keys are asked for, and how many.

Keys are judged from a request's head, before its body is read; limits when it is complete, since what was let in must
be counted out, and only from there on is that sure.
"""

from __future__ import annotations

from warmroute.access.key_limits import KeyLimits
from warmroute.access.keyring import NOBODY, Keyring, presented_key
from warmroute.config.tree import SecurityConfig
from warmroute.gateway.errors import KeyExhausted, NotAuthorised
from warmroute.gateway.exchange import Exchange
from warmroute.gateway.headers import RequestHead

_HOW = "send it as 'Authorization: Bearer KEY'"


class Doorkeeper:
    """Checks the key of each request. No key is ever told on: not in an answer, not in a log."""

    __slots__ = ("_keys", "limits")

    def __init__(self, keys: Keyring, options: SecurityConfig) -> None:
        self._keys = keys
        rate, inflight = options.api_key_rate, options.api_key_max_inflight
        self.limits = (
            KeyLimits(len(keys), rate=rate, burst=options.api_key_burst, inflight=inflight)
            if rate or inflight
            else None
        )
        """How much each key may ask for; None: as much as it likes."""

    def refusal(self, head: RequestHead) -> NotAuthorised | None:
        """Why this request is not let in; None if it is."""
        key = presented_key(head.authorization, head.api_key)
        if self._keys.holder(key) != NOBODY:
            return None
        return NotAuthorised(f"Invalid API key; {_HOW}" if key else f"An API key is required; {_HOW}")

    def enter(self, exchange: Exchange, limits: KeyLimits, now: float) -> None:
        """Count a request in that `refusal` has let pass. KeyExhausted if its key has had what it may."""
        head = exchange.head
        holder = self._keys.holder(presented_key(head.authorization, head.api_key))
        refused = limits.enter(holder, now)
        if refused is not None:
            raise KeyExhausted(refused.reason, refused.retry_after)
        exchange.key_holder = holder
