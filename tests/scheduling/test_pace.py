"""The pace of a worker: a schedule that follows its first tokens, and a speed that is learned from them."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warmroute.scheduling.pace import ATTENTION_TOKENS, SECONDS_PER_TOKEN, Expectation, Pace, effective_tokens


class Clock:
    """Time that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def taught(seconds_per_token: float, constant: float = 0.0) -> Pace:
    """A pace that has seen a worker of this speed for a while, and believes what it saw."""
    pace = Pace()
    for tokens in (100, 5000, 900, 20_000, 2500) * 8:
        pace.learn(tokens, constant + tokens * seconds_per_token)
    pace.settle(pace.observed)
    return pace


def test_an_idle_worker_begins_at_once():
    assert Pace().wait(5.0) == 0.0


def test_a_prompt_is_put_at_the_end_and_the_wait_shrinks_as_time_goes_by():
    pace, clock = taught(1e-3), Clock()
    pace.expect(100, 0, clock, streamed=True)
    pace.expect(200, 0, clock, streamed=True)
    seconds = (effective_tokens(100, 0) + effective_tokens(200, 0)) * pace.seconds_per_token
    assert pace.wait(0.0) == pytest.approx(seconds)
    assert pace.wait(0.1) == pytest.approx(seconds - 0.1)


def test_a_first_token_moves_what_is_left_of_the_schedule():
    """The first prompt takes twice as long as planned: the second begins then, whatever was planned for it."""
    pace, clock = taught(1e-3), Clock()
    first = pace.expect(100, 0, clock, streamed=True)
    pace.expect(100, 0, clock, streamed=True)
    clock.now = 0.2
    first.met()
    assert pace.wait(0.2) == pytest.approx(effective_tokens(100, 0) * 1e-3, rel=0.05)


def test_a_worker_that_is_late_is_expected_to_stay_so():
    pace, clock = taught(1e-3), Clock()
    pace.expect(100, 0, clock, streamed=True)
    own = effective_tokens(100, 0) * pace.seconds_per_token
    assert pace.wait(own + 3.0) == pytest.approx(own + 3.0)


@pytest.mark.parametrize("streamed", [True, False])
def test_a_request_that_fails_leaves_nothing_on_the_schedule(streamed: bool):
    pace, clock = taught(1e-3), Clock()
    pace.expect(5000, 0, clock, streamed=streamed).void()
    assert pace.wait(0.0) == 0.0
    assert (pace.open, pace.waiting) == (0, 0)


def test_an_answer_that_comes_as_a_whole_teaches_nothing_but_counts_a_little_until_then():
    pace, clock = taught(1e-3), Clock()
    observed = pace.observed
    expectation = pace.expect(1000, 0, clock, streamed=False)
    own = effective_tokens(1000, 0) * pace.seconds_per_token
    assert pace.wait(own + 20.0) == pytest.approx(own / 4)
    clock.now = own + 20.0
    expectation.met()
    assert pace.wait(clock.now) == 0.0
    assert pace.observed == observed


def test_a_token_costs_twice_as_much_behind_a_long_context():
    assert effective_tokens(1, int(ATTENTION_TOKENS)) == pytest.approx(2.0, rel=1e-4)
    assert effective_tokens(100, 0) == pytest.approx(100, rel=0.01)


@pytest.mark.parametrize("seconds_per_token", [1e-6, 5e-5, 2e-3])
def test_the_speed_is_the_slope_and_the_constant_part_is_left_out(seconds_per_token: float):
    assert taught(seconds_per_token, constant=0.2 * 2500 * seconds_per_token).observed == pytest.approx(
        seconds_per_token, rel=0.05
    )


def test_prompts_of_one_length_give_the_plain_ratio():
    pace = Pace()
    for _ in range(10):
        pace.learn(1000, 0.5)
    assert pace.observed == pytest.approx(5e-4)


def test_one_stall_does_not_make_a_worker_slow_but_a_slow_worker_is_noticed():
    pace = taught(1e-4)
    pace.learn(2000, 60.0)
    assert pace.observed < 2e-4
    for _ in range(60):
        for tokens in (500, 4000):
            pace.learn(tokens, tokens * 1e-3)
    assert pace.observed == pytest.approx(1e-3, rel=0.2)


def test_equals_are_taken_for_equals_and_others_are_not():
    pace = taught(1e-4)
    pace.settle(1.2e-4)
    assert pace.seconds_per_token == 1.2e-4
    pace.settle(3e-4)
    assert pace.seconds_per_token == pytest.approx(1e-4, rel=0.01)
    pace.settle(1.0)
    assert pace.seconds_per_token == 1 / 8
    unknown = Pace()
    unknown.settle(3e-4)
    assert unknown.seconds_per_token == 3e-4


def test_a_queue_is_not_taken_for_slowness():
    """Ten prompts at once on a worker of 1 ms a token: the last one waits for all, and the speed is still 1 ms."""
    clock, pace, rng = Clock(), Pace(), Random(1)
    for _ in range(20):
        sizes = [rng.randint(100, 3000) for _ in range(10)]
        for size, expectation in [(s, pace.expect(s, 0, clock, streamed=True)) for s in sizes]:
            clock.now += effective_tokens(size, 0) * 1e-3
            expectation.met()
        clock.now += rng.random()
    assert pace.observed == pytest.approx(1e-3, rel=0.01)


def test_prompts_of_one_step_give_their_first_tokens_together_and_the_speed_is_that_of_the_stretch():
    clock, pace, rng = Clock(), Pace(), Random(2)
    for _ in range(60):
        sizes = [rng.randint(1000, 4000) for _ in range(rng.randint(1, 6))]
        step = [pace.expect(size, 0, clock, streamed=True) for size in sizes]
        clock.now += sum(effective_tokens(size, 0) for size in sizes) * 1e-3
        for expectation in step:
            expectation.met()
        clock.now += rng.random()
    assert pace.observed == pytest.approx(1e-3, rel=0.01)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["ask", "met", "void"]),
        st.integers(0, 200_000),
        st.integers(0, 200_000),
        st.booleans(),
        st.floats(0.0, 500.0),
    ),
    max_size=60,
)


@given(steps=STEPS)
@settings(max_examples=150, deadline=None, database=None)
def test_whatever_happens_the_wait_is_finite_and_an_empty_worker_has_none(steps: list):
    pace, clock = Pace(), Clock()
    expected: list[Expectation] = []
    for what, uncached, matched, streamed, seconds in steps:
        clock.now += seconds
        if what == "ask":
            expected.append(pace.expect(uncached, matched, clock, streamed=streamed))
        elif expected:
            expectation = expected.pop(uncached % len(expected))
            (expectation.met if what == "met" else expectation.void)()
        assert 0.0 < pace.observed < 1e4
        assert -1e-6 <= pace.wait(clock.now) < 1e12
        assert 0 <= pace.waiting <= pace.open == len(expected)
    for expectation in expected:
        expectation.void()
    assert (pace.open, pace.waiting) == (0, 0)
    pace.settle(SECONDS_PER_TOKEN)
    assert pace.wait(clock.now + 1e9) == 0.0
