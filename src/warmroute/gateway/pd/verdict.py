"""What follows when one leg of a pair answers or fails. Pure: the table of docs/reference/pd-failures.md.

Each leg is judged by itself. Until the client has got a byte of an answer, a worker that failed is replaced by one that
this request has not tried, on its side only; after that nothing is sent twice.
"""

from __future__ import annotations

from enum import Enum
from typing import Literal

from warmroute.gateway.errors import ConnectFailed, UpstreamError
from warmroute.gateway.held import REPLACED_STATUSES

Side = Literal["prefill", "decode"]
Event = int | Literal["refused", "timeout", "closed"]
"""What a leg did: it answered with a status, or why it gave no complete answer."""


class Verdict(Enum):
    """What the relay does about it."""

    ACCEPT = "accept"
    """It is the good answer."""
    REPLACE = "replace"
    """The other leg is cancelled; the pair is sent anew with this side replaced."""
    PASS = "pass"  # noqa: S105 - no password
    """The other leg is cancelled; this answer is the client's."""
    BREAK = "break"
    """The client has a part of the answer and is told that no more will come."""
    LOG = "log"
    """Too late to matter: the decode worker is answering."""


def judge(side: Side, event: Event, *, client_has_bytes: bool) -> Verdict:
    """What follows from an event of one leg."""
    if isinstance(event, int) and 200 <= event < 300:
        return Verdict.ACCEPT
    if client_has_bytes:
        return Verdict.LOG if side == "prefill" else Verdict.BREAK
    if isinstance(event, int) and event not in REPLACED_STATUSES:
        return Verdict.PASS
    return Verdict.REPLACE


def side_at_fault(side: Side, event: Event, *, prefill_reachable: bool) -> Side:
    """Which side to replace. A decode worker that cannot fetch from a dead prefill worker answers an error for it."""
    if side == "decode" and isinstance(event, int) and event >= 500 and not prefill_reachable:
        return "prefill"
    return side


def event_of(error: UpstreamError) -> Event:
    """What a leg did that ended with this error."""
    if error.timed_out:
        return "timeout"
    return "refused" if isinstance(error, ConnectFailed) else "closed"


def status_of(event: Event) -> int:
    """What the client gets when no worker is left to try: the status of the answer, or one of the router's own."""
    if isinstance(event, int):
        return event
    return 504 if event == "timeout" else 502
