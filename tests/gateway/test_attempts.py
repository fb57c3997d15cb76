"""What a failed attempt says of its worker."""

import pytest

from warmroute.fleet.verdict import Verdict
from warmroute.gateway import errors
from warmroute.gateway.attempts import counts, verdict_of
from warmroute.gateway.headers import Framing, ResponseHead
from warmroute.gateway.held import HeldAnswer


def answer(status: int, body: bytes = b"", lines: bytes = b"") -> HeldAnswer:
    return HeldAnswer(ResponseHead(status, b"", lines, Framing.LENGTH, False), body, b"", status)


@pytest.mark.parametrize(
    ("failure", "verdict", "in_a_stream"),
    [
        (errors.ConnectFailed("", "u"), Verdict.REFUSED, None),
        (errors.ConnectTimedOut("", "u"), Verdict.CONNECT_TIMEOUT, None),
        (errors.ConnectionLost("", "u"), Verdict.LOST, Verdict.BROKEN_STREAM),
        (errors.BadResponse("", "u"), Verdict.LOST, Verdict.BROKEN_STREAM),
        (errors.FirstByteTimedOut("", "u"), Verdict.LOST, None),
        (errors.WorkerSilent("", "u"), Verdict.LOST, Verdict.LOST),
        (errors.WorkerFrozen("", "u"), Verdict.NEUTRAL, None),
        (errors.StreamUnfinished("u"), Verdict.BROKEN_STREAM, Verdict.BROKEN_STREAM),
        (answer(500), Verdict.SERVER_ERROR, None),
        (answer(503), Verdict.SERVER_ERROR, None),
        (answer(429), Verdict.NEUTRAL, None),
        (answer(503, b'{"message":"The request Queue is full."}'), Verdict.NEUTRAL, None),
        (answer(503, lines=b"Retry-After: 3\r\n"), Verdict.NEUTRAL, None),
        (answer(500, b"queue full", b"Retry-After: 3\r\n"), Verdict.SERVER_ERROR, None),
    ],
)
def test_verdicts(failure, verdict, in_a_stream):
    assert verdict_of(failure) is verdict
    if in_a_stream is not None:
        assert verdict_of(failure, broken_stream=True) is in_a_stream


def test_what_the_worker_cannot_have_seen_does_not_count():
    assert not counts(errors.ConnectFailed("", "u"))
    assert not counts(errors.ConnectTimedOut("", "u"))
    assert counts(errors.ConnectionLost("", "u"))
    assert counts(answer(500))
    lost = errors.ConnectFailed("", "u")
    lost.request_lost = True  # on a kept connection that has died
    assert counts(lost)
