"""Run the router until SIGTERM or SIGINT ends it. Needs a port; workers may be named here or register themselves."""

from __future__ import annotations

import logging
import os
import sys
from argparse import ArgumentParser, Namespace

from warmroute.cli.settings import add_settings, load_settings
from warmroute.config.load import ConfigError
from warmroute.telemetry.logs import configure_logging


def add_arguments(parser: ArgumentParser) -> None:
    """Every option of the tree, and the version."""
    add_settings(parser)


def run(args: Namespace) -> int:
    """Serve until a signal ends it. Exit code 2 and one line on stderr when the configuration cannot be used."""
    try:
        loaded = load_settings(args, os.environ, serving=True)
    except ConfigError as error:
        more = len(error.problems) - 1
        hint = f" ({more} more: `warmroute check` with the same flags tells all)" if more else ""
        print(f"warmroute serve: {error}{hint}", file=sys.stderr)
        return 2
    try:
        configure_logging(loaded.config.log)
    except OSError as error:
        print(f"warmroute serve: the log file cannot be opened ({error})", file=sys.stderr)
        return 2
    for note in loaded.notes:
        logging.getLogger(__name__).info(note)
    # Only now: a bad flag is told without loading the server.
    from warmroute import process

    return process.run(loaded.config, lambda: load_settings(args, os.environ, serving=True).config, loaded.config_path)
