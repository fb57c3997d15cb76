"""Where options come from. Each source gives settings and the problems found on the way; none judges a value.

An empty value (empty text, null) in any source is as if the option were not given there: FastDeploy's files write
`policy: ""` for "the default", and its launcher passes empty flags.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from warmroute.config.options import CONFIG_PATH, ENVIRONMENT_PREFIX, Option, hint, kebab
from warmroute.config.yaml_file import Entry, YamlError, read_tree


class Source(Enum):
    """The kinds of sources, in the order of precedence: the later wins."""

    FILE_DEFAULT = "default with a configuration file"
    FILE = "file"
    ENVIRONMENT = "environment"
    FLAG = "flag"


@dataclass(frozen=True, slots=True)
class Setting:
    """One option as one source gave it. `origin` is what messages call the place: `router.yaml:3`, `--port`."""

    option: Option
    value: object
    source: Source
    origin: str

    @property
    def label(self) -> str:
        """Place and option as messages begin with them; a flag or variable names the option itself."""
        return f"{self.origin}: {self.option.path}" if self.source is Source.FILE else self.origin


@dataclass(slots=True)
class Findings:
    """What a source gave."""

    settings: list[Setting] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def from_file(path: str, options: Sequence[Option]) -> Findings:
    """The settings of a YAML file with one mapping per section."""
    found = Findings()
    try:
        root = read_tree(path)
    except YamlError as error:
        found.problems.append(str(error))
        return found
    if root is None:
        return found
    if not root.is_mapping:
        found.problems.append(f"{path}: must hold sections such as `server:` and `scheduler:`")
        return found
    table = {option.path: option for option in options}
    names = {option.section for option in options}
    for entry in _unique(path, "", root.entries(), found):
        section = kebab(entry.key)
        if section not in names:
            found.problems.append(_unknown_section(f"{path}:{entry.line}", entry, names, table))
        elif entry.value.is_mapping:
            _read_section(path, section, entry, table, found)
        elif not _is_empty(entry.value.value()):
            found.problems.append(f"{path}:{entry.line}: section {section} must hold keys and values")
    return found


def from_environment(environ: Mapping[str, str], options: Sequence[Option]) -> Findings:
    """The settings in `WARMROUTE_*` variables."""
    found = Findings()
    table = {option.variable: option for option in options}
    for name in sorted(environ):
        if not name.startswith(ENVIRONMENT_PREFIX) or _is_service_link(name, environ):
            continue
        option = table.get(name)
        if option is not None:
            if not _is_empty(environ[name]):
                found.settings.append(Setting(option, environ[name], Source.ENVIRONMENT, name))
        elif name != config_path_variable():
            known = [*table, config_path_variable()]
            found.problems.append(_unknown("unknown environment variable", name, known))
    return found


def from_flags(given: Mapping[str, object], options: Sequence[Option]) -> Findings:
    """The settings given as flags; `given` maps a flag's name without its dashes to its text or list of texts."""
    found = Findings()
    for option in options:
        value = given.get(option.flag)
        if not _is_empty(value):
            found.settings.append(Setting(option, value, Source.FLAG, f"--{option.flag}"))
    return found


def unknown_flags(texts: Sequence[str], options: Sequence[Option]) -> list[str]:
    """A problem for each argument that no option took; the value after an unknown flag belongs to it."""
    known = [f"--{name}" for option in options for name in (option.flag, option.alias) if name] + [f"--{CONFIG_PATH}"]
    problems = []
    after_flag = False
    for text in texts:
        is_flag = text.startswith("-")
        if is_flag:
            problems.append(_unknown("unknown flag", text.partition("=")[0], known))
        elif not after_flag:
            problems.append(f"unexpected argument {text!r}")
        after_flag = is_flag
    return problems


def config_path_variable() -> str:
    """The environment variable that names the configuration file."""
    return ENVIRONMENT_PREFIX + CONFIG_PATH.replace("-", "_").upper()


def _read_section(path: str, section: str, place: Entry, table: Mapping[str, Option], found: Findings) -> None:
    for entry in _unique(path, f"{section}.", place.value.entries(), found):
        option = table.get(f"{section}.{kebab(entry.key)}")
        origin = f"{path}:{entry.line}"
        if option is None:
            found.problems.append(_unknown(f"{origin}: unknown key", f"{section}.{entry.key}", table))
            continue
        try:
            value = entry.value.value()
        except YamlError as error:
            found.problems.append(str(error))
            continue
        if not _is_empty(value):
            found.settings.append(Setting(option, value, Source.FILE, origin))


def _unique(path: str, prefix: str, entries: Iterable[Entry], found: Findings) -> Iterable[Entry]:
    seen: dict[str, int] = {}
    for entry in entries:
        key = kebab(entry.key)
        if key in seen:
            found.problems.append(f"{path}:{entry.line}: key {prefix}{entry.key} is given in line {seen[key]} already")
            continue
        seen[key] = entry.line
        yield entry


def _unknown_section(origin: str, entry: Entry, names: Iterable[str], table: Mapping[str, Option]) -> str:
    """A key at the top that is none: the name of a section was mistyped, or an option stands outside of its section."""
    if entry.value.is_mapping:
        known = ", ".join(dict.fromkeys(option.section for option in table.values()))
        return f"{origin}: unknown section {entry.key}{hint(kebab(entry.key), names) or f' (known: {known})'}"
    return _unknown(f"{origin}: unknown key", entry.key, {*names, *table})


def _unknown(what: str, name: str, known: Iterable[str]) -> str:
    return f"{what} {name}{hint(kebab(name) if '.' in name else name, known)}"


def _is_empty(value: object) -> bool:
    return value is None or value == "" or value == [] or value == {}


def _is_service_link(name: str, environ: Mapping[str, str]) -> bool:
    """Whether Kubernetes set the variable, as it does in every pod beside a Service named `warmroute`.

    Its manual has them under "Environment variables" of Services: {SVC}_SERVICE_HOST, {SVC}_PORT=tcp://..., and more.
    """
    rest = name.removeprefix(ENVIRONMENT_PREFIX)
    if f"{ENVIRONMENT_PREFIX}SERVICE_HOST" not in environ:
        return False
    if rest == "PORT":
        return re.match(r"(tcp|udp|sctp)://", environ[name]) is not None
    return re.fullmatch(r"SERVICE_(HOST|PORT(_\w+)?)|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?", rest) is not None
