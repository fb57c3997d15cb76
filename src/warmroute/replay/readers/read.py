"""Which form a file has, told by its first line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from warmroute.replay.readers.access_log import read_access_log
from warmroute.replay.readers.bodies import read_bodies
from warmroute.replay.readers.lines import TraceError, content
from warmroute.replay.readers.mooncake import read_mooncake
from warmroute.replay.readers.sessions import read_run_lengths
from warmroute.replay.trace import Trace

Reader = Callable[[Path, bytes], Trace]

_FORMS: tuple[tuple[frozenset[str], Reader], ...] = (
    (frozenset({"hash_ids", "timestamp"}), read_mooncake),
    (frozenset({"reqs", "block_size"}), read_run_lengths),
    (frozenset({"request_id", "outcome", "time"}), read_access_log),
    (frozenset({"messages"}), read_bodies),
    (frozenset({"prompt"}), read_bodies),
)
"""The keys that tell a form, and who reads it."""


def read_trace(path: Path) -> Trace:
    """The trace in a file of any known form, gzipped or not. Raises TraceError."""
    data = content(path)
    trace = _reader(path, data)(path, data)
    if not trace.requests:
        raise TraceError(f"{path}: no requests in it")
    return trace


def _reader(path: Path, data: bytes) -> Reader:
    if data.lstrip()[:1] == b"[":
        return read_bodies
    line = next((line for line in data.splitlines() if line.strip()), b"")
    if not line:
        raise TraceError(f"{path}: the file is empty")
    try:
        keys = msgspec.json.decode(line, type=dict[str, msgspec.Raw]).keys()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise TraceError(f"{path}: the first line is no JSON object: {error}") from None
    for needed, reader in _FORMS:
        if needed <= keys:
            return reader
    known = " or ".join(", ".join(sorted(needed)) for needed, _ in _FORMS)
    raise TraceError(f"{path}: no known form of trace: the first line has neither {known}")
