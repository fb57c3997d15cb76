"""least_delay leaves out of its sums whoever cannot win; it must choose as if it had done all of them."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.pools import make_worker, rows

from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.choosing import least
from warmroute.scheduling.pace import ATTENTION_TOKENS, NEVER_SETTLED, SECONDS_PER_TOKEN, Expectation
from warmroute.scheduling.policies.least_delay import LeastDelay
from warmroute.scheduling.worker import Candidate, Worker


def plain_choice(candidates: Sequence[Candidate], prompt: Prompt, rng: Random, now: float) -> Candidate:
    """The policy, step by step: every term of every worker."""
    paces = [row.pace for row in candidates]
    count = len(paces)
    unsettled = [pace for pace in paces if pace.observations >= 4]
    if unsettled:
        observed = sorted(pace.observed for pace in paces if pace.known)
        typical = observed[len(observed) // 2] if observed else SECONDS_PER_TOKEN
        if any(pace.observations >= NEVER_SETTLED for pace in unsettled):
            unsettled = paces
        for pace in unsettled:
            pace.settle(typical)
    if sum([pace.placed for pace in paces]) > count:
        for pace in paces:
            pace.placed /= 2
    placed = sum([pace.placed for pace in paces])
    delayed = min(10.0, sorted(pace.waiting for pace in paces)[count // 2])
    typical = sum([pace.seconds_per_token for pace in paces]) / count
    share = 0.7 * count / placed if placed else 0.0
    context = 0.5 / ATTENTION_TOKENS
    scores = []
    for row in candidates:
        pace, matched = row.pace, row.matched_tokens
        crowd = pace.placed * share
        crowding = crowd * crowd if crowd < 1.4 else 1.4**2
        seconds = pace.seconds_per_token + typical * (min(delayed, pace.waiting) + crowding)
        work = (prompt.tokens - matched) * (1.0 + prompt.tokens * context + matched * context)
        wait = pace.wait(now) if pace.open else 0.0
        scores.append(wait + typical * 125.0 * row.load.running_requests + work * seconds)
    return least(candidates, scores, rng)


class Twin:
    """A fleet to which things happen; two of them that choose alike stay alike."""

    def __init__(self, size: int, cache_tokens: int) -> None:
        self.now = 0.0
        self.workers = [make_worker(f"w{n}", cache_tokens=cache_tokens) for n in range(size)]
        self.open: list[tuple[Worker, Expectation]] = []
        self.policy = LeastDelay()
        self.policy.clock = lambda: self.now
        self.rng = Random(1)

    def choose(self, prompt: Prompt, matches: Sequence[int], *, plainly: bool) -> str:
        """One request, counted as the scheduler counts it."""
        candidates = rows(self.workers)
        for row, matched in zip(candidates, matches, strict=True):
            row.matched_tokens = matched
        choose = self.policy if not plainly else lambda *given: plain_choice(*given, now=self.now)
        row = choose(candidates, prompt, self.rng)
        row.load.running_requests += 1
        uncached = prompt.tokens - row.matched_tokens
        row.pace.placed += uncached / row.worker.cache_tokens
        expectation = row.pace.expect(uncached, row.matched_tokens, lambda: self.now, streamed=prompt.stream)
        self.open.append((row.worker, expectation))
        return row.worker.id

    def end_one(self, number: int, *, well: bool) -> None:
        """One of the open requests gets its first token, or never will."""
        worker, expectation = self.open.pop(number % len(self.open))
        worker.load.running_requests -= 1
        (expectation.met if well else expectation.void)()


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 1 << 32),
    size=st.integers(1, 12),
    cache_tokens=st.sampled_from([2000, 60_000, 500_000]),
    pressure=st.sampled_from([0.2, 0.6, 0.9]),
    streamed=st.sampled_from([0.0, 0.8, 1.0]),
)
def test_the_same_workers_are_chosen(seed: int, size: int, cache_tokens: int, pressure: float, streamed: float):
    rng = Random(seed)
    quick, plain = Twin(size, cache_tokens), Twin(size, cache_tokens)
    for _ in range(80):
        if quick.open and rng.random() > pressure:
            number, well = rng.randrange(1000), rng.random() < 0.9
            quick.end_one(number, well=well)
            plain.end_one(number, well=well)
        else:
            prompt = Prompt(tokens=rng.choice([0, 1, 100, 3000, 40_000]), stream=rng.random() < streamed)
            matches = [rng.choice([0, 0, prompt.tokens // 2, prompt.tokens]) for _ in range(size)]
            assert quick.choose(prompt, matches, plainly=False) == plain.choose(prompt, matches, plainly=True)
        quick.now = plain.now = quick.now + rng.choice([0.0, 0.001, 0.1, 3.0])
    for one, other in zip(rows(quick.workers), rows(plain.workers), strict=True):
        assert one.pace.placed == other.pace.placed
        assert one.pace.seconds_per_token == other.pace.seconds_per_token


@given(seed=st.integers(0, 1 << 32), size=st.integers(1, 6))
def test_the_scores_that_are_told_explain_the_choice(seed: int, size: int):
    rng = Random(seed)
    fleet = Twin(size, 60_000)
    for _ in range(20):
        prompt = Prompt(tokens=rng.choice([100, 3000, 40_000]), stream=True)
        chosen = fleet.choose(prompt, [rng.choice([0, prompt.tokens // 2]) for _ in range(size)], plainly=False)
        fleet.workers[int(chosen[1:])].load.running_requests -= 1
        worker, expectation = fleet.open.pop()
        expectation.void()
        worker.candidate.pace.placed -= (prompt.tokens - worker.candidate.matched_tokens) / 60_000
        scores = fleet.policy.scores(rows(fleet.workers), prompt)
        assert scores[int(chosen[1:])] <= min(scores) * (1 + 1e-9)
        fleet.choose(prompt, [0] * size, plainly=False)
        fleet.now += rng.choice([0.0, 0.1])
