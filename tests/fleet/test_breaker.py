import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from warmroute.fleet.breaker import TRANSITIONS, Breaker, BreakerEvent, BreakerRules, BreakerState

RULES = BreakerRules(failures=3, open_seconds=10.0, share=0.5, requests=6, window=30.0)


def tripped(now: float = 100.0) -> Breaker:
    breaker = Breaker(RULES)
    for number in range(3):
        breaker.failed(now, "lost a request", b"%d" % number)
    assert breaker.state is BreakerState.OPEN
    return breaker


def tried(now: float = 110.0) -> Breaker:
    breaker = tripped(now - 10)
    breaker.tick(now)
    assert breaker.attempt(now, b"trial")
    return breaker


def test_it_opens_after_failures_in_a_row():
    breaker = Breaker(RULES)
    assert [breaker.failed(1.0, "x", b"%d" % number) for number in range(3)] == [False, False, True]
    assert (breaker.ejects, breaker.listens, breaker.opened_at) == (True, False, 1.0)
    assert breaker.reason == "3 failures in a row, it x"


def test_a_success_between_ends_the_row():
    breaker = Breaker(BreakerRules(failures=3, requests=100))
    for number in range(40):
        breaker.failed(1.0 + number, "x", b"1")
        breaker.succeeded(1.0 + number, b"2")
    assert breaker.state is BreakerState.CLOSED


def test_it_opens_at_a_share_of_failures_in_the_window():
    breaker = Breaker(RULES)
    for number in range(2):
        breaker.failed(1.0, "x", b"%d" % number)
        breaker.succeeded(1.0, b"ok")
    breaker.succeeded(1.0, b"ok")
    assert breaker.failed(2.0, "x", b"5")
    assert breaker.reason == "3 of its last 6 requests failed, it x"


def test_failures_that_are_older_than_the_window_do_not_count():
    breaker = Breaker(RULES)
    for number in range(20):
        breaker.failed(100.0 * number, "x", b"%d" % number)
        breaker.succeeded(100.0 * number, b"ok")
    assert breaker.state is BreakerState.CLOSED


def test_it_asks_for_successes_only_while_there_are_failures_to_outweigh():
    breaker = Breaker(RULES)
    assert not breaker.listens
    breaker.failed(1.0, "x", b"1")
    assert breaker.listens
    breaker.succeeded(2.0, b"2")
    assert breaker.listens
    breaker.succeeded(40.0, b"3")
    breaker.succeeded(60.0, b"4")
    assert not breaker.listens


def test_with_zero_failures_it_never_opens():
    breaker = Breaker(BreakerRules(failures=0))
    assert not any(breaker.failed(1.0, "x", b"%d" % number) for number in range(100))


def test_it_stays_open_for_its_time_whatever_is_heard():
    breaker = tripped(100.0)
    assert not breaker.tick(109.9)
    assert not breaker.succeeded(105.0, b"late")
    assert not breaker.failed(105.0, "x", b"late")
    assert breaker.tick(110.0)
    assert (breaker.state, breaker.ejects, breaker.listens) == (BreakerState.HALF_OPEN, False, True)


def test_one_request_tries_it_and_its_success_closes():
    breaker = tried()
    assert (breaker.state, breaker.ejects) == (BreakerState.TRYING, True)
    assert not breaker.attempt(111.0, b"another")
    assert breaker.succeeded(112.0, b"trial")
    assert (breaker.state, breaker.ejects, breaker.listens) == (BreakerState.CLOSED, False, False)


def test_the_failure_of_the_trial_opens_it_for_its_time_again():
    breaker = tried(110.0)
    assert breaker.failed(111.0, "x", b"trial")
    assert breaker.reason == "the request that tried it failed, it x"
    assert not breaker.tick(120.9)
    assert breaker.tick(121.0)


def test_the_verdict_on_another_request_decides_nothing():
    breaker = tried()
    assert not breaker.succeeded(111.0, b"old stream")
    assert not breaker.failed(111.0, "x", b"old stream")
    assert not breaker.undecided(111.0, b"old stream")
    assert breaker.state is BreakerState.TRYING


def test_a_trial_that_says_nothing_is_followed_by_another():
    breaker = tried()
    assert breaker.undecided(111.0, b"trial")
    assert breaker.state is BreakerState.HALF_OPEN
    assert breaker.attempt(111.0, b"next")


def test_a_trial_without_verdict_does_not_hold_the_worker_for_ever():
    breaker = tried(110.0)
    assert not breaker.tick(119.9)
    assert breaker.tick(120.0)
    assert breaker.state is BreakerState.HALF_OPEN


@pytest.mark.parametrize("make", [tripped, tried, lambda: Breaker(RULES)])
def test_another_process_starts_with_a_clean_record(make):
    breaker = make()
    breaker.reset(200.0)
    assert (breaker.state, breaker.listens) == (BreakerState.CLOSED, False)
    assert not breaker.failed(201.0, "x", b"1")


def test_every_state_is_left_and_reset_is_possible_in_each():
    assert {state for state, event in TRANSITIONS if event is not BreakerEvent.RESET} == set(BreakerState)
    assert {TRANSITIONS[state, BreakerEvent.RESET] for state in BreakerState} == {BreakerState.CLOSED}


class AnyHistory(RuleBasedStateMachine):
    """Verdicts, attempts and time in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.breaker = Breaker(RULES)
        self.row = 0
        self.serial = 0
        self.trials: list[bytes] = []

    def new_id(self) -> bytes:
        self.serial += 1
        return b"%d" % self.serial

    @rule(seconds=st.floats(0.0, 40.0))
    def time_passes(self, seconds):
        self.now += seconds
        before = self.breaker.state
        since = self.breaker.since
        if self.breaker.tick(self.now):
            assert before in (BreakerState.OPEN, BreakerState.TRYING)
            assert self.now - since >= RULES.open_seconds
            assert self.breaker.state is BreakerState.HALF_OPEN

    @rule()
    def a_request_fails(self):
        before = self.breaker.state
        changed = self.breaker.failed(self.now, "x", self.new_id())
        if before is BreakerState.CLOSED:
            self.row += 1
            if self.row >= RULES.failures:
                assert changed
            if changed:
                assert self.breaker.state is BreakerState.OPEN
                self.row = 0
        else:
            assert not changed

    @rule()
    def a_request_is_served(self):
        self.row = 0
        assert not self.breaker.succeeded(self.now, self.new_id())

    @rule()
    def a_request_begins(self):
        before = self.breaker.state
        trial = self.new_id()
        assert self.breaker.attempt(self.now, trial) is (before is BreakerState.HALF_OPEN)
        if before is BreakerState.HALF_OPEN:
            self.trials.append(trial)

    @precondition(lambda self: self.breaker.state is BreakerState.TRYING)
    @rule(verdict=st.sampled_from(["good", "bad", "neither"]))
    def the_trial_ends(self, verdict):
        trial = self.trials[-1]
        if verdict == "good":
            assert self.breaker.succeeded(self.now, trial)
            assert self.breaker.state is BreakerState.CLOSED
            self.row = 0
        elif verdict == "bad":
            assert self.breaker.failed(self.now, "x", trial)
            assert self.breaker.state is BreakerState.OPEN
        else:
            assert self.breaker.undecided(self.now, trial)
            assert self.breaker.state is BreakerState.HALF_OPEN

    @rule()
    def it_is_another_process(self):
        self.breaker.reset(self.now)
        self.row = 0

    @invariant()
    def failures_on_record_make_it_listen(self):
        if self.breaker.state is BreakerState.CLOSED and self.row:
            assert self.breaker.listens

    @invariant()
    def it_ejects_only_while_open_or_trying(self):
        assert self.breaker.ejects is (self.breaker.state in (BreakerState.OPEN, BreakerState.TRYING))

    def teardown(self):
        """Whatever has happened, time and one good request close it."""
        self.breaker.tick(self.now + RULES.open_seconds)
        self.breaker.attempt(self.now + RULES.open_seconds, b"last")
        self.breaker.succeeded(self.now + RULES.open_seconds, b"last")
        assert self.breaker.state is BreakerState.CLOSED


TestAnyHistory = AnyHistory.TestCase


@given(st.lists(st.tuples(st.floats(0, 20), st.booleans()), max_size=60))
def test_it_never_opens_by_rate_with_too_few_requests(history):
    breaker = Breaker(BreakerRules(failures=1000, requests=61))
    now = 0.0
    for seconds, failed in history:
        now += seconds
        assert not (breaker.failed(now, "x", b"1") if failed else breaker.succeeded(now, b"1"))
