"""The option tree on the command line: its flags, and the one way from flags and variables to a checked `Config`."""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from warmroute.cli import checks
from warmroute.cli.parser import VERSION, parse
from warmroute.config.implied import implications
from warmroute.config.load import ConfigError, load
from warmroute.config.options import CONFIG_PATH, Option, all_options, sections
from warmroute.config.reference import default_text
from warmroute.config.secrets import read_key_files
from warmroute.config.sources import Setting, config_path_variable
from warmroute.config.tree import Config


@dataclass(frozen=True, slots=True)
class Effective:
    """A configuration that passed every check.

    `notes` are for the log, one line each; `settings` tells where the values that are not defaults come from.
    `config_path` is the file, empty if there is none.
    """

    config: Config
    notes: tuple[str, ...]
    settings: Mapping[str, Setting]
    config_path: str = ""


def add_settings(parser: ArgumentParser) -> None:
    """A flag for each option, grouped by section, `--config_path` and the version."""
    parser.add_argument("-V", "--version", action="version", version=VERSION, help="print the version and exit")
    parser.add_argument(
        "--config-path",
        default="",
        metavar="FILE",
        help=f"YAML file; its keys are these flags by section [env: {config_path_variable()}]",
    )
    parser.set_defaults(unknown_arguments=[])
    parser.usage = "%(prog)s [flags]"
    parser.epilog = _EPILOG
    for section in sections():
        group = parser.add_argument_group(section.name, section.description)
        for option in section.options:
            _add_flag(group.add_argument, option)


def effective_config(argv: Sequence[str], environ: Mapping[str, str], *, serving: bool = False) -> Effective:
    """What `warmroute serve ARGV` would run with. Raises ConfigError, or UsageError for a flag without its value."""
    return load_settings(parse("warmroute serve", "", add_settings, argv), environ, serving=serving)


def load_settings(args: Namespace, environ: Mapping[str, str], *, serving: bool = False) -> Effective:
    """Read all sources and check what they say together. Raises ConfigError with every problem at once.

    `serving` also asks for what only a running router needs: a port.
    """
    flags = {option.flag: getattr(args, option.flag.replace("-", "_")) for option in all_options()}
    loaded = load(environ, {**flags, CONFIG_PATH: args.config_path}, args.unknown_arguments)
    implied = implications(loaded)
    settings = implied.settings
    config, key_problems = read_key_files(checks.find_files(implied.config, loaded.config_path), settings)
    found = checks.policies(config, settings)
    problems = [
        *loaded.problems,
        *implied.problems,
        *found.problems,
        *checks.tokenizer(config, settings),
        *checks.access_log(config, settings),
        *key_problems,
    ]
    problems += checks.certificates(config, settings)
    problems += checks.key_limits(config, settings)
    if not implied.problems:
        problems += checks.workers(config)
    for remark in checks.to_serve(config, settings):
        (problems if serving else found.notes).append(remark)
    if problems:
        raise ConfigError(problems)
    return Effective(config, tuple(found.notes), settings, loaded.config_path)


def _add_flag(add: Callable[..., object], option: Option) -> None:
    # Values stay text here: the tree is what reads them, whatever source they come from.
    flag = f"--{option.flag}"
    help_text = f"{option.description} [default: {default_text(option)}] [env: {option.variable}]".replace("%", "%%")
    if option.kind == "true/false":
        add(flag, nargs="?", const="true", metavar="true|false", help=help_text)
        _add_hidden_forms(add, option)
    elif option.kind == "list":
        add(flag, nargs="+", action="extend", metavar="VALUE", help=help_text)
    else:
        metavar = "{" + ",".join(option.choices) + "}" if option.choices else _METAVARS[option.kind]
        add(flag, metavar=metavar, help=help_text)


def _add_hidden_forms(add: Callable[..., object], option: Option) -> None:
    dest = option.flag.replace("-", "_")
    if option.alias:
        add(f"--{option.alias}", dest=dest, nargs="?", const="true", help=SUPPRESS)
    for name in filter(None, (option.flag, option.alias)):
        add(f"--no-{name}", dest=dest, action="store_const", const="false", help=SUPPRESS)


_EPILOG = """Each flag is also a key of the YAML file and an environment variable; the later of default, file,
variable and flag wins. `-` and `_` are the same in flags, and `--no-FLAG` is `--FLAG=false`.
Lists: repeat the flag, or separate with commas."""
_METAVARS = {"text": "TEXT", "whole number": "N", "number": "X"}
