"""The rules are those of the documentation."""

import pytest
from tests.support.failure_table import read_rows

from warmroute.gateway.errors import BadResponse, ConnectFailed, ConnectionLost, ConnectTimedOut
from warmroute.gateway.pd.verdict import Verdict, event_of, judge, side_at_fault, status_of

ROWS = read_rows()
FOLLOWS = {
    "another prefill worker": Verdict.REPLACE,
    "another decode worker": Verdict.REPLACE,
    "its answer": Verdict.PASS,
    "broken off": Verdict.BREAK,
    "logged": Verdict.LOG,
}


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_row(row):
    verdict = judge(row.leg, row.event, client_has_bytes=row.has_bytes)
    assert verdict is FOLLOWS[row.follows]
    if verdict is Verdict.REPLACE:
        assert row.follows == f"another {row.leg} worker"
        assert row.none_left == ("its answer" if isinstance(row.event, int) else str(status_of(row.event)))
    else:
        assert row.none_left == ""


def test_the_table_knows_every_kind_of_event():
    events = {event_of(error("x", "u")) for error in (ConnectFailed, ConnectTimedOut, ConnectionLost, BadResponse)}
    assert events | {500, 400, 429} <= {row.event for row in ROWS}
    assert {(row.leg, row.has_bytes) for row in ROWS} == {(leg, has) for leg in FOLLOWED for has in (True, False)}


FOLLOWED = ("prefill", "decode")


@pytest.mark.parametrize("status", [200, 201, 204, 299])
@pytest.mark.parametrize("leg", FOLLOWED)
@pytest.mark.parametrize("has_bytes", [True, False])
def test_a_good_answer_is_accepted(leg, status, has_bytes):
    assert judge(leg, status, client_has_bytes=has_bytes) is Verdict.ACCEPT


@pytest.mark.parametrize("event", [400, 429, 500, "refused", "closed", "timeout"])
@pytest.mark.parametrize("reachable", [True, False])
def test_an_unreachable_prefill_worker_takes_the_blame_for_a_fault_of_decode(event, reachable):
    assert side_at_fault("prefill", event, prefill_reachable=reachable) == "prefill"
    blamed = "prefill" if event == 500 and not reachable else "decode"
    assert side_at_fault("decode", event, prefill_reachable=reachable) == blamed


def test_the_client_gets_the_status_of_an_answer():
    assert [status_of(event) for event in (503, "refused", "closed", "timeout")] == [503, 502, 502, 504]
