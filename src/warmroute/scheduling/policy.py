"""What a policy is: a plain callable that picks one of the candidates.

A policy reads rows and returns one of them. It knows no clock, no socket and no HTTP, and it changes nothing but its
own memory. With options it is a frozen dataclass with `__call__`, whose fields are named like the options in the
configuration; without options a function does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol, TypeVar

from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.worker import Candidate

NAME_MARK = "policy_name"
REPORTS_MARK = "reads_reports"
TURNS_MARK = "takes_turns"
PACED_MARK = "is_paced"
MATCHES_MARK = "reads_matches"

_Target = TypeVar("_Target", bound=Callable[..., Any])


class Policy(Protocol):
    """Choose one of `candidates` (never empty) for `prompt`; every random decision is taken from `rng`."""

    def __call__(self, candidates: Sequence[Candidate], prompt: Prompt, rng: Random, /) -> Candidate:
        """Return one of the candidates."""
        ...


@dataclass(frozen=True, slots=True)
class NamedPolicy:
    """A policy that is ready to use, with the name it is configured by.

    `reads_reports` tells that its choice depends on polled engine reports, so that somebody must feed them;
    `takes_turns` that workers with the same figures are no equals for it.
    """

    name: str
    choose: Policy
    reads_reports: bool = False
    takes_turns: bool = False

    def __call__(self, candidates: Sequence[Candidate], prompt: Prompt, rng: Random, /) -> Candidate:
        """Return the wrapped policy's choice."""
        return self.choose(candidates, prompt, rng)


def policy(
    name: str,
    *,
    reads_reports: bool = False,
    takes_turns: bool = False,
    paced: bool = False,
    reads_matches: bool = True,
) -> Callable[[_Target], _Target]:
    """Mark a function or a class of the policies package as the policy `name`. The registry finds it by the mark.

    A `paced` one reads each row's `pace`, so the scheduler keeps it, and hands its own clock to the attribute `clock`.
    One that does not read `matched_tokens` says so: what decode workers hold is then not kept for it.
    """

    def mark(target: _Target) -> _Target:
        setattr(target, NAME_MARK, name)
        setattr(target, REPORTS_MARK, reads_reports)
        setattr(target, TURNS_MARK, takes_turns)
        setattr(target, PACED_MARK, paced)
        setattr(target, MATCHES_MARK, reads_matches)
        return target

    return mark


def bare(choose: Policy) -> Policy:
    """What a NamedPolicy wraps; any other policy as it is."""
    return choose.choose if isinstance(choose, NamedPolicy) else choose


def policy_label(choose: Policy) -> str:
    """The name to show for any policy, also for one that did not come from the registry."""
    for attribute in ("name", NAME_MARK, "__name__"):
        label = getattr(choose, attribute, None)
        if isinstance(label, str):
            return label
    return type(choose).__name__


def takes_turns(choose: Policy) -> bool:
    """Whether a policy serves workers in turn, so that another one of equal load is not as good."""
    return bool(getattr(choose, TURNS_MARK, False))


def is_paced(choose: Policy) -> bool:
    """Whether a policy reads how fast workers prefill."""
    return bool(getattr(choose, PACED_MARK, False))


def reads_matches(choose: Policy) -> bool:
    """Whether a policy may look at what workers hold of a prompt; so it is unless it says otherwise."""
    return bool(getattr(choose, MATCHES_MARK, True))


def scores_of(choose: Policy, candidates: Sequence[Candidate], prompt: Prompt) -> Sequence[float]:
    """What a policy compares its candidates by, if it has a method `scores` that tells: the least wins.

    Empty if it has none, or if that fails: nobody's request shall, for an explanation.
    """
    scores = getattr(choose, "scores", None)
    if scores is None:
        return ()
    try:
        told = [float(score) for score in scores(candidates, prompt)]
    except Exception:  # whatever a policy of somebody else may raise
        return ()
    return told if len(told) == len(candidates) else ()
