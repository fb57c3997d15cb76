"""What a witness hears is what the policy saw."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmroute.config.tree import SchedulerConfig
from warmroute.prompts.ladder import Ladder
from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.ledger import Ledger
from warmroute.scheduling.pairs import PairPool
from warmroute.scheduling.prefix_index import PrefixIndex
from warmroute.scheduling.registry import create_policy
from warmroute.scheduling.scheduler import NoWorker, Scheduler
from warmroute.scheduling.witness import Witness
from warmroute.scheduling.worker import ROLES, Pool, Worker


class Notes(Witness):
    def __init__(self):
        self.choices = []

    def chose(self, role, policy, candidates, chosen, scores):
        rows = [(row.worker.id, row.matched_tokens, row.load.running_requests) for row in candidates]
        self.choices.append((role, policy, rows, chosen.worker.id, list(scores)))


def scheduler(policy="cache_aware"):
    policies = {role: create_policy(policy, SchedulerConfig()) for role in ROLES}
    return Scheduler(policies, PrefixIndex(Ladder.default(), 10**7, 0), Ledger(), rng=Random(1), clock=lambda: 0.0)


def pool(role="mixed", count=3):
    return Pool(role, [Worker(f"{role}{n}:1", f"http://{role}{n}:1", role).candidate for n in range(count)])


def test_rows_show_matches_and_loads_before_the_request_is_counted():
    chooser, workers, notes = scheduler(), pool(), Notes()
    fingerprint = (11, 22, 33)
    first = chooser.select(Prompt(tokens=200, fingerprint=fingerprint), workers)
    first.first_token()
    chooser.select(Prompt(tokens=200, fingerprint=fingerprint, witness=notes), workers)
    ((role, policy, rows, chosen, scores),) = notes.choices
    assert (role, policy, chosen) == ("mixed", "cache_aware", first.worker.id)
    assert {row for row in rows if row[0] == chosen} == {(chosen, 192, 1)}
    assert {row[1:] for row in rows if row[0] != chosen} == {(0, 0)}
    assert sorted(scores) == [8 + 125, 200, 200]


def test_both_choices_of_a_pair_are_heard():
    prefill, decode, notes = pool("prefill"), pool("decode"), Notes()
    pairs = PairPool(prefill, decode, {row.worker: decode for row in prefill.candidates})
    lease = scheduler().select_pair(Prompt(tokens=200, witness=notes), pairs)
    assert [(role, chosen) for role, _, _, chosen, _ in notes.choices] == [
        ("prefill", lease.prefill.worker.id),
        ("decode", lease.decode.worker.id),
    ]


def test_nothing_is_heard_where_nobody_was_chosen():
    notes = Notes()
    with pytest.raises(NoWorker):
        scheduler().select(Prompt(tokens=1, witness=notes), Pool("mixed"))
    assert notes.choices == []


def test_a_policy_without_scores_has_none_and_one_whose_scores_fail_serves_all_the_same():
    notes = Notes()
    scheduler("round_robin").select(Prompt(tokens=1, witness=notes), pool())

    class Boastful:
        def __call__(self, candidates, prompt, rng):
            return candidates[0]

        def scores(self, candidates, prompt):
            raise RuntimeError("a bug")

    chooser = Scheduler(
        dict.fromkeys(ROLES, Boastful()),
        PrefixIndex(Ladder.default(), 0, 0),
        Ledger(),
        rng=Random(1),
        clock=lambda: 0.0,
    )
    chooser.select(Prompt(tokens=1, witness=notes), pool())
    assert [scores for *_, scores in notes.choices] == [[], []]


@pytest.mark.parametrize("name", ["cache_aware", "remote_cache_aware"])
@given(
    figures=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 5000), st.integers(0, 300)), min_size=1, max_size=8)
)
def test_the_choice_has_the_least_of_the_scores_that_are_told(name, figures):
    chooser, workers, notes = scheduler(name), pool(count=len(figures)), Notes()
    prompt = Prompt(tokens=300)
    for row, (running, pending, matched) in zip(workers.candidates, figures, strict=True):
        row.load.running_requests, row.load.pending_prefill_tokens, row.matched_tokens = running, pending, matched
    prompt.witness = notes
    chooser.select(prompt, workers)
    ((_, _, rows, chosen, scores),) = notes.choices
    assert scores[[row[0] for row in rows].index(chosen)] == min(scores)


@given(tokens=st.lists(st.integers(1, 40_000), min_size=1, max_size=8), count=st.integers(1, 4))
def test_scores_of_least_delay_are_told_before_the_request_is_counted(tokens, count):
    """On idle workers, what was sent where before is all that tells them apart."""
    chooser, workers, notes = scheduler("least_delay"), pool(count=count), Notes()
    for number in tokens:
        chooser.select(Prompt(tokens=number, stream=True, witness=notes), workers).first_token()
    for _, _, rows, chosen, scores in notes.choices:
        assert scores[[row[0] for row in rows].index(chosen)] <= min(scores) * (1 + 1e-9)
