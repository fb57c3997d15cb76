"""The life of a worker as a table.

    starting --PASSED--> healthy <--PASSED-- unhealthy
    healthy  --FAILED, TIMED_OUT or REFUSED--> unhealthy
    any      --REMOVED--> gone

PASSED and FAILED are whole thresholds of probes, not single ones. TIMED_OUT is a single one: a worker that takes
connections and does not answer may be frozen, and would hold the requests that it gets. REFUSED comes from the data
plane: a request found nobody there. A starting worker has never been healthy, so no failure can make it worse. Nothing
leads out of gone: a worker that comes back is a new member. Holds (paused, drained, leaving) are flags beside this
state, because each is set and lifted by somebody else.
"""

from __future__ import annotations

from enum import Enum


class State(Enum):
    """What probes say of a worker."""

    STARTING = "starting"
    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"
    GONE = "gone"


class Event(Enum):
    """What can happen to it."""

    PASSED = "passed"
    FAILED = "failed"
    TIMED_OUT = "timed out"
    REFUSED = "refused"
    REMOVED = "removed"


TRANSITIONS: dict[tuple[State, Event], State] = {
    (State.STARTING, Event.PASSED): State.HEALTHY,
    (State.STARTING, Event.FAILED): State.STARTING,
    (State.STARTING, Event.TIMED_OUT): State.STARTING,
    (State.STARTING, Event.REFUSED): State.STARTING,
    (State.STARTING, Event.REMOVED): State.GONE,
    (State.HEALTHY, Event.PASSED): State.HEALTHY,
    (State.HEALTHY, Event.FAILED): State.UNHEALTHY,
    (State.HEALTHY, Event.TIMED_OUT): State.UNHEALTHY,
    (State.HEALTHY, Event.REFUSED): State.UNHEALTHY,
    (State.HEALTHY, Event.REMOVED): State.GONE,
    (State.UNHEALTHY, Event.PASSED): State.HEALTHY,
    (State.UNHEALTHY, Event.FAILED): State.UNHEALTHY,
    (State.UNHEALTHY, Event.TIMED_OUT): State.UNHEALTHY,
    (State.UNHEALTHY, Event.REFUSED): State.UNHEALTHY,
    (State.UNHEALTHY, Event.REMOVED): State.GONE,
}


class ImpossibleEventError(Exception):
    """An event that the table has no row for: a fault of the caller. The state is unchanged."""

    def __init__(self, state: State, event: Event) -> None:
        super().__init__(f"a worker that is {state.value} cannot be {event.value}")


def next_state(state: State, event: Event) -> State:
    """Look the transition up; raises ImpossibleEventError when there is none."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise ImpossibleEventError(state, event) from None
