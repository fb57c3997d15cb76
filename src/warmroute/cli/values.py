"""Types of command line values. Each raises argparse.ArgumentTypeError with what was expected."""

from __future__ import annotations

import math
import os
from argparse import ArgumentTypeError
from pathlib import Path
from urllib.parse import urlsplit


def positive_int(text: str) -> int:
    """A whole number of at least 1."""
    if not (text.isascii() and text.isdigit() and int(text) >= 1):
        raise ArgumentTypeError(f"must be a whole number of at least 1, not {text!r}")
    return int(text)


def positive(text: str) -> float:
    """A finite number above 0."""
    value = _number(text)
    if value <= 0:
        raise ArgumentTypeError(f"must be above 0, not {text}")
    return value


def not_negative(text: str) -> float:
    """A finite number of at least 0."""
    value = _number(text)
    if value < 0:
        raise ArgumentTypeError(f"must be at least 0, not {text}")
    return value


def output_file(text: str) -> Path:
    """A file that can be written, as far as its directory tells: better now than when the work is done."""
    path = Path(text)
    if not path.parent.is_dir():
        raise ArgumentTypeError(f"there is no directory {path.parent}")
    if path.is_dir():
        raise ArgumentTypeError(f"{path} is a directory, a file is needed")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ArgumentTypeError(f"{path} cannot be written")
    return path


def endpoint_url(text: str) -> str:
    """The URL of an HTTP server."""
    if not is_http_url(text):
        raise ArgumentTypeError(f"must be like http://127.0.0.1:30000, not {text!r}")
    return text


def is_http_url(text: str) -> bool:
    """Whether it has a scheme that is spoken here, and a host; a port, if any, that can be connected to."""
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ArgumentTypeError(f"must be a number, not {text!r}")
    return value


def port_number(text: str) -> int:
    """A port; 0 is any that is free."""
    if not (text.isascii() and text.isdigit() and int(text) <= 65535):
        raise ArgumentTypeError(f"must be a port, not {text!r}")
    return int(text)


def port_list(text: str) -> list[int]:
    """Ports of `8101-8108`, `8101,8105`, or a mixture."""
    ports: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        low, high = _port(first, text), _port(last if dash else first, text)
        if low > high:
            raise ArgumentTypeError(f"{part!r} runs backwards")
        ports.extend(range(low, high + 1))
    return ports


def _port(text: str, whole: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 65535):
        raise ArgumentTypeError(f"must be ports like 8101-8108 or 8101,8105, not {whole!r}")
    return int(text)
