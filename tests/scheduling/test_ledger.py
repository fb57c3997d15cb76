"""The ledger: the books, and the audit that finds what is wrong with them."""

from __future__ import annotations

import pytest
from tests.support.pools import make_worker

from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.lease import Outcome
from warmroute.scheduling.ledger import Ledger
from warmroute.scheduling.worker import Role, Worker


def load_of(worker: Worker) -> tuple[int, int, int]:
    load = worker.load
    return load.running_requests, load.pending_prefill_tokens, load.active_tokens


@pytest.mark.parametrize(("prefills", "pending"), [(True, 70), (False, 0)])
def test_a_lease_takes_what_its_worker_has_to_do(prefills: bool, pending: int):
    """The decode worker of a pair is given a prompt that was prefilled elsewhere."""
    role: Role = "decode"
    ledger, worker = Ledger(), make_worker(role=role)
    lease = ledger.open(worker, Prompt(tokens=100), 30, "some_policy", prefills=prefills)
    assert load_of(worker) == (1, pending, 100)
    assert (lease.matched_tokens, lease.uncached_tokens, lease.policy) == (30, 70, "some_policy")
    assert (ledger.open_leases, ledger.leases_open(role)) == (1, 1)
    lease.first_token()
    assert load_of(worker) == (1, 0, 100)
    lease.release(Outcome.SERVED)
    assert load_of(worker) == (0, 0, 0)
    assert (ledger.open_leases, ledger.leases_open(role)) == (0, 0)


@pytest.mark.parametrize(("prefills", "tokens"), [(True, (100, 30)), (False, (0, 0))])
def test_the_tally_of_a_worker_counts_prompts_where_they_are_computed(prefills: bool, tokens: tuple[int, int]):
    ledger, worker = Ledger(), make_worker()
    lease = ledger.open(worker, Prompt(tokens=100), 30, prefills=prefills)
    lease.release(Outcome.FAILED)
    assert (worker.tally.requests, worker.tally.prompt_tokens, worker.tally.matched_tokens) == (1, *tokens)


def test_a_lease_gives_back_what_it_took_even_if_the_prompt_changed_since():
    ledger, worker, prompt = Ledger(), make_worker(), Prompt(tokens=100)
    lease = ledger.open(worker, prompt, 30)
    prompt.tokens = 5
    lease.release(Outcome.FAILED)
    assert load_of(worker) == (0, 0, 0)


def test_a_forgotten_worker_is_listed_until_its_last_lease_is_back():
    ledger, worker = Ledger(), make_worker()
    assert list(ledger.workers()) == []
    lease = ledger.open(worker, Prompt(tokens=10), 0)
    ledger.forget(worker)
    assert list(ledger.workers()) == [worker]
    assert load_of(worker) == (1, 10, 10)
    lease.release(Outcome.SERVED)
    assert list(ledger.workers()) == []
    assert load_of(worker) == (0, 0, 0)


def test_a_known_worker_stays_listed_without_leases():
    ledger, worker = Ledger(), make_worker()
    ledger.open(worker, Prompt(tokens=10), 0).release(Outcome.SERVED)
    assert list(ledger.workers()) == [worker]


def test_a_successor_of_the_same_name_has_its_own_load():
    """A late release must not reach the record of the worker that came back under the same id."""
    ledger, old = Ledger(), make_worker("w")
    lease = ledger.open(old, Prompt(tokens=10), 0)
    ledger.forget(old)
    new = make_worker("w")
    second = ledger.open(new, Prompt(tokens=20), 0)
    lease.release(Outcome.FAILED)
    assert load_of(new) == (1, 20, 20)
    second.release(Outcome.SERVED)
    assert load_of(new) == load_of(old) == (0, 0, 0)


def test_the_audit_agrees_at_every_step():
    ledger, worker = Ledger(), make_worker()
    assert ledger.audit().consistent
    leases = [ledger.open(worker, Prompt(tokens=n), 0) for n in (5, 7)]
    assert ledger.audit().problems == ()
    leases[0].first_token()
    assert ledger.audit().consistent
    for lease in leases:
        lease.release(Outcome.SERVED)
        assert ledger.audit().consistent


@pytest.mark.parametrize("counter", ["running_requests", "pending_prefill_tokens", "active_tokens"])
@pytest.mark.parametrize("state", ["open", "closed", "forgotten"])
def test_the_audit_names_the_worker_and_the_counter_that_drifted(counter: str, state: str):
    ledger, worker = Ledger(), make_worker("w7")
    lease = ledger.open(worker, Prompt(tokens=10), 0)
    if state == "closed":
        lease.release(Outcome.SERVED)
    elif state == "forgotten":
        ledger.forget(worker)
    setattr(worker.load, counter, getattr(worker.load, counter) + 3)
    (problem,) = ledger.audit().problems
    assert problem.startswith(f"w7: {counter} is ")
    assert not ledger.audit().consistent
    lease.release(Outcome.SERVED)
