"""What can go wrong in this room. A caller needs no more than this tree."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from warmroute.scheduling.worker import Role


class SchedulingError(Exception):
    """Base of all errors of the scheduling room."""


class NoWorker(SchedulingError):  # noqa: N818 - it states a fact about the pool, not a fault
    """The pool, less the excluded workers, is empty. Nothing was counted."""

    def __init__(self, role: Role, model: str | None = None) -> None:
        self.role = role
        self.model = model
        super().__init__(f"no {role} worker available" + (f" for model {model!r}" if model else ""))


class NoPair(SchedulingError):  # noqa: N818
    """No prefill worker is left with a decode worker that can take over from it. Nothing was counted."""

    def __init__(self, model: str | None = None, why: str = "") -> None:
        self.model = model
        self.why = why
        text = "no prefill/decode pair available" + (f" for model {model!r}" if model else "")
        super().__init__(f"{text}: {why}" if why else text)


class Full(SchedulingError):  # noqa: N818
    """There are workers, but each has as many requests as it may, or others wait already. Nothing was counted."""


class PolicyError(SchedulingError):
    """A policy raised, or returned something that is not among its candidates. Nothing was counted."""

    def __init__(self, policy: str, reason: str) -> None:
        self.policy = policy
        super().__init__(f"policy {policy!r} {reason}")


class UnknownPolicy(SchedulingError):  # noqa: N818
    """No policy has this name; the message tells the nearest one and all that exist."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name = name
        names = sorted(known)
        self.nearest = next(iter(get_close_matches(name, names, n=1, cutoff=0.6)), None)
        hint = f"; did you mean {self.nearest!r}?" if self.nearest else ""
        super().__init__(f"unknown policy {name!r}{hint} (known: {', '.join(names)})")


class UnusablePolicy(SchedulingError):  # noqa: N818
    """A package offers a policy of this name, but it cannot be loaded or is not a policy."""

    def __init__(self, name: str, package: str, reason: str) -> None:
        self.name = name
        self.package = package
        super().__init__(f"policy {name!r} of package {package!r} {reason}")
