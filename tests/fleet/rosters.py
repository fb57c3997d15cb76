"""A roster with a clock that stands still, and what it told its surroundings."""

from collections import Counter

from warmroute.engines import Vitals
from warmroute.fleet.address import parse_address
from warmroute.fleet.instance import InstanceInfo
from warmroute.fleet.member import Member
from warmroute.fleet.roster import Roster, RosterRules
from warmroute.fleet.states import State
from warmroute.scheduling.worker import EngineReport, Role, Worker


class Surroundings:
    """Clock, forgotten workers and number of changes."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.forgotten: list[Worker] = []
        self.changes = 0
        self.waiting: Counter[Worker] = Counter()

    def roster(self, **rules: int) -> Roster:
        return Roster(RosterRules(**rules), self.forgotten.append, lambda: self.now, self._changed)

    def listen(self, roster: Roster) -> list[Member]:
        """One look for silent workers."""
        return roster.listen(self.waiting.__getitem__)

    def _changed(self) -> None:
        self.changes += 1


def instance(url: str = "a:1", role: Role = "mixed", *, is_paused: bool = False) -> InstanceInfo:
    address = parse_address(url)
    return InstanceInfo(role, address, metrics_port=address.port, is_paused=is_paused)


def healthy(roster: Roster, url: str = "a:1", role: Role = "mixed", models: tuple[str, ...] | None = None) -> Member:
    member = roster.add(instance(url, role), "registered", State.HEALTHY)
    if models is not None:
        roster.learn_models(member, tuple({"id": model} for model in models))
    return member


def vitals(running: float = 0, *, started_at: float = 1.0, kv_cache_tokens: int | None = None) -> Vitals:
    return Vitals("vllm", EngineReport(running, 0), kv_cache_tokens, started_at, work_done=0.0)


def routable(roster: Roster, role: Role = "mixed", model: str | None = None) -> list[str]:
    return [candidate.worker.id for candidate in roster.pools.pool(role, model).candidates]
