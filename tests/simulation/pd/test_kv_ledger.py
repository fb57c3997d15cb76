"""The ledger of handovers, to the exact second and without a socket."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmroute.simulation.pd.counts import KvCounts
from warmroute.simulation.pd.ledger import ENDED, KeyTaken, Kv, KvLedger, NotHeld, State

KV = Kv(content=7, tokens=100, seal="s")


class Books:
    """A ledger, and which handovers were let go."""

    def __init__(self, *, single_use: bool = True) -> None:
        self.counts = KvCounts()
        self.ledger = KvLedger(30.0, self.counts, single_use=single_use)
        self.let_go: list[str] = []

    def offer(self, key: str, now: float = 0.0) -> None:
        self.ledger.announce(key)
        self.ledger.offer(key, KV, lambda: self.let_go.append(key), now)


def test_a_handover_from_begin_to_end():
    books = Books()
    books.ledger.announce("a")
    assert books.ledger.state("a") is State.PREFILLING
    books.ledger.offer("a", KV, lambda: books.let_go.append("a"), 1.0)
    assert books.ledger.take("a", "s") == KV
    assert books.let_go == []
    books.ledger.deliver("a")
    assert (books.let_go, books.ledger.state("a"), len(books.ledger)) == (["a"], State.SENT, 0)
    assert (books.counts.offered, books.counts.sent) == (1, 1)


def test_a_lease_runs_out_to_the_second():
    books = Books()
    books.offer("a", now=1.0)
    books.offer("b", now=2.0)
    assert books.ledger.next_expiry == 31.0
    assert books.ledger.expire(30.9) == []
    assert books.ledger.expire(31.0) == ["a"]
    assert (books.let_go, books.ledger.next_expiry, books.counts.expired) == (["a"], 32.0, 1)
    with pytest.raises(NotHeld, match="'a' is expired"):
        books.ledger.take("a", "s")


def test_a_transfer_does_not_expire():
    books = Books()
    books.offer("a")
    books.ledger.take("a", "s")
    assert books.ledger.next_expiry == math.inf
    assert books.ledger.expire(1000.0) == []
    books.ledger.deliver("a")
    assert books.counts.sent == 1


def test_an_interrupted_transfer_can_be_taken_up_until_the_lease_is_over():
    books = Books()
    books.offer("a")
    books.ledger.take("a", "s")
    books.ledger.interrupt("a")
    books.ledger.take("a", "s")
    books.ledger.interrupt("a")
    assert books.ledger.expire(30.0) == ["a"]


def test_what_is_withdrawn_is_let_go_and_told():
    books = Books()
    books.offer("a")
    books.ledger.take("a", "s")
    books.ledger.withdraw("a")
    books.ledger.withdraw("a")
    assert (books.let_go, books.counts.withdrawn) == (["a"], 1)
    with pytest.raises(NotHeld, match="withdrawn during its transfer"):
        books.ledger.deliver("a")


def test_refusals_say_why():
    books = Books()
    books.offer("a")
    with pytest.raises(NotHeld, match="'b' is unknown"):
        books.ledger.take("b", "s")
    with pytest.raises(NotHeld, match="other parameters"):
        books.ledger.take("a", "another seal")
    books.ledger.take("a", "s")
    with pytest.raises(NotHeld, match="on its way"):
        books.ledger.take("a", "s")
    books.ledger.deliver("a")
    with pytest.raises(NotHeld, match="already fetched"):
        books.ledger.take("a", "s")


@pytest.mark.parametrize("single_use", [True, False])
def test_a_key_in_use_is_taken_and_a_used_one_only_where_it_counts(single_use):
    books = Books(single_use=single_use)
    books.offer("a")
    with pytest.raises(KeyTaken):
        books.ledger.announce("a")
    books.ledger.take("a", "s")
    books.ledger.deliver("a")
    if single_use:
        with pytest.raises(KeyTaken):
            books.ledger.announce("a")
    else:
        books.offer("a")
        assert books.ledger.take("a", "s") == KV


EVENTS = ("announce", "offer", "take", "deliver", "interrupt", "withdraw", "expire")


@given(st.lists(st.tuples(st.sampled_from(EVENTS), st.sampled_from("abc")), max_size=40))
def test_whatever_happens_each_offer_is_let_go_once_and_counted_once(events):
    """Blocks would leak, or be freed twice, otherwise."""
    books = Books(single_use=False)
    for now, (event, key) in enumerate(events):
        ledger, state = books.ledger, books.ledger.state(key)
        try:
            if event == "announce":
                ledger.announce(key)
            elif event == "offer" and state is State.PREFILLING:
                ledger.offer(key, KV, lambda key=key: books.let_go.append(key), float(now))
            elif event == "take":
                ledger.take(key, "s")
            elif event == "expire":
                ledger.expire(float(now) + 10)
            elif event in ("deliver", "interrupt", "withdraw"):
                getattr(ledger, event)(key)
        except (KeyTaken, NotHeld):
            assert books.ledger.state(key) is state
    held = sum(books.ledger.state(key) in (State.HELD, State.TRANSFERRING) for key in "abc")
    assert books.counts.offered == len(books.let_go) + held
    for key in "abc":
        books.ledger.withdraw(key)
        assert books.ledger.state(key) in ENDED | {None}
    assert books.counts.offered == len(books.let_go)
    assert len(books.ledger) == 0
