"""The order in which requests wait: by arrival and priority, by model, in bounds, and nobody for ever."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from warmroute.scheduling.waiting import MAX_PRIORITY, WaitingLine

TIMEOUT = 60.0


def anybody(_who: str) -> bool:
    return True


def served(line: WaitingLine[str], may_go=anybody) -> list[str]:
    """Everybody in the order in which they would be served."""
    order = []
    while (place := line.first(may_go)) is not None:
        line.remove(place)
        order.append(place.who)
    return order


def test_arrival_decides_without_priorities() -> None:
    line = WaitingLine[str](10, TIMEOUT)
    for moment, who in ((3, "c"), (1, "a"), (2, "b")):  # who failed elsewhere keeps the moment of its arrival
        assert line.add(who, "m", 0, arrived=moment, now=5)
    assert served(line) == ["a", "b", "c"]


def test_a_priority_point_is_worth_a_second_of_waiting() -> None:
    line = WaitingLine[str](10, TIMEOUT)
    line.add("old", "m", 0, 0.0, 0.0)
    line.add("urgent", "m", 5, 4.0, 4.0)
    line.add("urgent but later", "m", 5, 6.0, 6.0)
    line.add("patient", "m", -5, 0.0, 0.0)
    assert served(line) == ["urgent", "old", "urgent but later", "patient"]


def test_who_cannot_go_holds_back_its_own_model_only() -> None:
    line = WaitingLine[str](10, TIMEOUT)
    for moment, (who, model) in enumerate((("a1", "a"), ("a2", "a"), ("b1", "b"))):
        line.add(who, model, 0, moment, moment)
    assert served(line, lambda who: who[0] == "b") == ["b1"]
    assert served(line) == ["a1", "a2"]


def test_a_full_line_takes_nobody() -> None:
    line = WaitingLine[str](1, TIMEOUT)
    place = line.add("a", "m", 0, 0, 0)
    assert place is not None
    assert line.add("b", "m", MAX_PRIORITY, 0, 0) is None
    assert line.remove(place)
    assert not line.remove(place)
    assert line.add("b", "m", 0, 0, 0)
    assert WaitingLine[str](0, TIMEOUT).add("a", "m", 0, 0, 0) is None


def test_time_ends_in_the_order_of_coming() -> None:
    line = WaitingLine[str](10, TIMEOUT)
    assert line.next_end is None
    for moment, who in enumerate("abc"):
        line.add(who, who, -moment, moment, moment)
    assert line.next_end == 60
    assert [place.who for place in line.expired(59.9)] == []
    assert [place.who for place in line.expired(61)] == ["a", "b"]


def test_the_time_to_clear_is_learned_from_the_pace() -> None:
    line = WaitingLine[str](10, TIMEOUT)
    for who in "abcd":
        line.add(who, "m", 0, 0, 0)
    assert line.seconds_to_clear() == 0
    for moment in range(100):
        line.served(moment * 2.0)
    assert line.seconds_to_clear() == pytest.approx(8.0, rel=0.01)


@given(
    mine=st.integers(-1000, 1000),
    others=st.lists(st.tuples(st.integers(-1000, 1000), st.floats(0, 1000)), max_size=20),
)
def test_who_has_waited_two_thirds_of_the_timeout_is_overtaken_by_nobody_who_comes_later(mine, others) -> None:
    line = WaitingLine[str](100, TIMEOUT)
    line.add("me", "m", mine, 0.0, 0.0)
    for number, (priority, late) in enumerate(others):
        moment = TIMEOUT * 2 / 3 + late + 1e-6
        line.add(f"other {number}", "n", priority, moment, moment)
    first = line.first(anybody)
    assert first is not None
    assert first.who == "me"


class Model(RuleBasedStateMachine):
    """Against a plain list."""

    def __init__(self) -> None:
        super().__init__()
        self.line = WaitingLine[int](8, TIMEOUT)
        self.waiting = []
        self.now = 0.0
        self.count = 0

    @rule(model=st.sampled_from("ab"), priority=st.integers(-30, 30), age=st.floats(0, 10))
    def add(self, model, priority, age) -> None:
        self.count += 1
        place = self.line.add(self.count, model, priority, self.now - age, self.now)
        assert (place is None) == (len(self.waiting) == 8)
        if place is not None:
            self.waiting.append(place)

    @rule(seconds=st.floats(0, 40))
    def go_on(self, seconds) -> None:
        self.now += seconds
        late = {place.who for place in self.waiting if place.expires <= self.now}
        found = self.line.expired(self.now)
        assert {place.who for place in found} == late
        for place in found:
            self.line.remove(place)
            self.waiting.remove(place)

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def leave(self, data) -> None:
        place = data.draw(st.sampled_from(self.waiting))
        assert self.line.remove(place)
        self.waiting.remove(place)

    @rule(models=st.sets(st.sampled_from("ab")))
    def serve(self, models) -> None:
        by_who = {place.who: place for place in self.waiting}
        place = self.line.first(lambda who: by_who[who].key in models)
        expected = min(
            (place for place in self.waiting if place.key in models),
            key=lambda place: (place.rank, place.serial),
            default=None,
        )
        assert place is expected
        if place is not None:
            self.line.remove(place)
            self.waiting.remove(place)

    @invariant()
    def agrees(self) -> None:
        assert len(self.line) == len(self.waiting)
        assert self.line.next_end == min((place.expires for place in self.waiting), default=None)


TestModel = Model.TestCase
