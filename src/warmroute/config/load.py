"""From the sources to one `Config`: defaults, then the file, the environment and the flags; the later wins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from warmroute.config.options import CONFIG_PATH, Option, all_options
from warmroute.config.sources import (
    Findings,
    Setting,
    Source,
    config_path_variable,
    from_environment,
    from_file,
    from_flags,
    unknown_flags,
)
from warmroute.config.tree import Config


class ConfigError(ValueError):
    """The configuration cannot be used. `problems` holds every reason, one line each."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(problems[0])
        self.problems = tuple(problems)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration with where its values come from.

    `settings` holds the winning setting of each option that any source gave, by `section.key`. With problems,
    the options that could not be read have their defaults in `config`, so that later checks can go on.
    """

    config: Config
    settings: Mapping[str, Setting]
    config_path: str
    problems: tuple[str, ...] = ()


def load(environ: Mapping[str, str], flags: Mapping[str, object], unknown: Sequence[str] = ()) -> Loaded:
    """Read all sources. Bad input never raises: it is told in `problems`.

    `flags` maps flag names without dashes (`config-path` among them) to texts; `unknown` are left-over arguments.
    """
    options = all_options()
    path = str(flags.get(CONFIG_PATH) or environ.get(config_path_variable()) or "")
    sources = [Findings(problems=unknown_flags(unknown, options))]
    if path:
        sources += [_file_defaults(options), from_file(path, options)]
    sources += [from_environment(environ, options), from_flags(flags, options)]
    winning = {setting.option.path: setting for source in sources for setting in source.settings}
    problems = [problem for source in sources for problem in source.problems]
    config, bad = _validate(winning)
    return Loaded(config, winning, path, tuple(problems + bad))


def _file_defaults(options: Sequence[Option]) -> Findings:
    source = Source.FILE_DEFAULT
    return Findings(
        [Setting(option, option.file_default, source, source.value) for option in options if option.file_default]
    )


def _validate(settings: Mapping[str, Setting]) -> tuple[Config, list[str]]:
    try:
        return Config.model_validate(_tree(settings)), []
    except ValidationError as error:
        problems: dict[str, str] = {}
        for detail in error.errors(include_url=False):
            section, field = detail["loc"][:2]
            path = next(path for path, s in settings.items() if (s.option.section, s.option.field) == (section, field))
            problems.setdefault(path, f"{settings[path].label} {_reason(detail, settings[path])}")
    rest = {path: setting for path, setting in settings.items() if path not in problems}
    return Config.model_validate(_tree(rest)), list(problems.values())


def _tree(settings: Mapping[str, Setting]) -> dict[str, dict[str, object]]:
    tree: dict[str, dict[str, object]] = {}
    for setting in settings.values():
        tree.setdefault(setting.option.section, {})[setting.option.field] = setting.value
    return tree


def _reason(detail: Any, setting: Setting) -> str:
    """What pydantic says, without its preface and its reasons why; our own checks name the value themselves."""
    if detail["type"] == "value_error":
        return str(detail["ctx"]["error"])
    message = "must be a list" if detail["type"] == "tuple_type" else str(detail["msg"]).partition(", unable")[0]
    for theirs, ours in (
        ("Input should be", "must be"),
        ("String should", "must"),
        ("a valid boolean", "true or false"),
    ):
        message = message.replace(theirs, ours)
    if setting.option.secret:
        return message
    given = repr(setting.value)
    return f"{message}, not {given if len(given) <= 80 else given[:77] + '...'}"
