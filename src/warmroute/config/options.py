"""The option tree as a flat table: for each field its YAML key, its flag, its variable and its kind of value."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import SequenceMatcher
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from warmroute.config.tree import Config, FileDefault, FlagAlias, FlagName, Secret

ENVIRONMENT_PREFIX = "WARMROUTE_"
CONFIG_PATH = "config-path"
SIMILAR = 0.6
"""From which ratio of difflib on a name is worth suggesting: its own default."""

Kind = Literal["text", "whole number", "number", "true/false", "list"]
_KINDS: dict[object, Kind] = {str: "text", int: "whole number", float: "number", bool: "true/false", tuple: "list"}
_Mark = TypeVar("_Mark")


@dataclass(frozen=True, slots=True)
class Option:
    """One option. `field` is its name in the section's class, `key` its YAML key, `flag` its flag without dashes.

    `alias` is a second name of the flag, empty for none. The value of a `secret` one is never shown.
    """

    section: str
    field: str
    key: str
    flag: str
    alias: str
    kind: Kind
    choices: tuple[str, ...]
    default: Any
    file_default: str | None
    description: str
    secret: bool = False

    @property
    def path(self) -> str:
        """The option as messages name it: `section.key`."""
        return f"{self.section}.{self.key}"

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return ENVIRONMENT_PREFIX + self.flag.replace("-", "_").upper()


@dataclass(frozen=True, slots=True)
class Section:
    """One section of the tree with its options, in the order in which they are declared."""

    name: str
    description: str
    options: tuple[Option, ...]


def sections() -> tuple[Section, ...]:
    """The whole tree, derived from `Config`."""
    return tuple(_section(name, field) for name, field in Config.model_fields.items())


def all_options() -> tuple[Option, ...]:
    """Every option of the tree."""
    return tuple(option for section in sections() for option in section.options)


def kebab(name: str) -> str:
    """A key or flag in the one spelling that is compared: `-` and `_` are the same."""
    return name.replace("_", "-")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like `name`, None if none is like it.

    What all names of a kind begin with (dashes, a variable's prefix) does not count. The last part of a dotted name
    decides whether it is alike, the section only which of several it is.
    """

    def likeness(candidate: str) -> tuple[float, float]:
        last = SequenceMatcher(None, _last_part(name), _last_part(candidate)).ratio()
        return last, last + SequenceMatcher(None, name, candidate).ratio()

    alike = [candidate for candidate in sorted(known) if likeness(candidate)[0] >= SIMILAR]
    # Sorted, so that a tie gives the same answer every time.
    return max(alike, key=lambda candidate: likeness(candidate)[1], default=None)


def hint(name: str, known: Iterable[str]) -> str:
    """What a message about an unknown name ends with: ` (nearest known: ...)`, or nothing."""
    found = nearest(name, known)
    return f" (nearest known: {found})" if found else ""


def _last_part(name: str) -> str:
    bare = name.partition("=")[0].removeprefix(ENVIRONMENT_PREFIX).lstrip("-")
    return bare.rpartition(".")[2].lower()


def _section(name: str, field: FieldInfo) -> Section:
    model = field.annotation
    assert isinstance(model, type) and issubclass(model, BaseModel)  # noqa: S101, PT018
    options = tuple(_option(name, key, info) for key, info in model.model_fields.items())
    return Section(name, (model.__doc__ or "").strip(), options)


def _option(section: str, name: str, field: FieldInfo) -> Option:
    key = kebab(name)
    flag_name = _mark(field, FlagName)
    alias = _mark(field, FlagAlias)
    file_default = _mark(field, FileDefault)
    kind, choices = _kind(field.annotation)
    return Option(
        section=section,
        field=name,
        key=key,
        flag=flag_name.name if flag_name else key,
        alias=alias.name if alias else "",
        kind=kind,
        choices=choices,
        default=field.default,
        file_default=file_default.value if file_default else None,
        description=field.description or "",
        secret=_mark(field, Secret) is not None,
    )


def _mark(field: FieldInfo, kind: type[_Mark]) -> _Mark | None:
    return next((mark for mark in field.metadata if isinstance(mark, kind)), None)


def _kind(annotation: object) -> tuple[Kind, tuple[str, ...]]:
    origin = get_origin(annotation)
    if origin is Literal:
        return "text", tuple(choice for choice in get_args(annotation) if choice)
    if origin in (Union, UnionType):
        (inner,) = (part for part in get_args(annotation) if part is not type(None))
        return _kind(inner)
    return _KINDS[origin or annotation], ()
