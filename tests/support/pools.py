"""Workers, pools and schedulers for tests, with everything that varies handed in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random

from warmroute.prompts.ladder import Ladder
from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.ledger import Ledger
from warmroute.scheduling.policies.random_choice import random_choice
from warmroute.scheduling.policy import Policy
from warmroute.scheduling.prefix_index import PrefixIndex
from warmroute.scheduling.scheduler import Scheduler
from warmroute.scheduling.worker import Candidate, EngineReport, Pool, Role, Worker

# Blocks of 1, 1, 2 and 4 tokens, then of 8: small enough to see every bound with a handful of blocks.
SMALL_LADDER = Ladder((4, 8, 16, 32), 32)


def make_worker(
    name: str = "w",
    *,
    role: Role = "mixed",
    cache_tokens: int = 500_000,
    running: int = 0,
    pending: int = 0,
    matched: int = 0,
    report: EngineReport | None = None,
) -> Worker:
    """A worker whose row shows the given figures, as a policy would see them."""
    worker = Worker(name, f"http://{name}:8000", role, cache_tokens)
    worker.load.running_requests = running
    worker.load.pending_prefill_tokens = pending
    worker.candidate.matched_tokens = matched
    worker.report = report
    return worker


def pool_of(workers: Iterable[Worker], role: Role = "mixed") -> Pool:
    """The pool of these workers."""
    return Pool(role, tuple(worker.candidate for worker in workers))


def rows(workers: Iterable[Worker]) -> list[Candidate]:
    """What a policy gets for these workers."""
    return [worker.candidate for worker in workers]


def choices(policy: Policy, workers: Sequence[Worker], prompt: Prompt | None = None, times: int = 300) -> Counter[str]:
    """How often a policy picks each worker when nothing changes in between."""
    rng = Random(7)
    return Counter(policy(rows(workers), prompt or Prompt(tokens=100), rng).worker.id for _ in range(times))


def chain(blocks: Iterable[int] | str, seed: int = 0) -> list[int]:
    """A fingerprint: one chained 64-bit number per block, equal for equal prefixes only, and the same in every run."""
    fingerprint = []
    for block in map(ord, blocks) if isinstance(blocks, str) else blocks:
        seed = hash((seed, block)) & (2**64 - 1)
        fingerprint.append(seed)
    return fingerprint


def make_scheduler(
    policy: Policy | Mapping[Role, Policy] = random_choice,
    *,
    ladder: Ladder = SMALL_LADDER,
    max_bytes: int = 1 << 30,
    ttl_seconds: float = 0,
    clock: Callable[[], float] = lambda: 0.0,
    ledger: Ledger | None = None,
    seed: int = 7,
    learns_decode: bool = False,
) -> Scheduler:
    """A scheduler with one policy for every role, or with these."""
    return Scheduler(
        policy if isinstance(policy, Mapping) else {"mixed": policy, "prefill": policy, "decode": policy},
        PrefixIndex(ladder, max_bytes, ttl_seconds),
        ledger if ledger is not None else Ledger(),
        rng=Random(seed),
        clock=clock,
        learns_decode=learns_decode,
    )
