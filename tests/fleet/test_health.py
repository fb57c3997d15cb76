import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmroute.fleet.health import Health
from warmroute.fleet.states import ImpossibleEventError, State


def feed(health: Health, results: str) -> str:
    """Feed + (passed), - (failed), ~ (timed out) and ! (refused); returns the state after each as its first letter."""
    letters = ""
    for result in results:
        if result == "!":
            health.refuse("why")
        elif result == "~":
            health.time_out("why")
        else:
            health.record(result == "+", "why")
        letters += health.state.value[0]
    return letters


@pytest.mark.parametrize(
    ("failures", "successes", "results", "states"),
    [
        (1, 1, "+-+", "huh"),
        (1, 1, "---+", "sssh"),
        (3, 1, "+--+---", "hhhhhhu"),
        (1, 3, "++-+++", "sssssh"),
        (2, 2, "++-+--+-++", "shhhhuuuuh"),
        (3, 3, "+++!+", "sshuh"),
        (3, 3, "+++!-+++", "sshuuuuh"),
        (1, 3, "+++-!+++", "sshuuuuh"),
        (1, 2, "!++", "ssh"),
        (3, 3, "+++~+", "sshuh"),
        (3, 3, "+++---+~++", "sshhhuuuuu"),
        (3, 1, "~~+", "ssh"),
    ],
)
def test_thresholds_count_results_in_a_row(failures, successes, results, states):
    assert feed(Health(failures, successes), results) == states


def test_time_outs_in_a_row_end_with_any_answer():
    health = Health(3, 1, State.HEALTHY)
    counts = []
    for result in "~~-~~+~":
        feed(health, result)
        counts.append(health.timeouts)
    assert counts == [1, 2, 0, 1, 2, 0, 1]


@pytest.mark.parametrize(
    ("results", "doubted"),
    [
        ("~", True),
        ("~~", False),
        ("~+", False),
        ("~-", False),
        ("~!", False),
        ("-~", False),
        ("!~", False),
        ("-+~", True),
    ],
)
def test_it_is_doubted_from_the_first_time_out_until_anything_else_is_known(results, doubted):
    health = Health(1, 1, State.HEALTHY)
    feed(health, results)
    assert health.is_doubted is doubted


def test_the_reason_is_that_of_the_last_failure_and_goes_with_it():
    health = Health(1, 1, State.HEALTHY)
    health.record(False, "HTTP 503")
    assert health.reason == "HTTP 503"
    health.record(True)
    assert health.reason == ""


def test_recovers_on_pass_tells_the_pass_that_counts():
    health = Health(1, 2)
    assert not health.recovers_on_pass
    health.record(True)
    assert health.recovers_on_pass
    health.record(True)
    assert not health.recovers_on_pass


def test_a_removed_worker_takes_no_more_results():
    health = Health(1, 1)
    health.remove()
    with pytest.raises(ImpossibleEventError):
        health.record(True)


@given(st.integers(1, 4), st.integers(1, 4), st.lists(st.booleans(), max_size=40))
def test_against_a_plain_reading_of_the_rule(failures, successes, results):
    health = Health(failures, successes)
    state = State.STARTING
    for count, passed in enumerate(results, 1):
        changed = health.record(passed, "why")
        before, seen = state, results[:count]
        if len(seen) >= successes and all(seen[-successes:]):
            state = State.HEALTHY
        elif state is State.HEALTHY and len(seen) >= failures and not any(seen[-failures:]):
            state = State.UNHEALTHY
        assert health.state is state
        assert changed is (before is not state)
