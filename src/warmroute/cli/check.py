"""Print the effective configuration as YAML, or everything that is wrong with it.

Takes the flags of `warmroute serve`, and the port may be missing. Exit code 0, or 2 when there is an error.
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace

from warmroute.cli.settings import add_settings, load_settings
from warmroute.config.load import ConfigError
from warmroute.config.render import as_yaml


def add_arguments(parser: ArgumentParser) -> None:
    """Every option of the tree, and the version."""
    add_settings(parser)


def run(args: Namespace) -> int:
    """Print the configuration to stdout, notes and errors to stderr, one line each."""
    try:
        loaded = load_settings(args, os.environ)
    except ConfigError as error:
        for problem in error.problems:
            print(f"error: {problem}", file=sys.stderr)
        return 2
    for note in loaded.notes:
        print(f"note: {note}", file=sys.stderr)
    print(as_yaml(loaded.config, loaded.settings), end="")
    return 0
