"""How much each key may ask for: requests per second, and requests at once. The time is handed in."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refused:
    """The key has had what it may. `reason` is for people, `retry_after` in seconds, from 1 on."""

    reason: str
    retry_after: int


class _Account:
    """What one key has left: a token bucket, full at first, and the requests under way."""

    __slots__ = ("filled_at", "running", "tokens")

    def __init__(self, tokens: float) -> None:
        self.tokens = tokens
        self.filled_at = float("-inf")
        self.running = 0


class KeyLimits:
    """For each of `keys` keys, by number: `rate` requests per second with bursts of `burst`, `inflight` at once.

    0 is no limit. A bucket holds at most `burst` tokens, and at least one fits in; a request takes one.
    """

    def __init__(self, keys: int, *, rate: float, burst: int, inflight: int) -> None:
        self._rate = rate
        self._burst = float(max(burst, 1))
        self._inflight = inflight
        self._accounts = [_Account(self._burst) for _ in range(keys)]

    def enter(self, key: int, now: float) -> Refused | None:
        """Count a request in, if it may come; `leave` counts it out. Nothing is taken from one that is refused."""
        account = self._accounts[key]
        if self._inflight and account.running >= self._inflight:
            return Refused(f"{account.running} requests of this API key are running, as many as it may have", 1)
        if self._rate:
            if now > account.filled_at:
                gained = (now - account.filled_at) * self._rate
                account.tokens = min(account.tokens + gained, self._burst)
                account.filled_at = now
            if account.tokens < 1:
                wait = max(math.ceil((1 - account.tokens) / self._rate), 1)
                return Refused(f"This API key may ask {self._rate:g} times a second", wait)
            account.tokens -= 1
        account.running += 1
        return None

    def leave(self, key: int) -> None:
        """A request that was counted in is over."""
        self._accounts[key].running -= 1
