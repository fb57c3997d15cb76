"""The ledger: the only place where loads change, and the proof that they are right.

Every open lease has an entry with the amounts that it took and the very Load that it raised. Closing subtracts those
amounts from that Load: nothing is recomputed, looked up by name or clamped, so a removed worker's load runs down to
zero like any other. `audit` adds up the entries and compares.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from msgspec import Struct

from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.lease import Lease
from warmroute.scheduling.prefix_index import PrefixIndex
from warmroute.scheduling.worker import Load, Role, Worker

_STACK_DEPTH = 8
_OWN_FILES = (__file__, str(Path(__file__).with_name("scheduler.py")))


class Entry(Struct, gc=False, eq=False):  # a struct, as one is made for every request: it refers to no lease
    """What one open lease holds at this moment. For the ledger and its leases only."""

    serial: int
    worker: Worker
    role: Role
    load: Load
    prefill_tokens: int
    active_tokens: int


@dataclass(frozen=True, slots=True)
class Audit:
    """What a check of the books found; `problems` names every difference."""

    problems: tuple[str, ...] = ()

    @property
    def consistent(self) -> bool:
        """Whether every load equals what the open leases add up to."""
        return not self.problems


class Ledger:
    """All open leases of one router.

    With `keep_stacks` every lease remembers the stack that opened it, so that a lost one can be traced (for debugging:
    it costs more than the decision itself).
    """

    def __init__(self, *, keep_stacks: bool = False) -> None:
        self.lost_leases = 0
        """Leases that were collected while open."""
        self._keep_stacks = keep_stacks
        self._serials = count(1)
        self._entries: dict[int, Entry] = {}
        self._workers: dict[Worker, None] = {}

    @property
    def open_leases(self) -> int:
        """Leases open now."""
        return len(self._entries)

    def leases_open(self, role: Role) -> int:
        """Leases open now on workers of one role (the one that they had when the lease was opened)."""
        return sum(entry.role == role for entry in self._entries.copy().values())

    def open(
        self,
        worker: Worker,
        prompt: Prompt,
        matched_tokens: int,
        policy: str = "",
        index: PrefixIndex | None = None,
        *,
        prefills: bool = True,
    ) -> Lease:
        """Count a request in. For the scheduler; `index` is told how it went, if given.

        Without `prefills` the worker gets the prompt prefilled elsewhere and takes no pending prefill.
        """
        load, tally = worker.load, worker.tally
        tokens = prompt.tokens
        uncached = tokens - matched_tokens
        pending = 0
        if prefills:
            pending = uncached
            load.pending_prefill_tokens += uncached
            tally.prompt_tokens += tokens
            tally.matched_tokens += matched_tokens
        load.running_requests += 1
        load.active_tokens += tokens
        tally.requests += 1
        serial = next(self._serials)
        entry = self._entries[serial] = Entry(serial, worker, worker.role, load, pending, tokens)
        if not worker.departed:
            self._workers[worker] = None
        lease = Lease(self, entry, index, serial, worker, prompt, matched_tokens, uncached, policy)
        if self._keep_stacks:
            stack = [frame for frame in traceback.extract_stack() if frame.filename not in _OWN_FILES]
            lease.opened_at = "".join(traceback.format_list(stack[-_STACK_DEPTH:]))
        return lease

    def close(self, entry: Entry) -> None:
        """Count a request out: lower the load by all that is held. For leases, which call it once."""
        del self._entries[entry.serial]
        load = entry.load
        load.running_requests -= 1
        load.active_tokens -= entry.active_tokens
        load.pending_prefill_tokens -= entry.prefill_tokens

    def forget(self, worker: Worker) -> None:
        """Stop listing a worker, unless and as long as leases on it are open. Its load is not touched."""
        self._workers.pop(worker, None)

    def workers(self) -> Iterator[Worker]:
        """Every worker that has been given work and is not forgotten, or still holds a lease."""
        return iter({**self._workers, **{entry.worker: None for entry in self._entries.copy().values()}})

    def audit(self) -> Audit:
        """Compare every load and count with the sums over the open leases."""
        while True:
            lost = self.lost_leases
            problems = tuple(self._differences())
            # A lease that was collected in between has changed the books under our hands: look again.
            if lost == self.lost_leases:
                return Audit(problems)

    def _differences(self) -> Iterator[str]:
        entries = list(self._entries.copy().values())
        running = Counter(entry.worker for entry in entries)
        prefill: Counter[Worker] = Counter()
        active: Counter[Worker] = Counter()
        for entry in entries:
            prefill[entry.worker] += entry.prefill_tokens
            active[entry.worker] += entry.active_tokens
        for worker in self.workers():
            load = worker.load
            for name, held, counted in (
                ("running_requests", running[worker], load.running_requests),
                ("pending_prefill_tokens", prefill[worker], load.pending_prefill_tokens),
                ("active_tokens", active[worker], load.active_tokens),
            ):
                if held != counted:
                    yield f"{worker.id}: {name} is {counted}, open leases hold {held}"
