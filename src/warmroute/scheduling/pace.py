"""How soon a worker will have prefilled what it was given, learned from when first tokens come.

A worker prefills first come, first served. Its *schedule* says when it will be done with all that it was given: each
new prompt is put at its end with the seconds that it should take, and each first token that comes shows how late the
schedule is and moves what is left of it. So the predicted wait shrinks while the worker works, and never drifts.

The seconds per token are the slope of an exponentially weighted regression of the seconds that a stretch of prefill
took on its tokens. A prompt's seconds are counted from the first token before its own, or from when it was sent if
nothing was before it. The constant part (network, tokenising, one engine step) the slope leaves out.

What is computed counts in *effective* tokens: a token behind a long context costs more, since it attends to all of it.
With `P` parameters, `L` layers and width `d` a token costs `2P` operations and `4Ld` more for each token before it, so
it costs twice as much behind `P / 2Ld` of them: 30,000 for an 8B model (Llama 3: 32 layers of 4,096), 53,000 for a 70B
one (80 of 8,192).
"""

from __future__ import annotations

from collections.abc import Callable

ATTENTION_TOKENS = 40_000.0
"""Behind so many tokens a prompt token costs twice as much."""

SECONDS_PER_TOKEN = 1 / 20_000
"""What is assumed of a worker as long as nobody has seen one work."""

_STRETCH = 20_000.0
"""Tokens that make an observation while the worker stays busy. Engines prefill several prompts in one step, and give
their first tokens together: what one of them took cannot be seen, only what a stretch of them did."""
_KEPT = 0.97
"""What an observation weighs after one more: about 30 count."""
_SURPRISE = 2.0
"""An observation counts at most so many times what was predicted: one stall does not make a worker slow."""
_KEPT_SURPRISED = 0.8
"""What is known weighs less then, so that a worker that has become slow is soon known to be."""
_TRUSTED = 4.0
"""From this weight of observations on, surprises are cut."""
_SPREAD = 0.04
"""Least variance of the tokens, relative to their mean squared, for a slope of its own."""
_STEEPEST = 8.0
"""The slope is at least this part of the plain ratio: the constant part cannot explain everything."""
_ALIKE = 1.3
"""Workers whose speeds differ by less are taken for equals, or all would go to the one that was measured fastest."""
NEVER_SETTLED = 1 << 30
"""As `observations`: the worker is new, or has just been seen to work for the first time."""
_OWN = 3.0
"""From this weight of observations on, a worker may be taken to differ from the others."""
_UNLIKE = 8.0
"""More than so many times as fast or slow as the typical worker is not believed."""
_UNSEEN = 0.25
"""What a prompt counts as long as its answer is open, if nobody sees when its prefill ends."""


def effective_tokens(uncached: int, matched: int) -> float:
    """What it costs to compute `uncached` prompt tokens behind `matched` ones, in tokens without context."""
    return uncached * (1.0 + (matched + 0.5 * uncached) / ATTENTION_TOKENS)


class Pace:
    """The prefill schedule and speed of one worker. Times are of any one clock, in seconds.

    `seconds_per_token` is what an effective token is taken to need, `observed` what it was seen to need, if `known`;
    `observations` counts those since `settle`. Of the `open` prompts `waiting` are streams without a first token.
    `due` is when all that was given should be done by the schedule; the `wait` of a worker with `open` prompts is never
    less than what is left until then. `placed` is what was sent there lately, in caches full of uncached tokens; the
    scheduler adds to it, a policy that reads it lets it fade.
    """

    __slots__ = (
        "_end",
        "_late",
        "_latest",
        "_pending",
        "_seconds",
        "_tokens",
        "_unseen",
        "_weight",
        "_x",
        "_xx",
        "_xy",
        "_y",
        "due",
        "known",
        "observations",
        "observed",
        "open",
        "placed",
        "seconds_per_token",
        "waiting",
    )

    def __init__(self) -> None:
        self.seconds_per_token = SECONDS_PER_TOKEN
        self.observed = SECONDS_PER_TOKEN
        self.known = False
        self.observations = NEVER_SETTLED
        self.open = 0
        self.placed = 0.0
        self.waiting = 0
        # The end of the schedule as it was drawn up, and by how much it is late; `due` is their sum.
        self._end = 0.0
        self._late = 0.0
        self.due = 0.0
        # Effective tokens without a first token yet: of streams, and of answers that come as a whole.
        self._pending = 0.0
        self._unseen = 0.0
        # What has been prefilled since the last observation, in how much time, and when it was done.
        self._tokens = 0.0
        self._seconds = 0.0
        self._latest = 0.0
        self._weight = self._x = self._y = self._xx = self._xy = 0.0

    def wait(self, now: float) -> float:
        """Seconds until a prompt that came now would begin to be prefilled.

        A worker that should be done and is not may lack memory or be stuck: it is taken to have all that is pending
        before it, and to stay for as long again as it is late.
        """
        wait = self.due - now
        if wait < 0.0:
            wait = self._pending * self.seconds_per_token - wait if self.waiting else 0.0
        if self.open > self.waiting:
            wait += _UNSEEN * self._unseen * self.seconds_per_token
        return wait

    def expect(self, uncached: int, matched: int, clock: Callable[[], float], *, streamed: bool) -> Expectation:
        """Put a prompt at the end of the schedule. Only if the answer is `streamed`, its first byte tells anything.

        An answer that has but one token counts as streamed.
        """
        now = clock()
        tokens = effective_tokens(uncached, matched)
        seconds = tokens * self.seconds_per_token
        begin = now - self._late
        if self._end > begin:
            begin = self._end
        self._end = end = begin + seconds
        self.due = end + self._late
        self.open += 1
        if streamed:
            self.waiting += 1
            self._pending += tokens
        else:
            self._unseen += tokens
        return Expectation(self, clock, now, tokens, seconds, end, streamed)

    def settle(self, typical: float) -> None:
        """Believe the `typical` seconds per token of the fleet unless those observed here are clearly others."""
        self.observations = 0
        ratio = self.observed / typical if self._weight >= _OWN else 1.0
        if 1 / _ALIKE < ratio < _ALIKE:
            ratio = 1.0
        self.seconds_per_token = typical * max(1 / _UNLIKE, min(_UNLIKE, ratio))

    def done(self, tokens: float, end: float, asked_at: float, now: float) -> None:
        """The first token of a stream: what was asked at that time, and to be done at `end` of the schedule, is done.

        The worker has been busy with it since it was asked or, if that was later, since the first token before.
        """
        self.open -= 1
        self.waiting -= 1
        self._pending -= tokens
        self._tokens += tokens
        self._seconds += now - (self._latest if self._latest > asked_at else asked_at)
        self._latest = now
        if not self.waiting or self._tokens > _STRETCH:
            self.learn(self._tokens, self._seconds)
            self._tokens = self._seconds = 0.0
        self._late = now - end
        self.due = self._end + self._late

    def dropped(self, tokens: float, seconds: float, *, streamed: bool) -> None:
        """Something on the schedule will not be done, or nobody saw when it was: then it took no `seconds` off."""
        self.open -= 1
        if streamed:
            self.waiting -= 1
            self._pending -= tokens
        else:
            self._unseen -= tokens
        self._end -= seconds
        self.due -= seconds

    def learn(self, tokens: float, seconds: float) -> None:
        """So many effective tokens took so many seconds."""
        if tokens <= 0.0 or seconds <= 0.0:
            return
        kept = _KEPT
        if self._weight > _TRUSTED:
            constant = max(0.0, self._y - self._x * self.observed) / self._weight
            most = _SURPRISE * (constant + tokens * self.observed)
            if seconds > most:
                seconds = most
                kept = _KEPT_SURPRISED
        self._weight = weight = kept * self._weight + 1.0
        self._x = x = kept * self._x + tokens
        self._y = y = kept * self._y + seconds
        self._xx = xx = kept * self._xx + tokens * tokens
        self._xy = xy = kept * self._xy + tokens * seconds
        slope = ratio = y / x
        variance = weight * xx - x * x
        if variance > _SPREAD * x * x:
            slope = min(ratio, max(ratio / _STEEPEST, (weight * xy - x * y) / variance))
        self.observed = slope
        self.observations = self.observations + 1 if self.known else NEVER_SETTLED
        self.known = True


class Expectation:
    """One prompt on the schedule of a worker. Its lease says once how it went: `met` or `void`."""

    __slots__ = ("_asked_at", "_clock", "_end", "_pace", "_seconds", "_streamed", "_tokens")

    def __init__(
        self,
        pace: Pace,
        clock: Callable[[], float],
        asked_at: float,
        tokens: float,
        seconds: float,
        end: float,
        streamed: bool,
    ) -> None:
        self._pace = pace
        self._clock = clock
        self._asked_at = asked_at
        self._tokens = tokens
        self._seconds = seconds
        self._end = end
        self._streamed = streamed

    def met(self) -> None:
        """The first byte of the answer has come."""
        if self._streamed:
            self._pace.done(self._tokens, self._end, self._asked_at, self._clock())
        else:
            self._pace.dropped(self._tokens, 0.0, streamed=False)

    def void(self) -> None:
        """The request ended without an answer."""
        self._pace.dropped(self._tokens, self._seconds, streamed=self._streamed)
