"""The mark that makes a policy, and the name that is shown for one."""

from __future__ import annotations

from random import Random

from tests.support.pools import make_worker, rows

from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.policies.cache_aware import CacheAware
from warmroute.scheduling.policies.random_choice import random_choice
from warmroute.scheduling.policy import NamedPolicy, policy, policy_label


def test_the_mark_leaves_the_function_as_it_is():
    def first(candidates, prompt, rng):
        return candidates[0]

    assert policy("first", reads_reports=True)(first) is first
    assert (first.policy_name, first.reads_reports) == ("first", True)


def test_a_named_policy_chooses_as_the_one_it_names():
    candidates = rows([make_worker("a"), make_worker("b")])
    named = NamedPolicy("last", lambda candidates, prompt, rng: candidates[-1])
    assert named(candidates, Prompt(), Random(0)) is candidates[-1]


def test_labels():
    class Unmarked:
        def __call__(self, candidates, prompt, rng):
            return candidates[0]

    assert policy_label(NamedPolicy("configured", random_choice)) == "configured"
    assert policy_label(random_choice) == "random"
    assert policy_label(CacheAware()) == "cache_aware"
    assert policy_label(lambda candidates, prompt, rng: candidates[0]) == "<lambda>"
    assert policy_label(Unmarked()) == "Unmarked"
