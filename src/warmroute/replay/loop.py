"""The loop of a replay: a heap of events, the router's own scheduler, and one Engine for each worker.

A session's turn arrives, the scheduler opens a lease on a worker, the worker's engine takes the job. The first token
and the end go to the lease as the gateway would tell it; the session's next turn follows after its think time. With
prefill and decode engines a pair of leases is opened: the decode engine takes the request when its prompt is computed,
makes room, and waits for the transfer.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from math import inf
from random import Random

from warmroute.config.tree import SchedulerConfig
from warmroute.prompts.ladder import BYTES_PER_TOKEN, Ladder
from warmroute.replay.engine import Engine
from warmroute.replay.fleet import Fleet
from warmroute.replay.job import Job
from warmroute.replay.request import Request, Served
from warmroute.replay.rival import Learner, Rival, View
from warmroute.replay.trace import Session, Trace
from warmroute.scheduling.answers import learn
from warmroute.scheduling.lease import Lease, Outcome
from warmroute.scheduling.ledger import Ledger
from warmroute.scheduling.pairs import PairLease, PairPool
from warmroute.scheduling.policy import NamedPolicy, Policy, bare, policy_label
from warmroute.scheduling.prefix_index import PrefixIndex
from warmroute.scheduling.registry import create_policy
from warmroute.scheduling.scheduler import Scheduler
from warmroute.scheduling.worker import EngineReport, Pool, Worker

AnyPolicy = str | Policy | Rival
"""A name, a policy, or what makes one for each run."""

_POLL_SECONDS = 1.0
"""How old the engines' own figures can be that policies see, as in the router."""
_ENDS_PER_REPORT = 64


class Loop:
    """The state of one run."""

    def __init__(
        self, fleet: Fleet, options: SchedulerConfig, policy: AnyPolicy, decode_policy: AnyPolicy | None, seed: int
    ) -> None:
        block = options.cache_block_size
        self.ladder = Ladder.default() if block is None else Ladder.fixed(block * BYTES_PER_TOKEN)
        self.now = 0.0
        self.ended: list[Served] = []
        self.engines = [Engine(model, fleet.cache_tokens) for model in fleet.models()]
        roles = fleet.roles
        self.workers = [
            Worker(f"{role}-{number}", f"http://{role}-{number}", role, fleet.cache_tokens)
            for number, role in enumerate(roles)
        ]
        for worker in self.workers:
            worker.tells_prefill = fleet.tells_prefill
        self._number = {worker: at for at, worker in enumerate(self.workers)}
        self._view = View(dict(zip(self.workers, self.engines, strict=True)))
        first, first_name = self._make(policy, options)
        second, _ = self._make(decode_policy or options.decode_policy, options)
        self.policy_name = first_name
        self._scheduler = Scheduler(
            {"mixed": first, "prefill": first, "decode": second},
            PrefixIndex(self.ladder, options.index_max_bytes, options.eviction_duration_mins * 60),
            Ledger(),
            rng=Random(f"{seed} policy"),
            clock=lambda: self.now,
        )
        self._learns = fleet.tells_cached
        self._sweep_seconds = options.eviction_interval_secs
        self._pool, self._pairs = _pools(self.workers)
        inner = bare(first)
        self._learner = inner if isinstance(inner, Learner) else None
        self._polls = any(isinstance(one, NamedPolicy) and one.reads_reports for one in (first, second))
        self._events: list[tuple[float, int, Callable[[], None] | Engine]] = []
        self._serials = count()

    def _make(self, policy: AnyPolicy, options: SchedulerConfig) -> tuple[Policy, str]:
        if isinstance(policy, str):
            return create_policy(policy, options), policy
        if isinstance(policy, Rival):
            return policy.make(self._view), policy.name
        return policy, policy_label(policy)

    def play(self, trace: Trace, starts: list[float], progress: Callable[[int], None] | None) -> None:
        """Let everything happen, sessions from their starts on."""
        for start, session in zip(starts, trace.sessions, strict=True):
            self._arrives_at(start, session, 0)
        next_poll = next_sweep = 0.0
        told = 0
        events = self._events
        while events:
            self.now, _, what = heappop(events)
            if self._polls and self.now >= next_poll:
                self._poll()
                next_poll = self.now + _POLL_SECONDS
            if self._sweep_seconds and self.now >= next_sweep:
                self._scheduler.index.sweep(self.now)
                next_sweep = self.now + self._sweep_seconds
            if not isinstance(what, Engine):
                what()
            elif what.due == self.now:  # else the step has been cut short since
                what.end_step(self.now)
                self._after(what)
            if progress is not None and len(self.ended) - told >= _ENDS_PER_REPORT:
                told = len(self.ended)
                progress(told)
        if progress is not None:
            progress(len(self.ended))

    def _at(self, moment: float, what: Callable[[], None] | Engine) -> None:
        heappush(self._events, (moment, next(self._serials), what))

    def _arrives_at(self, moment: float, session: Session, position: int) -> None:
        self._at(moment, lambda: self._arrive(session, position))

    def _arrive(self, session: Session, position: int) -> None:
        request = Request(session, position, self.now)
        turn = request.turn
        view = self._view
        view.now, view.turn = self.now, turn
        if self._pairs is None:
            lease = request.lease = self._scheduler.select(turn.prompt, self._pool)
            request.worker = self._number[lease.worker]
            engines = [self.engines[request.worker]]
        else:
            pair = request.lease = self._scheduler.select_pair(turn.prompt, self._pairs)
            request.worker = self._number[pair.prefill.worker]
            engines = [self.engines[request.worker], self.engines[self._number[pair.decode.worker]]]
        if not all(engine.fits(turn) for engine in engines):
            self._finish(request, refused=True)
            return
        job = Job(request, turn, keeps=self._pairs is not None)
        overhead = engines[0].model.overhead
        if overhead:
            self._at(self.now + overhead, lambda: self._submit(engines[0], job))
        else:
            self._submit(engines[0], job)

    def _submit(self, engine: Engine, job: Job) -> None:
        before = engine.due
        engine.submit(job, self.now)
        self._after(engine, before)

    def _after(self, engine: Engine, due_before: float = -1.0) -> None:
        """Tell leases and sessions what an engine has done, and when to ask it again."""
        if engine.due != due_before and engine.due < inf:
            self._at(engine.due, engine)
        if engine.first_tokens:
            jobs, engine.first_tokens = engine.first_tokens, []
            for job in jobs:
                self._first_token(engine, job)
        if engine.ended:
            jobs, engine.ended = engine.ended, []
            for job in jobs:
                if not job.keeps:
                    self._finish(job.request)
        if engine.pulling:
            jobs, engine.pulling = engine.pulling, []
            for job in jobs:
                self._pull(engine, job)

    def _first_token(self, engine: Engine, job: Job) -> None:
        request = job.request
        if not job.pulls:
            request.cached_tokens = job.cached_tokens
        lease = request.lease
        if lease is None:
            return
        if job.keeps:
            if isinstance(lease, PairLease) and lease.prefill.worker.tells_prefill:
                lease.prefill.release(Outcome.SERVED)
            decoding = Job(request, job.turn, pulls=True)
            decoding.source = job
            self._submit(self.engines[self._number[lease.worker]], decoding)
            return
        request.first_token = self.now
        lease.first_token()
        if self._learner is not None:
            worker = self.workers[request.worker]
            uncached = lease.prompt.tokens - lease.matched_tokens
            self._learner.first_token(worker, lease.prompt, uncached, self.now - request.arrival)

    def _pull(self, engine: Engine, job: Job) -> None:
        def received() -> None:
            before = engine.due
            engine.received(job, self.now)
            self._after(engine, before)
            if job.source is not None:
                source = self.engines[job.request.worker]
                before = source.due
                source.let_go(job.source, self.now)
                self._after(source, before)

        self._at(self.now + engine.model.transfer_seconds(job.left), received)

    def _finish(self, request: Request, *, refused: bool = False) -> None:
        lease = request.lease
        if lease is None:
            return
        self.ended.append(
            Served(
                request.arrival,
                request.first_token,
                self.now,
                request.worker,
                request.turn.prompt_tokens,
                request.cached_tokens,
                lease.matched_tokens,
                request.turn.output_tokens,
                refused,
            )
        )
        if self._learns and isinstance(lease, Lease) and not refused:
            learn(lease, request.turn.prompt_tokens, request.cached_tokens, self._scheduler.index)
        lease.release(Outcome.FAILED if refused else Outcome.SERVED)
        request.lease = None
        following = request.position + 1
        if following < len(request.session.turns):
            think = request.session.turns[following].think
            self._arrives_at(self.now + think, request.session, following)

    def _poll(self) -> None:
        for worker, engine in zip(self.workers, self.engines, strict=True):
            worker.report = EngineReport(engine.running, len(engine.waiting), engine.free_blocks)


def _pools(workers: list[Worker]) -> tuple[Pool, PairPool | None]:
    if workers[0].role == "mixed":
        return Pool("mixed", [worker.candidate for worker in workers]), None
    prefill = Pool("prefill", [worker.candidate for worker in workers if worker.role == "prefill"])
    decode = Pool("decode", [worker.candidate for worker in workers if worker.role == "decode"])
    return prefill, PairPool(prefill, decode, {row.worker: decode for row in prefill.candidates})
