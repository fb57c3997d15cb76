"""Which prefill worker can hand over to which decode worker. Pure.

Of a thousand workers most are alike, so they are compared by kind: workers are of one kind if they differ in nothing
but their addresses. Of addresses, a dialect may ask one thing only: whether both workers are on one host.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from itertools import product
from operator import attrgetter

from warmroute.engines.peer import Peer
from warmroute.fleet.member import Member
from warmroute.scheduling.pairs import PairPool
from warmroute.scheduling.worker import Pool, Worker

_ADDRESSES = frozenset(
    ("url", "host", "port", "connector_port", "engine_worker_queue_port", "device_ids", "rdma_ports"),
)
_decisive = attrgetter(*(field.name for field in fields(Peer) if field.name not in _ADDRESSES))
_ELSEWHERE = "elsewhere"
_MAX_REASONS = 3

Kind = Hashable


def pair_up(prefills: Sequence[Member], decodes: Sequence[Member]) -> PairPool:
    """The pairs among routable workers, each of which speaks a known dialect, in the order in which they came."""
    kinds = _one_of_each(decodes)
    numbers = {kind: number for number, kind in enumerate(kinds)}
    partners = [(numbers[kind_of(member)], member.peer.host, member.worker.candidate) for member in decodes]
    rows: dict[Kind, tuple[tuple[bool, ...], tuple[bool, ...]]] = {}
    pools: dict[Hashable, Pool] = {}
    compatible: dict[Worker, Pool] = {}
    for prefill in prefills:
        kind = kind_of(prefill)
        if kind not in rows:
            rows[kind] = _verdicts(prefill, kinds.values(), True), _verdicts(prefill, kinds.values(), False)
        here, elsewhere = rows[kind]
        # Workers with the same verdicts share a pool; where it matters who is on the same host, those of one host.
        key = (here, elsewhere, prefill.peer.host if here != elsewhere else "")
        if key not in pools:
            host = prefill.peer.host
            accepted = [row for number, at, row in partners if (here if at == host else elsewhere)[number]]
            pools[key] = Pool("decode", accepted)
        if pools[key].candidates:
            compatible[prefill.worker] = pools[key]
    return PairPool(
        prefill=Pool("prefill", [member.worker.candidate for member in prefills if member.worker in compatible]),
        decode=Pool("decode", [member.worker.candidate for member in decodes]),
        compatible=compatible,
        near=_nearness(prefills, decodes, compatible),
        why_none="" if compatible else _reasons(prefills, decodes),
    )


def kind_of(member: Member) -> Kind:
    """All that decides on a worker's pairs, save its host."""
    name = member.dialect.name if member.dialect else ""
    return name, _decisive(member.peer), member.model_ids


def why_not(prefill: Member, decode: Member, decode_peer: Peer | None = None) -> str | None:
    """Why these two cannot work together, in words for an operator; None when they can."""
    first, second = prefill.dialect, decode.dialect
    if first is None or second is None or first.name != second.name:
        return f"prefill is {first.name if first else 'unknown'} and decode is {second.name if second else 'unknown'}"
    if prefill.model_ids and decode.model_ids and prefill.model_ids.isdisjoint(decode.model_ids):
        return "prefill and decode list no model in common"
    return first.why_not(prefill.peer, decode_peer or decode.peer)


def _one_of_each(members: Iterable[Member]) -> dict[Kind, Member]:
    found: dict[Kind, Member] = {}
    for member in members:
        found.setdefault(kind_of(member), member)
    return found


def _verdicts(prefill: Member, decodes: Iterable[Member], same_host: bool) -> tuple[bool, ...]:
    """Whether the worker could pair with each of these, were they on its host, or were they not."""
    host = prefill.peer.host if same_host else _ELSEWHERE
    return tuple(why_not(prefill, decode, replace(decode.peer, host=host)) is None for decode in decodes)


def _nearness(
    prefills: Iterable[Member], decodes: Iterable[Member], compatible: Mapping[Worker, Pool]
) -> Callable[[Worker], frozenset[Worker]]:
    """Whom a prefill worker is near to, worked out when it is first asked for: some of those on its own host."""
    by_host: dict[str, list[Member]] = {}
    for member in decodes:
        by_host.setdefault(member.peer.host, []).append(member)
    by_worker = {member.worker: (member.dialect, member.peer) for member in prefills}
    known: dict[Worker, frozenset[Worker]] = {}

    def near(prefill: Worker) -> frozenset[Worker]:
        found = known.get(prefill)
        if found is None:
            dialect, peer = by_worker[prefill]
            pool = compatible.get(prefill)
            found = known[prefill] = frozenset(
                member.worker
                for member in by_host.get(peer.host, ())
                if dialect and pool and member.worker.candidate in pool.members and dialect.is_near(peer, member.peer)
            )
        return found

    return near


def _reasons(prefills: Sequence[Member], decodes: Sequence[Member]) -> str:
    """The first few different reasons why there is no pair; empty when it is for want of workers."""
    reasons: dict[str, None] = {}
    for prefill, decode in product(_one_of_each(prefills).values(), _one_of_each(decodes).values()):
        reason = why_not(prefill, decode)
        if reason is not None:
            reasons[reason] = None
        if len(reasons) == _MAX_REASONS:
            break
    return "; ".join(reasons)
