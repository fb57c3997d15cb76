import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmroute.prompts.fields import read_handover_fields
from warmroute.prompts.splice import append, splice

NAMES = ("stream", "max_tokens", "request_id")


@pytest.mark.parametrize(
    ("body", "changes", "expected"),
    [
        (b"{}", {"a": b"1"}, b'{"a":1}'),
        (b" { \n } ", {"a": b"1", "b": b"[2]"}, b' {"a":1,"b":[2] \n } '),
        (b'{"x":1e400,"y":123456789012345678901}', {"a": b"{}"}, b'{"x":1e400,"y":123456789012345678901,"a":{}}'),
        (b'{ "x" : 1 \n}\n', {"a": b"1"}, b'{ "x" : 1,"a":1 \n}\n'),
        (b'{"a" : [1, {"a":2}] , "b":3}', {"a": b"0"}, b'{"a" : 0 , "b":3}'),
        (b'{"a":1, "b":2, "c":3}', {"a": None}, b'{"b":2, "c":3}'),
        (b'{"a":1, "b":2, "c":3}', {"b": None}, b'{"a":1, "c":3}'),
        (b'{"a":1, "b":2, "c":3 }', {"c": None}, b'{"a":1, "b":2 }'),
        (b'{ "a":1 }', {"a": None}, b"{  }"),
        (b'{ "a":1 }', {"a": None, "b": b"2"}, b'{ "b":2 }'),
        (b'{"a":1,"b":2,"a":12,"c":3}', {"a": b"7"}, b'{"b":2,"a":7,"c":3}'),
        (b'{"a":12,"b":2,"a":1,"c":3}', {"a": None}, b'{"b":2,"c":3}'),
        (b'{"a":12,"b":2,"a":1,"c":3}', {"b": b"7"}, b'{"a":12,"b":7,"a":1,"c":3}'),
        (b'{"\\u0061":1,"b":"a"}', {"a": b"2"}, b'{"\\u0061":2,"b":"a"}'),
        (b'{"b":{"a":1},"c":"\\"a\\":1"}', {"a": b"2"}, b'{"b":{"a":1},"c":"\\"a\\":1","a":2}'),
        (b'{"b":1}', {"a": None}, b'{"b":1}'),
        (b'{"\xff":1,"a":2}', {"a": b"3"}, b'{"\xff":1,"a":3}'),
        (b'{"x\\ud800":[{"]":"}"}],"a":2}', {"a": b"3"}, b'{"x\\ud800":[{"]":"}"}],"a":3}'),
        (b'\xef\xbb\xbf{"a":1}', {"a": b"2"}, b'\xef\xbb\xbf{"a":2}'),
        (b'\xef\xbb\xbf{"a":1}', {"b": b"2"}, b'\xef\xbb\xbf{"a":1,"b":2}'),
    ],
)
def test_only_the_named_members_change(body: bytes, changes: dict[str, bytes | None], expected: bytes) -> None:
    assert splice(body, changes) == expected


@pytest.mark.parametrize(
    "body", [b"", b"  ", b"[]", b"1", b'"a"', b"{", b"}", b'{"a"}', b'{"a":1', b'{"a":}', b'{a:"a"}']
)
def test_what_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match="not the JSON text of an object"):
        splice(body, {"a": b"1"})


def test_nesting_that_decoders_refuse() -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    assert splice(b'{"d":%b,"a":1}' % deep, {"a": b"2"}) == b'{"d":%b,"a":2}' % deep


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)
spaces = st.text(" \t\r\n", max_size=2)


@st.composite
def keys(draw: st.DrawFn) -> tuple[str, str]:
    """A key and one of its spellings."""
    key = draw(st.sampled_from(NAMES) | st.text(max_size=5))
    escape = draw(st.sets(st.integers(0, 5), max_size=2))
    spelt = "".join(
        "".join(f"\\u{unit:04x}" for unit in _units(char))
        if place in escape
        else json.dumps(char, ensure_ascii=False)[1:-1]
        for place, char in enumerate(key)
    )
    return key, f'"{spelt}"'


def _units(char: str) -> list[int]:
    data = char.encode("utf-16-be")
    return [int.from_bytes(data[place : place + 2]) for place in range(0, len(data), 2)]


@st.composite
def objects(draw: st.DrawFn) -> tuple[str, list[tuple[str, Any]]]:
    """The text of an object, white space and duplicate keys included, and its members in order."""
    members = draw(st.lists(st.tuples(keys(), values), max_size=5))
    parts = []
    for (_, spelt), value in members:
        text = json.dumps(value, ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, 1])))
        parts.append(f"{draw(spaces)}{spelt}{draw(spaces)}:{draw(spaces)}{text}{draw(spaces)}")
    inner = ",".join(parts) or draw(spaces)
    return f"{draw(spaces)}{{{inner}}}{draw(spaces)}", [(key, value) for (key, _), value in members]


@given(objects(), st.dictionaries(st.sampled_from(NAMES), st.none() | values.filter(lambda value: value is not None)))
def test_parsing_what_was_spliced_gives_the_original_and_the_change(
    made: tuple[str, list[tuple[str, Any]]], changes: dict[str, Any]
) -> None:
    text, members = made
    raw = {name: None if value is None else json.dumps(value).encode() for name, value in changes.items()}
    spliced = splice(text.encode(), raw)
    got: list[tuple[str, Any]] = json.loads(spliced, object_pairs_hook=_Pairs)
    untouched = [(key, value) for key, value in members if key not in changes]
    assert [(key, _plain(value)) for key, value in got if key not in changes] == untouched
    assert {key: _plain(value) for key, value in got if key in changes} == {
        name: value for name, value in changes.items() if value is not None
    }
    assert len([key for key, _ in got if key in changes]) == len(
        [value for value in changes.values() if value is not None]
    )


class _Pairs(list[tuple[str, Any]]):
    """The members of an object, duplicates included."""


def _plain(value: Any) -> Any:
    if isinstance(value, _Pairs):
        return {key: _plain(inner) for key, inner in value}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value


@given(objects())
def test_no_change_is_no_change(made: tuple[str, list[tuple[str, Any]]]) -> None:
    body = made[0].encode()
    assert splice(body, {}) == body
    assert splice(body, {"never there": None}) == body


@given(objects())
def test_appending_is_splicing_in_what_was_not_there(made: tuple[str, list[tuple[str, Any]]]) -> None:
    body = made[0].encode()
    expected = splice(body, {"never there": b"1", "nor this": b"[]"})
    assert append(body, b'"never there":1,"nor this":[]') == expected


@given(objects(), st.sets(st.sampled_from(NAMES), min_size=1))
def test_texts_that_are_known_save_a_scan_and_change_nothing(
    made: tuple[str, list[tuple[str, Any]]], names: set[str]
) -> None:
    body = made[0].encode()
    fields = read_handover_fields(body)
    changes = dict.fromkeys(names, b"7")
    assert splice(body, changes, fields.text_of) == splice(body, changes)
