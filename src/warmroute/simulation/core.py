"""The simulated engine itself, without clock or sockets: requests in, tokens out, all in engine seconds.

One request at a time is prefilled; those behind it wait, first come, first served. A request is admitted when the
prefill is free, fewer than `max_running` requests run, and the cache has room for its prompt and its whole answer: an
admitted request is never thrown out again. Its first answer token comes with the end of its prefill, the others from
the decode steps, which it joins when the step that is under way ends.

What is cached counts at the start of the prefill. Prompt blocks become shareable when the prefill ends, blocks of the
answer when the request ends. As in vLLM the last prompt token is always computed, and the last answer token is not yet
in the cache.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable
from itertools import islice
from typing import Literal, NamedTuple

from xxhash import xxh3_64_intdigest

from warmroute.simulation.kv_cache import Hold, KvCache
from warmroute.simulation.timing import Timing
from warmroute.simulation.tokens import TOKEN_BYTES, answer_words, block_hashes

FinishReason = Literal["stop", "length", "abort"]


class Job:
    """One prompt on its way through the engine. The core writes it; the owner reads `words` and `finish_reason`.

    `salt` separates prefixes that must not share (0: none). `notify` is called when words were added or the job ended.
    """

    __slots__ = (
        "_next_words",
        "blocks",
        "cached_tokens",
        "finish_reason",
        "finishes_with",
        "hold",
        "max_tokens",
        "notify",
        "prompt",
        "salt",
        "words",
    )

    def __init__(
        self,
        prompt: bytes,
        max_tokens: int,
        *,
        finishes_with: FinishReason = "length",
        salt: int = 0,
        notify: Callable[[], None] = lambda: None,
    ) -> None:
        self.prompt = prompt
        self.max_tokens = max_tokens
        self.finishes_with = finishes_with
        self.salt = salt
        self.notify = notify
        self.blocks: list[int] = []
        self.hold: Hold | None = None
        self.words: list[str] = []
        self.cached_tokens = 0
        self.finish_reason: FinishReason | None = None
        self._next_words = answer_words(xxh3_64_intdigest(prompt))

    @property
    def prompt_tokens(self) -> int:
        """Length of the prompt."""
        return len(self.prompt) // TOKEN_BYTES

    def add_word(self) -> None:
        """Generate one more token."""
        self.words.extend(islice(self._next_words, 1))


class _Prefill(NamedTuple):
    job: Job
    hold: Hold
    end: float


class EngineCore:
    """Advances all jobs of one engine. Every method takes the present as `now`, which must not run backwards."""

    def __init__(self, timing: Timing, cache: KvCache, max_running: int) -> None:
        self.timing = timing
        self.cache = cache
        self.max_running = max_running
        self.waiting: deque[Job] = deque()
        self.prompt_tokens_total = 0
        self.cached_tokens_total = 0
        self.generated_tokens_total = 0
        self.finished_total: Counter[FinishReason] = Counter()
        self._prefill: _Prefill | None = None
        self._decoding: dict[Job, None] = {}
        self._step: list[Job] = []
        self._step_end = math.inf
        self._touched: dict[Job, None] = {}

    @property
    def running(self) -> int:
        """Admitted requests: the one in prefill and those in decode."""
        return len(self._decoding) + (self._prefill is not None)

    @property
    def next_due(self) -> float:
        """When something happens next; infinity when nothing will."""
        return self._step_end if self._prefill is None else min(self._prefill.end, self._step_end)

    def fits(self, job: Job) -> bool:
        """Whether the job could run on an empty engine. `submit` what does not fit, and it waits for ever."""
        return self._blocks_needed(job) <= self.cache.capacity

    def _blocks_needed(self, job: Job) -> int:
        return -(-(job.prompt_tokens + job.max_tokens) // self.cache.block_size)

    def submit(self, job: Job, now: float) -> None:
        """Put a job at the end of the queue."""
        self.advance(now)
        job.blocks = block_hashes(job.prompt, self.cache.block_size, job.salt)
        self.waiting.append(job)
        self._admit(now)

    def abort(self, job: Job, now: float) -> None:
        """End a job early; nothing happens when it has ended already."""
        self.advance(now)
        if job.finish_reason is not None:
            return
        if job.hold is None:
            self.waiting.remove(job)
        elif self._prefill is not None and job is self._prefill.job:
            self._prefill = None
        self._finish(job, "abort")
        self._admit(now)

    def jobs(self) -> list[Job]:
        """All jobs that have not ended, the running ones first."""
        prefilling = [self._prefill.job] if self._prefill else []
        return [*self._decoding, *prefilling, *self.waiting]

    def take_touched(self) -> list[Job]:
        """The jobs that got words or ended since the last call."""
        touched = list(self._touched)
        self._touched.clear()
        return touched

    def advance(self, now: float) -> None:
        """Let happen, in order, everything that is due by `now`."""
        while (due := self.next_due) <= now:
            if self._prefill is not None and self._prefill.end <= self._step_end:
                self._end_prefill(self._prefill)
            else:
                self._end_step(due)

    def _admit(self, now: float) -> None:
        if self._prefill is not None or not self.waiting or self.running >= self.max_running:
            return
        job = self.waiting[0]
        reusable = (job.prompt_tokens - 1) // self.cache.block_size
        hold = self.cache.acquire(job.blocks[:reusable], self._blocks_needed(job))
        if hold is None:
            return
        self.waiting.popleft()
        job.hold = hold
        job.cached_tokens = hold.matched * self.cache.block_size
        self.prompt_tokens_total += job.prompt_tokens
        self.cached_tokens_total += job.cached_tokens
        end = now + self.timing.prefill_seconds(job.prompt_tokens - job.cached_tokens)
        self._prefill = _Prefill(job, hold, end)

    def _end_prefill(self, prefill: _Prefill) -> None:
        self._prefill = None
        prefill.hold.commit(prefill.job.blocks[prefill.hold.matched :])
        self._decoding[prefill.job] = None
        self._give_word(prefill.job)
        if not self._step:
            self._begin_step(prefill.end)
        self._admit(prefill.end)

    def _begin_step(self, now: float) -> None:
        self._step = list(self._decoding)
        self._step_end = now + self.timing.step_seconds(len(self._step)) if self._step else math.inf

    def _end_step(self, now: float) -> None:
        for job in self._step:
            if job.finish_reason is None:
                self._give_word(job)
        self._begin_step(now)
        self._admit(now)

    def _give_word(self, job: Job) -> None:
        job.add_word()
        self.generated_tokens_total += 1
        self._touched[job] = None
        if len(job.words) >= job.max_tokens:
            self._finish(job, job.finishes_with)

    def _finish(self, job: Job, reason: FinishReason) -> None:
        job.finish_reason = reason
        self.finished_total[reason] += 1
        self._touched[job] = None
        if job.hold is None:
            return
        if job in self._decoding:
            del self._decoding[job]
            job.hold.commit(self._answer_blocks(job))
        job.hold.release()

    def _answer_blocks(self, job: Job) -> list[int]:
        whole = len(job.blocks) * self.cache.block_size * TOKEN_BYTES
        rest = job.prompt[whole:] + "".join(job.words[:-1]).encode("ascii")
        return block_hashes(rest, self.cache.block_size, job.blocks[-1] if job.blocks else job.salt)
