"""The routable workers by role and model, and their pairs, ready to be looked up for every request.

Rules: a request goes to the workers that list its model; if nobody lists it, the whole role may answer. A worker that
is down or on hold still counts as listing its models, so that its requests wait for it (503) instead of hearing from
others that the model does not exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from warmroute.fleet.ejection import ejected
from warmroute.fleet.member import Member
from warmroute.fleet.pairing import pair_up
from warmroute.scheduling.pairs import PairPool
from warmroute.scheduling.worker import ROLES, Candidate, Pool, Role


class Pools:
    """Built at the first look-up after a change. Holds one pool per role and listed model, so that what clients ask
    for cannot make it grow.
    """

    def __init__(self, members: Mapping[str, Member]) -> None:
        self._members = members
        self._by_role: dict[Role, Pool] = {}
        self._by_model: dict[tuple[Role, str], Pool] = {}
        self._has_lists: set[Role] = set()
        # By the identity of the pools that they were made of, which live as long.
        self._pairs: dict[tuple[int, int], PairPool] = {}
        self._pairs_of: dict[str | None, PairPool] = {}  # by model, of those that are listed
        self._alone: dict[int, Pool] = {}
        self._is_fresh = False

    def invalidate(self) -> None:
        """Something changed: members, their states or their models."""
        self._is_fresh = False

    def pool(self, role: Role, model: str | None) -> Pool:
        """The candidates for a model, in the order in which the workers came."""
        if not self._is_fresh:
            self._build()
        if model is not None and (pool := self._by_model.get((role, model))) is not None:
            return pool
        return self._by_role[role]

    def knows_model(self, role: Role, model: str | None) -> bool:
        """False only if lists are known and the model is on none of them."""
        if not self._is_fresh:
            self._build()
        return model is None or (role, model) in self._by_model or role not in self._has_lists

    def pairs(self, model: str | None) -> PairPool:
        """The pairs for a model; made at the first look-up after a change."""
        if self._is_fresh and (known := self._pairs_of.get(model)) is not None:
            return known
        prefill, decode = self.pool("prefill", model), self.pool("decode", model)
        key = id(prefill), id(decode)
        pairs = self._pairs.get(key)
        if pairs is None:
            pairs = self._pairs[key] = pair_up(self._in(prefill), self._in(decode))
        if model is None or ("prefill", model) in self._by_model:
            self._pairs_of[model] = pairs
        return pairs

    def decode_alone(self, model: str | None) -> Pool:
        """The decode workers for a model whose engine needs no prefill worker."""
        decode = self.pool("decode", model)
        alone = self._alone.get(id(decode))
        if alone is None:
            members = [member for member in self._in(decode) if member.dialect and member.dialect.decodes_alone]
            alone = self._alone[id(decode)] = _pool("decode", members)
        return alone

    def _in(self, pool: Pool) -> list[Member]:
        return [self._members[candidate.worker.id] for candidate in pool.candidates]

    def _build(self) -> None:
        self._pairs, self._pairs_of, self._alone = {}, {}, {}
        self._by_model = {}
        self._has_lists = set()
        for role in ROLES:
            members = [member for member in self._members.values() if member.role == role]
            self._by_role[role] = _pool(role, members)
            listing: dict[str, list[Member]] = {}
            for member in members:
                if member.models is not None:
                    self._has_lists.add(role)
                for model in member.model_ids:
                    listing.setdefault(model, []).append(member)
            for model, listed_by in listing.items():
                self._by_model[role, model] = _pool(role, listed_by)
        self._is_fresh = True


def _pool(role: Role, members: Iterable[Member]) -> Pool:
    members = list(members)
    routable = [member for member in members if member.routable]
    if not routable:
        # One probe without an answer may be a busy moment; a second one in a row ends the doubt.
        routable = [member for member in members if member.health.is_doubted and member.is_allowed]
    out = ejected(routable)
    candidates: list[Candidate] = [member.worker.candidate for member in routable if member not in out]
    return Pool(role, candidates)
