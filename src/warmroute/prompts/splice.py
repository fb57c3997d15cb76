"""Changing members of a JSON object in its own text: everything else stays byte for byte.

Big integers, floats, the order of keys, white space and unknown fields survive because nothing is decoded and encoded
again. msgspec scans the body once and tells each member's text. Most bodies lack what is inserted; then it is appended.
Else the members are walked to find their places: the texts give their lengths, and only the keys are read here.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec
from msgspec import Raw

_SPACES = b" \t\n\r"
_OPENING_BRACE = ord("{")
_OPENING = re.compile(rb"[ \t\n\r]*+\{[ \t\n\r]*+")
# Up to the next value, or the end of the object; as JSON is checked elsewhere, one pattern does for all places.
_STEP = re.compile(
    rb"""[ \t\n\r]*+(?:[,{][ \t\n\r]*+("(?:[^"\\]++|\\.)*+")[ \t\n\r]*+:[ \t\n\r]*+|\{?+[ \t\n\r]*+\})""", re.DOTALL
)
_SCALAR = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[-+.0-9A-Za-z]++', re.DOTALL)
_STRING_OR_BRACKET = re.compile(rb'"(?:[^"\\]++|\\.)*+"|[{}\[\]]', re.DOTALL)
_raw_members = msgspec.json.Decoder(dict[str, Raw])
_string = msgspec.json.Decoder(str)


class _Member(NamedTuple):
    """Where a member stands: from the quote that opens its key to the end of its value."""

    key: str
    start: int
    value: int
    end: int


def read_members(body: bytes) -> Mapping[str, bytes]:
    """The JSON text of each top-level member, the last of duplicates; empty when `body` cannot be read as an object."""
    try:
        return {name: bytes(raw) for name, raw in _raw_members.decode(body[_begin(body) :]).items()}
    except (msgspec.DecodeError, RecursionError):
        return {}  # For one, keys that are not valid UTF-8: engines may take them, msgspec does not.


def splice(
    body: bytes, changes: Mapping[str, bytes | None], text_of: Callable[[str], bytes | None] | None = None
) -> bytes:
    """Insert or replace top-level members (a value is JSON text) or remove them (None).

    `body` must be the JSON text of one object, else ValueError or, where that does not show, nonsense. Names are plain
    ASCII. Of duplicate keys the last is replaced and all others are removed, so that every parser sees the change; new
    members come last, in the order of `changes`. Who knows the texts of members, and that there is one to change,
    saves a scan with `text_of`: the last value of a key, or None.
    """
    if text_of is None:
        members = read_members(body)
        if members and members.keys().isdisjoint(changes):
            return _append(body, changes)
        text_of = members.get
    places = _members(body, text_of)
    replaced = _replace(body, places, changes)
    return _rebuild(body, places, changes) if replaced is None else replaced


def append(body: bytes, members: bytes) -> bytes:
    """The text of a JSON object with these members, at least one, behind its own; it has none of the same names.

    Other than `splice` this looks at nothing but the end of `body`: it must be the text of an object.
    """
    brace = len(body) - 1
    while body[brace] in _SPACES:
        brace -= 1
    last = brace - 1
    while body[last] in _SPACES:
        last -= 1
    comma = b"" if body[last] == _OPENING_BRACE else b","
    # A view, or the body would be copied twice.
    return b"".join((memoryview(body)[: last + 1], comma, members, body[last + 1 :]))


def _append(body: bytes, changes: Mapping[str, bytes | None]) -> bytes:
    members = [b'"%b":%b' % (name.encode(), value) for name, value in changes.items() if value is not None]
    end = len(body.rstrip(_SPACES)) - 1
    if end < 1 or body[end] != ord("}") or not _OPENING.match(body, _begin(body)):
        raise ValueError("not the JSON text of an object")
    if not members:
        return body
    return append(body, b",".join(members))


def _replace(body: bytes, members: list[_Member], changes: Mapping[str, bytes | None]) -> bytes | None:
    """Cut the body only where it changes; None if a member is to be removed, or there are several of a key."""
    if not members:
        return None
    left = dict(changes)
    pieces: list[bytes | memoryview] = []
    view = memoryview(body)
    copied = end = 0
    for key, _, value, end in members:
        if key in changes:
            change = left.pop(key, None)
            if change is None:
                return None
            pieces += (view[copied:value], change)
            copied = end
    pieces.append(view[copied:end])
    pieces += [b',"%b":%b' % (name.encode(), value) for name, value in left.items() if value is not None]
    pieces.append(view[end:])
    return b"".join(pieces)


def _rebuild(body: bytes, members: list[_Member], changes: Mapping[str, bytes | None]) -> bytes:
    """Copy every member that stays with the separator before it, the first one without."""
    if not members:
        return _append(body, changes)
    last = {member.key: member for member in members}
    pieces = [body[: members[0].start]]
    separated, before = True, members[0].start
    for member in members:
        change = changes.get(member.key) if member is last[member.key] else None
        if change is not None or member.key not in changes:
            if not separated:
                pieces.append(body[before : member.start])
            pieces.append(body[member.start : member.end if change is None else member.value])
            pieces.append(change or b"")
            separated = False
        before = member.end
    for name, value in changes.items():
        if value is not None and name not in last:
            pieces.append(b'%b"%b":%b' % (b"" if separated else b",", name.encode(), value))
            separated = False
    pieces.append(body[members[-1].end :])
    return b"".join(pieces)


def _members(body: bytes, text_of: Callable[[str], bytes | None]) -> list[_Member]:
    """Every top-level member, duplicates included, in the order of the text."""
    members: list[_Member] = []
    end = _begin(body)
    while step := _STEP.match(body, end):
        key = step[1]
        if key is None:
            return members
        name = _key_text(key)
        value = step.end()
        end = _value_end(body, value, text_of(name))
        members.append(_Member(name, step.start(1), value, end))
    raise ValueError("not the JSON text of an object")


def _value_end(body: bytes, start: int, likely: bytes | None) -> int:
    """Where the value ends that begins at `start`: after `likely`, the last value of its key, if it is this one."""
    if likely is not None:
        end = start + len(likely)
        # The same digits may be the begin of a longer number; any other text tells its own end.
        if body.startswith(likely, start) and body[end : end + 1] in b",} \t\n\r":
            return end
    if body[start : start + 1] not in (b"{", b"["):
        scalar = _SCALAR.match(body, start)
        if scalar is None:
            raise ValueError("not the JSON text of an object")
        return scalar.end()
    depth = 0
    for token in _STRING_OR_BRACKET.finditer(body, start):
        depth += {b"{": 1, b"[": 1, b"}": -1, b"]": -1}.get(token[0], 0)
        if not depth:
            return token.end()
    raise ValueError("not the JSON text of an object")


def _key_text(key: bytes) -> str:
    if b"\\" in key:
        try:
            return _string.decode(key)
        except msgspec.DecodeError:
            pass  # An escaped surrogate without its partner: no name of ours.
    return key[1:-1].decode("utf-8", "surrogateescape")


def _begin(body: bytes) -> int:
    return len(codecs.BOM_UTF8) if body.startswith(codecs.BOM_UTF8) else 0
