"""One replayed engine: continuous batching in steps, from one change to the next.

Requests are admitted first come, first served, when fewer than `max_running` run and the cache has room for the prompt
and its whole answer (so nothing is ever preempted). What is cached counts at admission; a prompt becomes shareable in
the step that computes its end, as in vLLM, the answer when the request ends. The last prompt token is always computed
and the last answer token never cached. Between changes of the batch, steps that only decode are taken as one.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from itertools import count
from math import inf

from warmroute.replay.cache import PathCache, shared_depth
from warmroute.replay.job import Job
from warmroute.replay.model import EngineModel
from warmroute.replay.trace import Turn

_REPORTED_BLOCK = 16


class Engine:
    """Advances its jobs. `due` is when the step under way ends, infinity when there is none.

    `first_tokens`, `ended` and `pulling` are what the last `end_step`, `submit` or `received` brought: jobs with their
    first token, jobs that are complete, and jobs that have room now for a KV cache from elsewhere. Whoever calls these
    methods reads and clears the lists.
    """

    def __init__(self, model: EngineModel, cache_tokens: int) -> None:
        self.model = model
        self.cache = PathCache(cache_tokens)
        self.due = inf
        self.busy_seconds = 0.0
        self.computed_tokens = 0
        self.waiting: deque[Job] = deque()
        self.pulling: list[Job] = []
        self.first_tokens: list[Job] = []
        self.ended: list[Job] = []
        self._prefilling: Job | None = None
        self._fresh: list[Job] = []
        self._joining: list[Job] = []
        self._receiving = 0
        # Decoding jobs by the step in which they end; `_step` counts the steps that are over.
        self._decoding: list[tuple[int, int, Job]] = []
        self._serials = count()
        self._step = 0
        self._steps = 0
        self._held = 0
        self._begun = 0.0
        self._no_room = False

    @property
    def running(self) -> int:
        """Requests that are admitted."""
        prefilling = len(self._fresh) + len(self._joining) + (self._prefilling is not None)
        return len(self._decoding) + self._receiving + prefilling

    @property
    def pending_tokens(self) -> int:
        """Prompt tokens still to be computed, given what is cached and what comes before in the queue."""
        left = 0
        ahead: list[Turn] = []
        if self._prefilling is not None:
            left = self._prefilling.left
            ahead.append(self._prefilling.turn)
        for job in self.waiting:
            if job.pulls:
                continue
            if job.expected < 0:
                job.expected = job.turn.prompt_tokens - self._foreseen(job.turn, ahead)
            left += job.expected
            ahead.append(job.turn)
        return left

    def foreseen_tokens(self, turn: Turn) -> int:
        """Tokens of a prompt that will be cached when its turn in the queue comes, if nothing is evicted."""
        ahead = [job.turn for job in self.waiting if not job.pulls]
        if self._prefilling is not None:
            ahead.append(self._prefilling.turn)
        return self._foreseen(turn, ahead)

    def _foreseen(self, turn: Turn, ahead: list[Turn]) -> int:
        blocks = turn.blocks
        depth = max((shared_depth(blocks, other.blocks) for other in ahead), default=0)
        return max(turn.ends[depth], self.cache.match(blocks, turn.ends))

    @property
    def is_computing(self) -> bool:
        """Whether the step under way computes a prompt, so that nothing can begin before its end."""
        return bool(self._fresh) or self._prefilling is not None

    @property
    def free_blocks(self) -> float:
        """Blocks of 16 tokens that no running request uses."""
        cache = self.cache
        return (cache.capacity - cache.pinned - cache.private) // _REPORTED_BLOCK

    def fits(self, turn: Turn) -> bool:
        """Whether a request can ever be admitted."""
        return turn.prompt_tokens + turn.output_tokens <= self.cache.capacity

    def submit(self, job: Job, now: float) -> None:
        """Take a request."""
        self.waiting.append(job)
        self._interrupt(now)

    def received(self, job: Job, now: float) -> None:
        """The KV cache of a pulling job is here: it decodes from the next step on."""
        self._receiving -= 1
        self._joining.append(job)
        self._publish(job)
        self._interrupt(now)

    def let_go(self, job: Job, now: float) -> None:
        """Free what a job kept for another engine."""
        self._free(job)
        if self.waiting:
            self._interrupt(now)

    def end_step(self, now: float) -> None:
        """The step that was `due` is over; begin the next one."""
        self.busy_seconds += now - self._begun
        self._held += len(self._decoding) * self._steps
        self._step += self._steps
        fresh, self._fresh = self._fresh, []
        decoding = self._decoding
        while decoding and decoding[0][0] <= self._step:
            self._end(heappop(decoding)[2])
        for job in fresh:
            self.first_tokens.append(job)
            if job.output_tokens == 1:
                self.ended.append(job)
                if not job.keeps:
                    self._answered(job)
                continue
            self._held += job.turn.prompt_tokens + 1
            heappush(decoding, (self._step + job.output_tokens - 1, next(self._serials), job))
        self._begin(now)

    def _interrupt(self, now: float) -> None:
        """Something new: begin a step if none is under way, or end decoding at the next step's end."""
        if self.due == inf:
            self._begin(now)
        elif self._steps > 1:
            steps = self.model.steps_begun(now - self._begun, len(self._decoding), self._held)
            if steps < self._steps:
                self._steps = steps
                self.due = self._begun + self.model.decode_steps(steps, len(self._decoding), self._held)

    def _begin(self, now: float) -> None:
        decoding = len(self._decoding)
        joining, self._joining = self._joining, []
        batch = decoding + len(joining)
        seconds, tokens = 0.0, 0
        if self._prefilling is not None or (self.waiting and not self._no_room):
            seconds, tokens = self._schedule_prompts(self.model.step_tokens - batch)
        self._fresh += joining
        self._steps = 1
        held = self._held
        for job in joining:
            held += job.turn.prompt_tokens
        model = self.model
        if tokens or joining:
            seconds += model.step + model.request * batch + model.context * held
        elif decoding:
            self._steps = self._decoding[0][0] - self._step
            seconds = model.decode_steps(self._steps, decoding, held)
        else:
            self.due = inf
            return
        self.computed_tokens += tokens
        self._begun = now
        self.due = now + seconds

    def _schedule_prompts(self, budget: int) -> tuple[float, int]:
        """Spend the step's budget on prompts: what that costs in seconds, and tokens."""
        tokens = 0
        pairs = 0.0
        while budget > 0:
            job = self._prefilling or self._admit()
            if job is None:
                break
            chunk = job.left if job.left < budget else budget
            pairs += chunk * (job.done + chunk / 2)
            tokens += chunk
            budget -= chunk
            job.done += chunk
            job.left -= chunk
            if job.left:
                self._prefilling = job
            else:
                self._prefilling = None
                self._publish(job)
                self._fresh.append(job)
        return tokens * self.model.prefill_token + pairs * self.model.attention, tokens

    def _admit(self) -> Job | None:
        """The next job that needs its prompt computed; those before it that pull begin to do so."""
        while self.waiting and not self._no_room and self.running < self.model.max_running:
            job = self.waiting[0]
            turn = job.turn
            hold = self.cache.acquire(turn.blocks, turn.ends, turn.prompt_tokens + job.output_tokens)
            if hold is None:
                self._no_room = True
                break
            self.waiting.popleft()
            job.hold = hold
            job.done = job.cached_tokens = min(hold.matched_tokens, turn.prompt_tokens - 1)
            job.left = turn.prompt_tokens - job.done
            if not job.pulls:
                return job
            self._receiving += 1
            self.pulling.append(job)
        return None

    def _publish(self, job: Job) -> None:
        if job.hold is not None:
            turn = job.turn
            self.cache.commit(job.hold, turn.blocks, turn.ends, len(turn.blocks))

    def _end(self, job: Job) -> None:
        self._held -= job.turn.prompt_tokens + job.output_tokens
        self.ended.append(job)
        self._answered(job)

    def _answered(self, job: Job) -> None:
        turn = job.turn
        if job.hold is not None:
            self.cache.commit(job.hold, turn.answered, turn.answered_ends, turn.answered_depth)
        self._free(job)

    def _free(self, job: Job) -> None:
        if job.hold is not None:
            self.cache.release(job.hold)
            job.hold = None
            self._no_room = False
