"""What settings say without being told: naming prefill or decode workers asks for splitwise, a policy is for all roles.

An implied setting names the place of the one that implies it, so that `warmroute check` shows where it comes from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pydantic import BaseModel

from warmroute.config.load import Loaded
from warmroute.config.options import all_options
from warmroute.config.sources import Setting, Source
from warmroute.config.tree import Config

_PAIRED = ("manager.prefill", "manager.decode")
_MIXED = "manager.worker"
_SPLITWISE = "server.splitwise"
_POLICY = "scheduler.policy"
_ROLE_POLICIES = ("scheduler.prefill-policy", "scheduler.decode-policy")
_PRECEDENCE = list(Source)


@dataclass(frozen=True, slots=True)
class Implied:
    """A configuration with all that is implied, where its values come from, and what contradicts itself."""

    config: Config
    settings: Mapping[str, Setting]
    problems: tuple[str, ...] = ()


def implications(loaded: Loaded) -> Implied:
    """Add what the given settings imply; the sources' precedence holds here as well. Never raises for bad input."""
    given = loaded.settings
    named = [given[path] for path in _PAIRED if path in given]
    problems = list(_contradictions(named, given, loaded.config.server.splitwise))
    implied = {}
    if named and not loaded.config.server.splitwise and not problems:
        implied[_SPLITWISE] = _implied(_SPLITWISE, True, named[0])
    if (implied or loaded.config.server.splitwise) and _is_explicit(given.get(_POLICY)):
        for path in _ROLE_POLICIES:
            if not _is_explicit(given.get(path)):
                implied[path] = _implied(path, loaded.config.scheduler.policy, given[_POLICY])
    return Implied(_changed(loaded.config, implied), {**given, **implied}, tuple(problems))


def _contradictions(named: list[Setting], given: Mapping[str, Setting], splitwise: bool) -> list[str]:
    if not named:
        return []
    problems = []
    if _MIXED in given:
        problems.append(
            f"{given[_MIXED].label} cannot stand beside {named[0].label}: "
            "with prefill and decode workers there are no mixed ones"
        )
    refusal = given.get(_SPLITWISE)
    later = max(_PRECEDENCE.index(setting.source) for setting in named)
    if refusal and not splitwise and _is_no(refusal.value) and _PRECEDENCE.index(refusal.source) >= later:
        problems.append(f"{named[0].label} needs splitwise, but {refusal.label} is false")
    return problems


def _is_no(value: object) -> bool:
    """Whether a value of a true/false option says no; one that cannot be read says nothing."""
    return str(value).strip().lower() in ("false", "0", "no", "off", "n", "f")


def _is_explicit(setting: Setting | None) -> bool:
    return setting is not None and setting.source is not Source.FILE_DEFAULT


def _implied(path: str, value: object, by: Setting) -> Setting:
    option = next(option for option in all_options() if option.path == path)
    return replace(by, option=option, value=value)


def _changed(config: Config, settings: Mapping[str, Setting]) -> Config:
    for setting in settings.values():
        section: BaseModel = getattr(config, setting.option.section)
        section = section.model_copy(update={setting.option.field: setting.value})
        config = config.model_copy(update={setting.option.section: section})
    return config
