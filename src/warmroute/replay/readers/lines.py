"""What the readers share: lines of JSON, and the error that names the place."""

from __future__ import annotations

import gzip
import logging
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

logger = logging.getLogger(__name__)

_Row = TypeVar("_Row")
_CUT_OFF = "Input data was truncated"
"""How msgspec calls JSON that ends too early."""


class TraceError(ValueError):
    """A trace that cannot be read. The message names the file and the place in it."""


def content(path: Path) -> bytes:
    """The bytes of a file, which may be gzipped. Raises TraceError."""
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror or error}") from None
    except (EOFError, zlib.error) as error:
        raise TraceError(f"{path}: the gzip data is damaged: {error}") from None


def rows(path: Path, data: bytes, form: type[_Row], *, may_be_cut: bool = False) -> Iterator[tuple[int, _Row]]:
    """Every line that is not empty as an object of the given form, with its number. Raises TraceError.

    With `may_be_cut`, lines that end too early are left out with a warning: their writer was killed.
    """
    decode = msgspec.json.Decoder(form).decode
    for number, line in enumerate(data.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            yield number, decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            if may_be_cut and str(error) == _CUT_OFF:
                logger.warning("%s:%d: left out, the line is cut off", path, number)
                continue
            raise TraceError(f"{path}:{number}: {error}") from None
