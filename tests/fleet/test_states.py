import itertools

import pytest

from warmroute.fleet.states import TRANSITIONS, Event, ImpossibleEventError, State, next_state


def test_every_event_has_a_row_for_every_state_but_gone():
    alive = [state for state in State if state is not State.GONE]
    assert set(TRANSITIONS) == set(itertools.product(alive, Event))


@pytest.mark.parametrize(
    ("state", "event", "expected"),
    [
        (State.STARTING, Event.FAILED, State.STARTING),
        (State.STARTING, Event.PASSED, State.HEALTHY),
        (State.HEALTHY, Event.FAILED, State.UNHEALTHY),
        (State.HEALTHY, Event.REFUSED, State.UNHEALTHY),
        (State.UNHEALTHY, Event.PASSED, State.HEALTHY),
        (State.UNHEALTHY, Event.REMOVED, State.GONE),
    ],
)
def test_the_ways_of_a_worker(state, event, expected):
    assert next_state(state, event) is expected


def test_what_never_was_healthy_is_never_unhealthy():
    assert State.UNHEALTHY not in {after for (before, _), after in TRANSITIONS.items() if before is State.STARTING}


@pytest.mark.parametrize("event", list(Event))
def test_nothing_leads_out_of_gone_and_the_error_names_both(event):
    with pytest.raises(ImpossibleEventError, match=f"gone cannot be {event.value}"):
        next_state(State.GONE, event)
