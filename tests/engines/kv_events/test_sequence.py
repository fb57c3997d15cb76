"""The numbers of a publisher's messages."""

from warmroute.engines.kv_events.sequence import Sequence, Step

NEXT, KNOWN, GAP, RESTART = Step


def live(sequence: Sequence, *numbers: int) -> list[Step]:
    return [sequence.live(number) for number in numbers]


def test_from_the_first_message_on():
    assert live(Sequence(), 0, 1, 2) == [NEXT] * 3


def test_a_late_subscriber_has_a_gap_before_its_first_message():
    sequence = Sequence()
    assert live(sequence, 7) == [GAP]
    sequence.skip_to(7)
    assert sequence.replayed(7) is NEXT
    assert live(sequence, 8) == [NEXT]


def test_what_a_replay_has_brought_is_known_when_it_comes_as_well():
    sequence = Sequence()
    assert [sequence.replayed(number) for number in (0, 1, 2)] == [NEXT] * 3
    assert live(sequence, 1, 2, 3) == [KNOWN, KNOWN, NEXT]


def test_a_gap_is_filled_by_a_replay():
    sequence = Sequence()
    assert live(sequence, 0, 3) == [NEXT, GAP]
    assert sequence.expected == 1
    assert [sequence.replayed(number) for number in (0, 1, 2, 3)] == [KNOWN, NEXT, NEXT, NEXT]
    assert live(sequence, 4) == [NEXT]


def test_a_replay_may_begin_too_late():
    sequence = Sequence()
    sequence.live(0)
    assert sequence.replayed(5) is GAP
    sequence.skip_to(5)
    assert [sequence.replayed(number) for number in (5, 6)] == [NEXT, NEXT]


def test_numbers_that_go_back_or_come_again_are_a_restart():
    sequence = Sequence()
    assert live(sequence, 0, 1, 2, 0) == [NEXT, NEXT, NEXT, RESTART]
    sequence.begin()
    sequence.skip_to(0)
    assert sequence.replayed(0) is NEXT
    assert live(sequence, 1, 1) == [NEXT, RESTART]
