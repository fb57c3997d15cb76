"""Argument parsing as every command does it: `-` and `_` are the same in flags, and an error is one line."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import NoReturn

from warmroute import __version__
from warmroute.config.options import hint, kebab

VERSION = f"warmroute {__version__}"


class UsageError(ValueError):
    """The command line cannot be understood. The message is one line."""


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that takes no abbreviations and raises UsageError instead of printing its usage."""

    def __init__(self, prog: str, description: str) -> None:
        super().__init__(
            prog=prog,
            description=description,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    def error(self, message: str) -> NoReturn:
        """Raise UsageError."""
        raise UsageError(message)


def same_spelling(argv: Sequence[str]) -> list[str]:
    """The arguments with the names of long flags in kebab-case; values stay as they are."""
    spelled: list[str] = []
    for position, text in enumerate(argv):
        if text == "--":
            return [*spelled, *argv[position:]]
        name, equals, value = text.partition("=")
        spelled.append(kebab(name) + equals + value if text.startswith("--") else text)
    return spelled


def parse(
    prog: str, description: str, add_arguments: Callable[[argparse.ArgumentParser], None], argv: Sequence[str]
) -> argparse.Namespace:
    """A command's arguments. Unknown ones are its own to judge if it has an `unknown_arguments`, else UsageError."""
    parser = Parser(prog, description)
    add_arguments(parser)
    args, unknown = parser.parse_known_args(same_spelling(argv))
    if hasattr(args, "unknown_arguments"):
        args.unknown_arguments = unknown
    elif unknown:
        known = [flag for flag in parser._option_string_actions if flag.startswith("--")]
        parser.error(f"unknown argument {unknown[0]}{hint(unknown[0], known)}")
    return args
