"""What every rival owes a comparison: a choice among its candidates, and no memory shared between two runs."""

from __future__ import annotations

import inspect
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.pools import make_worker, rows

from warmroute.prompts.prompt import Prompt
from warmroute.rivals import RIVALS
from warmroute.scheduling.policy import policy_label
from warmroute.scheduling.registry import policy_names

every_rival = pytest.mark.parametrize("name", sorted(RIVALS))

FLEETS = st.lists(
    st.builds(make_worker, running=st.integers(0, 99), pending=st.integers(0, 5000), matched=st.integers(0, 900)),
    min_size=1,
    max_size=6,
)


@every_rival
@given(fleet=FLEETS, tokens=st.integers(900, 4000), seed=st.integers(0, 99), count=st.integers(1, 4))
@settings(max_examples=25, deadline=None, database=None)
def test_picks_one_of_its_candidates_whatever_changes(name: str, fleet: list, tokens: int, seed: int, count: int):
    for number, worker in enumerate(fleet):
        worker.id = f"w{number}"
    rival, rng = RIVALS[name](), Random(seed)
    for size in (len(fleet), count):
        candidates = rows(fleet[:size])
        assert rival(candidates, Prompt(tokens=tokens, fingerprint=(seed,)), rng) in candidates


@every_rival
def test_two_of_a_kind_share_nothing(name: str):
    fleet = rows([make_worker(f"w{n}") for n in range(5)])

    def choices() -> list[str]:
        rival, rng = RIVALS[name](), Random(3)
        return [rival(fleet, Prompt(tokens=50), rng).worker.id for _ in range(40)]

    assert choices() == choices()


@every_rival
def test_names_its_source(name: str):
    rival = RIVALS[name]()
    text = inspect.getdoc(inspect.getmodule(rival if inspect.isfunction(rival) else type(rival))) or ""
    assert text.startswith(f"{policy_label(rival)}: ")
    assert name.startswith(policy_label(rival))


def test_none_can_be_configured_for_serving():
    assert not RIVALS.keys() & set(policy_names())
