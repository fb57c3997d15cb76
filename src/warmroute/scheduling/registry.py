"""Policies by name: our own are found in their package, those of other packages by entry point.

Nothing is kept: every question is answered from the package and the installed metadata, which is cheap enough for
start-up and leaves no state between two routers of one process. A package of somebody else that is broken fails only
when its policy is asked for.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from warmroute.config.tree import SchedulerConfig
from warmroute.scheduling import policies
from warmroute.scheduling.errors import UnknownPolicy, UnusablePolicy
from warmroute.scheduling.policy import NAME_MARK, REPORTS_MARK, NamedPolicy, takes_turns

ENTRY_POINT_GROUP = "warmroute.policies"
_OWN = "warmroute"


def policy_names() -> list[str]:
    """The names of all policies that are installed, sorted. Loads no code of other packages."""
    return sorted({*_own_policies(), *(entry.name for entry in entry_points(group=ENTRY_POINT_GROUP))})


def policy_options(name: str) -> set[str]:
    """The fields of SchedulerConfig that this policy reads. Raises UnknownPolicy or UnusablePolicy."""
    target, _ = _find(name)
    return {option.name for option in _fields_of(target)} & SchedulerConfig.model_fields.keys()


def create_policy(name: str, options: SchedulerConfig) -> NamedPolicy:
    """A new policy with its options filled in. Raises UnknownPolicy or UnusablePolicy."""
    target, package = _find(name)
    choose = _construct(name, package, target, options) if inspect.isclass(target) else target
    _require_signature(name, package, choose)
    return NamedPolicy(name, choose, bool(getattr(target, REPORTS_MARK, False)), takes_turns(choose))


def _find(name: str) -> tuple[Any, str]:
    own = _own_policies()
    if name in own:
        return own[name], _OWN
    entries = list(entry_points(group=ENTRY_POINT_GROUP, name=name))
    if not entries:
        raise UnknownPolicy(name, policy_names())
    if len(entries) > 1:
        raise UnusablePolicy(name, ", ".join(map(_package_of, entries)), "is ambiguous: keep one of these packages")
    return _load(entries[0]), _package_of(entries[0])


def _own_policies() -> dict[str, Callable[..., Any]]:
    return {getattr(target, NAME_MARK): target for target in _marked_objects()}


def _marked_objects() -> Iterator[Callable[..., Any]]:
    for info in pkgutil.iter_modules(policies.__path__, f"{policies.__name__}."):
        module = importlib.import_module(info.name)
        for target in vars(module).values():
            # A policy that builds on another imports it; it is listed once, where it is defined.
            if hasattr(target, NAME_MARK) and getattr(target, "__module__", None) == info.name:
                yield target


def _package_of(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist else entry.value


def _load(entry: EntryPoint) -> Any:
    try:
        target = entry.load()
    except Exception as error:  # whatever importing foreign code may raise
        raise UnusablePolicy(
            entry.name, _package_of(entry), f"cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    if not callable(target):
        raise UnusablePolicy(entry.name, _package_of(entry), f"is not callable: {entry.value}")
    return target


def _fields_of(target: Any) -> tuple[Field[Any], ...]:
    return tuple(field for field in fields(target) if field.init) if is_dataclass(target) else ()


def _construct(name: str, package: str, target: type, options: SchedulerConfig) -> Callable[..., Any]:
    values = {}
    for field in _fields_of(target):
        if field.name in SchedulerConfig.model_fields:
            values[field.name] = getattr(options, field.name)
        elif field.default is MISSING and field.default_factory is MISSING:
            raise UnusablePolicy(name, package, f"has an option {field.name!r} that the configuration does not know")
    try:
        made = target(**values)
    except Exception as error:  # whatever a foreign constructor may raise
        raise UnusablePolicy(name, package, f"cannot be made: {type(error).__name__}: {error}") from error
    if not callable(made):
        raise UnusablePolicy(name, package, f"is not callable: {target.__qualname__} has no __call__")
    return made  # type: ignore[no-any-return]


def _require_signature(name: str, package: str, choose: Callable[..., Any]) -> None:
    expected = "(candidates, prompt, rng) -> candidate"
    if inspect.iscoroutinefunction(choose) or inspect.iscoroutinefunction(type(choose).__call__):
        raise UnusablePolicy(name, package, f"must be a plain function {expected}, not a coroutine function")
    try:
        inspect.signature(choose).bind(None, None, None)
    except (TypeError, ValueError) as error:
        raise UnusablePolicy(name, package, f"must be callable as {expected}: {error}") from error
