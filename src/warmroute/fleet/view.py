"""What may be asked of a fleet: who is there, who can get a request, with whom. It changes nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from warmroute.config import Config
from warmroute.engines.dialect import Dialect
from warmroute.engines.peer import Peer
from warmroute.fleet.address import parse_address
from warmroute.fleet.errors import UnknownWorker
from warmroute.fleet.member import Member
from warmroute.fleet.models import ModelObject, merge_models
from warmroute.fleet.roster import Roster
from warmroute.scheduling.worker import Pool, Role, Worker

_NOBODY = Pool("decode")


class FleetView:
    """Answers from memory, without any wait."""

    def __init__(self, config: Config, roster: Roster) -> None:
        self._config = config
        self._roster = roster
        # Each request asks these: bound to where the answer is, they cost no call of their own.
        self.pool = roster.pools.pool
        """The workers that may get a request for a role and a model. A dictionary look-up unless something changed."""
        self.pairs = roster.pools.pairs
        """The prefill and decode workers that can serve a request for a model together. Cached like `pool`."""

    @property
    def members(self) -> Collection[Member]:
        """Every known worker, in the order in which they came."""
        return self._roster.members.values()

    def workers(self) -> list[Worker]:
        """The scheduler's records of all members."""
        return [member.worker for member in self.members]

    def get(self, worker: str) -> Member | None:
        """The member with this id or URL, or None."""
        key = worker_id(worker)
        return None if key is None else self._roster.members.get(key)

    def decode_alone(self, model: str | None) -> Pool:
        """The decode workers that may serve without a prefill worker: their engine can, and it is not forbidden."""
        if self._config.scheduler.pd_decode_alone == "never":
            return _NOBODY
        return self._roster.pools.decode_alone(model)

    def dialect(self, worker: Worker) -> Dialect | None:
        """How the engine of a member is spoken to; None while that is not known, and for who is no member."""
        member = self._roster.of(worker)
        return None if member is None else member.dialect

    def is_routable(self, worker: Worker) -> bool:
        """Whether a worker is a member that may get requests, whatever its breaker says."""
        member = self._roster.of(worker)
        return member is not None and member.routable and member.stuck_since is None

    def handshake(self, prefill: Worker, decode: Worker) -> tuple[Dialect, Peer, Peer]:
        """What it takes to hand a request over between the two workers of a pair.

        Raises UnknownWorker if one of them has left since the pair was chosen, or is unknown to have a dialect.
        """
        members = self._roster.members
        first, second = members.get(prefill.id), members.get(decode.id)
        if first is None or first.worker is not prefill or first.dialect is None:
            raise UnknownWorker(prefill.id)
        if second is None or second.worker is not decode:
            raise UnknownWorker(decode.id)
        return first.dialect, first.peer, second.peer

    def knows_model(self, role: Role, model: str | None) -> bool:
        """False only if lists of models are known and none has this one."""
        return self._roster.pools.knows_model(role, model)

    def models(self) -> list[ModelObject]:
        """The model objects of all routable workers, as the engines wrote them; the first of an id wins."""
        return merge_models(member.models or () for member in self.members if member.routable)

    def can_serve(self) -> bool:
        """Whether a request could be routed now: with splitwise, that takes a pair, or a decode worker that may serve
        alone.
        """
        if not self._config.server.splitwise:
            return bool(self.pool("mixed", None).candidates)
        return bool(self.pairs(None).prefill.candidates or self.decode_alone(None).candidates)

    def breakers(self) -> Iterator[tuple[Role, str, str, int]]:
        """Role, id, state and number of openings of each member's breaker."""
        for member in self.members:
            breaker = member.breaker
            yield member.role, member.id, breaker.state.value, breaker.openings

    def worker_metrics(self) -> dict[str, dict[str, float]]:
        """By URL: what each engine last reported, or the router's own count where no report is fresh."""
        return {member.url: _figures(member) for member in self.members}


def worker_id(worker: str) -> str | None:
    """The id that a name stands for, itself an id or a URL; None when it is neither."""
    try:
        return parse_address(worker).id
    except ValueError:
        return None


def _figures(member: Member) -> dict[str, float]:
    report = member.worker.report
    return {
        "num_requests_running": member.running if report is None else report.running_requests,
        "num_requests_waiting": 0 if report is None else report.waiting_requests,
        "available_gpu_block_num": 0 if report is None else report.free_kv_blocks or 0,
    }
