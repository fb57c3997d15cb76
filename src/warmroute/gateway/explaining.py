"""Explaining decisions to those who ask: all of them with --explain, else each request that brings a header field.

With admin keys, such a request also brings one of them in `x-warmroute-admin-key`; neither field goes upstream.
"""

from __future__ import annotations

import json
import time

from warmroute.access.keyring import NOBODY, Keyring
from warmroute.gateway.headers import RequestHead
from warmroute.prompts.prompt import Prompt
from warmroute.telemetry.decisions import Decision, DecisionLog

_NOT_TOLD = b"x-warmroute-decision: %b\r\n" % json.dumps(
    {"error": "an admin key is needed; send it as x-warmroute-admin-key"}
).encode("ascii")


class Explainer:
    """`explains_all`: nobody has to ask."""

    def __init__(self, log: DecisionLog, admin_keys: Keyring, *, explains_all: bool) -> None:
        self.explains_all = explains_all
        self._log = log
        self._admin_keys = admin_keys

    def begin(self, request_id: bytes, head: RequestHead, prompt: Prompt) -> Decision | None:
        """Let the choices for this request be written down; None if who asks may not be told."""
        if not self.explains_all and self._admin_keys and self._admin_keys.holder(head.explain or b"") == NOBODY:
            return None
        decision = Decision(request_id.decode("latin-1"), time.time(), prompt.model, prompt.tokens)
        prompt.witness = decision
        self._log.add(decision)
        return decision


def decision_line(decision: Decision | None) -> bytes:
    """The header line of an answer, with its CRLF."""
    return _NOT_TOLD if decision is None else b"x-warmroute-decision: %b\r\n" % decision.header()
