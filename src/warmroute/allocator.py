"""The C library's allocator: what is freed stays with the process, for the next request will need it again.

By default glibc gives the free top of its heap back to the system as soon as that is twice the largest block ever
freed. With bodies of some 100 KB this happens all the time, and what was given back is mapped and cleared anew, page
by page. See mallopt(3).
"""

from __future__ import annotations

import ctypes
import logging
import os
from collections.abc import Mapping

logger = logging.getLogger(__name__)

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_KEPT_BYTES = 64 * 1024 * 1024
_LARGEST_IN_HEAP = 32 * 1024 * 1024
"""The largest that glibc admits, and what its own adjustment, which ends once a threshold is set, may come to."""


def keep_freed_memory(environ: Mapping[str, str] = os.environ) -> bool:
    """Keep up to 64 MiB that are free. Whether that was done: not without glibc, nor if the environment tunes it."""
    if any(name.startswith("MALLOC_") for name in environ) or "malloc" in environ.get("GLIBC_TUNABLES", ""):
        return False
    try:
        libc = ctypes.CDLL(None)
        libc.gnu_get_libc_version  # noqa: B018 - others may call something else mallopt
        mallopt = libc.mallopt
    except (AttributeError, OSError, TypeError):
        return False
    kept = bool(mallopt(_M_MMAP_THRESHOLD, _LARGEST_IN_HEAP) and mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES))
    logger.debug("the allocator keeps up to %d bytes that are free: %s", _KEPT_BYTES, kept)
    return kept
