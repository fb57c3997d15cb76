"""Who may send inference requests, once keys are asked for. Judged from a request's head, before its body is read."""

from __future__ import annotations

from warmroute.access.keyring import NOBODY, Keyring, presented_key
from warmroute.gateway.errors import GatewayError, NotAuthorised
from warmroute.gateway.headers import RequestHead

_HOW = "send it as 'Authorization: Bearer KEY'"


class Doorkeeper:
    """Checks the key of each request. No key is ever told on: not in an answer, not in a log."""

    __slots__ = ("_keys",)

    def __init__(self, keys: Keyring) -> None:
        self._keys = keys

    def refusal(self, head: RequestHead) -> GatewayError | None:
        """Why this request is not let in; None if it is."""
        key = presented_key(head.authorization, head.api_key)
        if self._keys.holder(key) != NOBODY:
            return None
        return NotAuthorised(f"Invalid API key; {_HOW}" if key else f"An API key is required; {_HOW}")
