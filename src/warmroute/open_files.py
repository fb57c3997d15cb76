"""The limit of open files of this process, and how many are open."""

from __future__ import annotations

import logging
import os

logger = logging.getLogger(__name__)

_FEW = 16


def raise_file_limit() -> None:
    """Take all the open files that the system grants: a stream needs two, and most processes start with 1024."""
    try:
        import resource
    except ImportError:
        return  # Windows counts no such thing.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError) as error:  # macOS tells "unlimited" and grants less.
            logger.warning(
                "the limit of open files stays at %d: %s; raise it with ulimit -n or LimitNOFILE", soft, error
            )
            return
    logger.debug("at most %d open files", hard)


def file_limit() -> int:
    """How many files may be open; 0 if that is not limited."""
    try:
        import resource
    except ImportError:
        return 0
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 0 if soft == resource.RLIM_INFINITY else soft


def open_files() -> int:
    """How many files are open; a few where the system does not tell."""
    try:
        return len(os.listdir("/dev/fd"))
    except OSError:
        return _FEW
