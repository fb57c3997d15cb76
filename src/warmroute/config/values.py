"""Value forms that several options share: lists, worker URLs, other URLs. Each function raises ValueError."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar
from urllib.parse import SplitResult, urlsplit

Value = TypeVar("Value")


def comma_list(value: object) -> object:
    """Split text at commas, also inside a list; what is no text is left for the type check to judge."""
    if isinstance(value, str):
        return [part for part in (piece.strip() for piece in value.split(",")) if part]
    if isinstance(value, list | tuple):
        parts: list[object] = []
        for item in value:
            split = comma_list(item) if isinstance(item, str) else [item]
            parts.extend(split if isinstance(split, list) else [split])
        return parts
    return value


def lower_case(value: object) -> object:
    """Text in lower case; anything else unchanged."""
    return value.lower() if isinstance(value, str) else value


def not_supported(value: Value) -> Value:
    """Refuse anything but the empty value: the option is known, its feature is not there."""
    if value:
        raise ValueError("is not supported")
    return value


def worker_url(text: str) -> str:
    """The one spelling of a worker's address: `http://host:port`, IPv6 in brackets.

    Accepts `host:port` without a scheme and a trailing slash. `http://host` means port 80.
    """
    given = text.strip()
    parts = _split(given if "://" in given else f"http://{given}")
    if parts.scheme == "https":
        raise ValueError(
            "uses https, which is not supported; use http://host:port, or put a TLS proxy in front of the worker"
        )
    if parts.scheme != "http":
        raise ValueError("must be http://host:port")
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError("must be http://host:port, without user, query or fragment")
    if parts.path not in ("", "/"):
        raise ValueError("must be http://host:port; a base path is not supported")
    host = parts.hostname or ""
    port = parts.port
    if port is None:
        if "://" not in given:
            raise ValueError("needs a port, as in http://host:port")
        port = 80
    if port == 0:
        raise ValueError("must have a port from 1 to 65535")
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def worker_urls(texts: Iterable[str]) -> tuple[str, ...]:
    """Each text as `worker_url` spells it; ValueError names the bad one, or one that comes twice."""
    urls: dict[str, str] = {}
    for text in texts:
        try:
            url = worker_url(text)
        except ValueError as error:
            raise ValueError(f"{text!r} {error}") from None
        if url in urls:
            raise ValueError(f"names {url} twice")
        urls[url] = text
    return tuple(urls)


def http_url(text: str) -> str:
    """An http or https URL with a host, as given; an empty text stays empty."""
    if text:
        try:
            scheme = _split(text).scheme
        except ValueError as error:
            raise ValueError(f"{text!r} {error}") from None
        if scheme not in ("http", "https"):
            raise ValueError(f"{text!r} must be a URL such as http://host:port/path")
    return text


def _split(text: str) -> SplitResult:
    if any(character.isspace() or not character.isprintable() for character in text):
        raise ValueError("must not contain spaces or control characters")
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018  (reading it is what checks its range)
    except ValueError as error:
        raise ValueError(f"is not a URL ({error})") from None
    if not parts.hostname:
        raise ValueError("has no host")
    return parts
