"""The simulated engine itself, without clock or sockets: requests in, tokens out, all in engine seconds.

One request at a time is prefilled; those behind it wait, first come, first served. A request is admitted when the
prefill is free, fewer than `max_running` requests run, and the cache has room for its prompt and its whole answer: an
admitted request is never thrown out again. Its first answer token comes with the end of its prefill, the others from
the decode steps, which it joins when the step that is under way ends.

A request that receives the KV cache of its prompt from another engine needs no prefill; it is admitted in its turn,
with its blocks, and waits for `received`. One that was prefilled for another engine keeps its blocks until `let_go`.

What is cached counts at the start of the prefill. Prompt blocks become shareable when the prefill ends, blocks of the
answer when the request ends. As in vLLM the last prompt token is always computed, and the last answer token is not yet
in the cache.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from typing import NamedTuple

from warmroute.simulation.job import FinishReason, Job
from warmroute.simulation.kv_cache import Hold, KvCache
from warmroute.simulation.timing import Timing
from warmroute.simulation.tokens import TOKEN_BYTES, block_hashes


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
        self.received_tokens_total = 0
        self.finished_total: Counter[FinishReason] = Counter()
        self._prefill: _Prefill | None = None
        self._receiving: dict[Job, None] = {}
        self._kept: dict[Job, None] = {}
        self._decoding: dict[Job, None] = {}
        self._step: list[Job] = []
        self._step_end = math.inf
        self._touched: dict[Job, None] = {}

    @property
    def running(self) -> int:
        """Admitted requests: the one in prefill, those in decode, and those that receive."""
        return len(self._decoding) + len(self._receiving) + (self._prefill is not None)

    @property
    def kept(self) -> int:
        """Requests that have ended here and whose blocks wait for another engine."""
        return len(self._kept)

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
        job.blocks = block_hashes(job.context, self.cache.block_size, job.salt)
        self.waiting.append(job)
        self._admit(now)

    def abort(self, job: Job, now: float, reason: FinishReason = "abort") -> None:
        """End a job early; nothing happens when it has ended already."""
        self.advance(now)
        if job.finish_reason is not None:
            return
        if self._prefill is not None and job is self._prefill.job:
            self._prefill = None
        elif job in self._receiving:
            self._end_receiving(job)
        elif job not in self._decoding:
            self.waiting.remove(job)
        self._finish(job, reason)
        self._admit(now)

    def received(self, job: Job, now: float, *, with_word: bool) -> None:
        """The KV cache of a receiving job has come, `with_word`: the first token as well. Else nothing happens."""
        self.advance(now)
        if not job.receiving or job.hold is None:
            return
        self._end_receiving(job)
        self.received_tokens_total += job.context_tokens - job.cached_tokens
        self._begin_decoding(job, job.hold, now, with_word=with_word)

    def compute(self, job: Job, now: float) -> None:
        """The KV cache of a receiving job will not come: compute it here, before all that wait."""
        self.advance(now)
        if job.receiving:
            self._end_receiving(job)
            job.receives = False
            self.waiting.appendleft(job)
            self._admit(now)

    def let_go(self, job: Job, now: float) -> None:
        """Free the blocks of an ended job that kept them. May be called again."""
        self.advance(now)
        if job in self._kept and job.hold is not None:
            del self._kept[job]
            job.hold.release()
            self._admit(now)

    def jobs(self) -> list[Job]:
        """All jobs that have not ended, the running ones first."""
        prefilling = [self._prefill.job] if self._prefill else []
        return [*self._decoding, *self._receiving, *prefilling, *self.waiting]

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
        while self.waiting and self.running < self.max_running:
            job = self.waiting[0]
            if self._prefill is not None and not job.receives:
                return
            hold = job.hold or self._acquire(job)
            if hold is None:
                return
            self.waiting.popleft()
            if job.receives:
                job.receiving = True
                self._receiving[job] = None
                self._touched[job] = None
            else:
                end = now + self.timing.prefill_seconds(job.context_tokens - job.cached_tokens)
                self._prefill = _Prefill(job, hold, end)

    def _acquire(self, job: Job) -> Hold | None:
        reusable = (job.context_tokens - 1) // self.cache.block_size
        hold = self.cache.acquire(job.blocks[:reusable], self._blocks_needed(job))
        if hold is not None:
            job.hold = hold
            job.cached_tokens = hold.matched * self.cache.block_size
            self.prompt_tokens_total += job.context_tokens
            self.cached_tokens_total += job.cached_tokens
        return hold

    def _end_prefill(self, prefill: _Prefill) -> None:
        self._prefill = None
        self._begin_decoding(prefill.job, prefill.hold, prefill.end, with_word=True)

    def _end_receiving(self, job: Job) -> None:
        del self._receiving[job]
        job.receiving = False

    def _begin_decoding(self, job: Job, hold: Hold, now: float, *, with_word: bool) -> None:
        hold.commit(job.blocks[hold.matched :])
        self._decoding[job] = None
        if with_word:
            self._give_word(job)
        if not self._step:
            self._begin_step(now)
        self._admit(now)

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
            if job.keeps_kv and reason != "abort":
                self._kept[job] = None
                return
        job.hold.release()

    def _answer_blocks(self, job: Job) -> list[int]:
        whole = len(job.blocks) * self.cache.block_size * TOKEN_BYTES
        rest = (job.prompt + "".join(job.words[:-1]).encode("ascii"))[whole:]
        return block_hashes(rest, self.cache.block_size, job.blocks[-1] if job.blocks else job.salt)
