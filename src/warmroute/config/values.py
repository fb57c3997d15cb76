"""Value forms that several options share: lists, URLs, keys, networks. Each function raises ValueError."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar
from urllib.parse import SplitResult, urlsplit

from warmroute.access.networks import parse_networks

Value = TypeVar("Value")
_DEFAULT_PORTS = {"http": 80, "https": 443}


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


def with_numbers(value: object) -> object:
    """A list as of `comma_list` in which each bare number is part of the item before it: `url,number`."""
    parts = comma_list(value)
    if not isinstance(parts, list):
        return parts
    joined: list[object] = []
    for part in parts:
        if joined and isinstance(joined[-1], str) and _is_number(part):
            joined[-1] += f",{part}"
        else:
            joined.append(part)
    return joined


def lower_case(value: object) -> object:
    """Text in lower case; anything else unchanged."""
    return value.lower() if isinstance(value, str) else value


def not_supported(value: Value) -> Value:
    """Refuse anything but the empty value: the option is known, its feature is not there."""
    if value:
        raise ValueError("is not supported")
    return value


def worker_url(text: str) -> str:
    """The one spelling of a worker's address: `http://host:port` or `https://host:port`, IPv6 in brackets.

    Accepts `host:port` without a scheme, which is http, and a trailing slash. Without a port, 80 or 443 is meant.
    """
    given = text.strip()
    parts = _split(given if "://" in given else f"http://{given}")
    if parts.scheme not in _DEFAULT_PORTS:
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
        port = _DEFAULT_PORTS[parts.scheme]
    if port == 0:
        raise ValueError("must have a port from 1 to 65535")
    return f"{parts.scheme}://[{host}]:{port}" if ":" in host else f"{parts.scheme}://{host}:{port}"


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


def numbered_urls(texts: Iterable[str]) -> tuple[str, ...]:
    """Each `url` or `url,port` with the URL as `worker_url` spells it; ValueError names a bad or repeated one."""
    found: dict[str, str] = {}
    for text in texts:
        try:
            url, port = split_number(text)
        except ValueError as error:
            raise ValueError(f"{text!r} {error}") from None
        if url in found:
            raise ValueError(f"names {url} twice")
        found[url] = f"{url},{port}" if port else url
    return tuple(found.values())


def split_number(text: str) -> tuple[str, int]:
    """`url,port` in its two parts, the URL as `worker_url` spells it; 0 without a port. Raises ValueError."""
    address, comma, number = text.partition(",")
    if _is_number(address):
        raise ValueError("is a port without a URL before it")
    url = worker_url(address)
    if not comma:
        return url, 0
    if not (_is_number(number) and len(number) <= 5 and 1 <= int(number) <= 65535):
        raise ValueError("must be URL,PORT with one port from 1 to 65535")
    return url, int(number)


def http_url(text: str) -> str:
    """An http or https URL with a host, as given; an empty text stays empty."""
    if text:
        try:
            scheme = _split(text).scheme
        except ValueError as error:
            raise ValueError(f"{text!r} {error}; must be a URL such as http://host:port/path") from None
        if scheme not in ("http", "https"):
            raise ValueError(f"{text!r} must be a URL such as http://host:port/path")
    return text


def origins(texts: Iterable[str]) -> tuple[str, ...]:
    """Each origin as browsers send it (lower case, no default port); ValueError shows the form. `*` is any origin."""
    return tuple(text if text in ("*", "null") else _origin(text) for text in texts)


def _origin(text: str) -> str:
    try:
        parts = _split(text)
        bare = not (parts.username is not None or parts.path or parts.query or parts.fragment or text[-1] in "/?#:")
        if not (parts.scheme and bare):
            raise ValueError("is no origin")
    except ValueError as error:
        raise ValueError(f"{text!r} {error}; must be * or scheme://host[:port], as in https://chat.example") from None
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    port = "" if parts.port in (None, _DEFAULT_PORTS.get(parts.scheme)) else f":{parts.port}"
    return f"{parts.scheme}://{host}{port}"


def secrets(texts: Iterable[str]) -> tuple[str, ...]:
    """Keys, each once. ValueError, which shows none, for one that no HTTP header can carry."""
    keys = tuple(dict.fromkeys(texts))
    if not all(map(_is_secret, keys)):
        raise ValueError("holds a key with characters other than printable ASCII without blanks and commas")
    return keys


def worker_keys(texts: Iterable[str]) -> tuple[str, ...]:
    """`KEY` for all workers, `URL=KEY` for one. The URLs as `worker_url` spells them; ValueError shows no key."""
    found: dict[str, str] = {}
    for text in texts:
        url, key = split_worker_key(text)
        secrets((key,))
        if url in found:
            raise ValueError(f"has two keys for {url or 'all workers'}")
        found[url] = f"{url}={key}" if url else key
    return tuple(found.values())


def split_worker_key(text: str) -> tuple[str, str]:
    """URL (empty: all workers) and key of one of `worker_keys`. ValueError for a bad URL."""
    if not text.lower().startswith(("http://", "https://")):
        return "", text
    url, _, key = text.partition("=")
    try:
        return worker_url(url), key
    except ValueError as error:
        raise ValueError(f"of a worker: its URL {error}") from None


def keys_by_url(texts: Iterable[str]) -> dict[str, str]:
    """What `worker_keys` has read, by URL; the key for all workers by an empty one."""
    return dict(map(split_worker_key, texts))


def networks(texts: Iterable[str]) -> tuple[str, ...]:
    """Names of networks as they are given; ValueError names one that is none."""
    names = tuple(texts)
    for name in names:
        parse_networks(name)
    return names


def _is_secret(text: str) -> bool:
    return bool(text) and all("!" <= character <= "~" and character != "," for character in text)


def _is_number(value: object) -> bool:
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    return text.isascii() and text.isdigit()


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
