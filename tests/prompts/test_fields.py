import json

import pytest
from msgspec import Raw

from warmroute.prompts.fields import (
    MISSING,
    BadRequest,
    present,
    read_boolean,
    read_cap,
    read_fields,
    read_id,
    read_session_id,
    read_string,
)

WRONG_JSON = [
    b"",
    b"  \n",
    b"{",
    b"}",
    b"[]",
    b"[{}]",
    b"null",
    b"true",
    b"17",
    b'"text"',
    b'{"model"}',
    b'{"model":}',
    b"{'model':1}",
    b'{"a":1,}',
    b"{} {}",
    b'{"a":01}',
    b'{"a":NaN}',
    b'{"a":-Infinity}',
    b'{"a":"\\x"}',
    b'{"a":"line\nbreak"}',
    b'{"a":"\\ud83d"}',
    b'{"a":"\x00"}',
    b"\xff\xfe{\x00}\x00",
    b"\x00",
    b'{"messages":[{"role":"user","content":"cut off',
    b'{"a":' + b"[" * 100_000,
    b'{"messages":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b'{"extra_body":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}",
]


@pytest.mark.parametrize("body", WRONG_JSON, ids=lambda body: repr(body[:24]))
def test_what_is_no_json_object_is_a_bad_request(body):
    with pytest.raises(BadRequest, match=r"^Invalid JSON format: .+\.$") as caught:
        read_fields(body)
    assert caught.value.param is None


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "the body is empty"),
        (b" [1]", "must be an object, not an array"),
        (b"null", "must be an object, not null"),
        (b"-1", "must be an object, not a number"),
        (b'{"a":"\\udc00 "}', "must come in pairs"),
        (b'{"a":' + b"[" * 100_000, "nested too deeply"),
        (b'{"a" 1}', "byte 5"),
    ],
)
def test_the_message_says_what_is_wrong(body, text):
    with pytest.raises(BadRequest, match=text):
        read_fields(body)


def test_the_last_of_duplicate_keys_wins():
    fields = read_fields(b'{"model":5,"stream":"x","model":"a","stream":true}')
    assert read_string(fields.model, "model") == "a"
    assert read_boolean(fields.stream, "stream") is True


def test_escaped_names_are_the_same_names():
    assert read_string(read_fields(b'{"m\\u006fdel":"a"}').model, "model") == "a"


def test_a_byte_order_mark_is_skipped():
    assert read_string(read_fields(b'\xef\xbb\xbf{"model":"a"}').model, "model") == "a"


def test_a_surrogate_pair_is_a_character():
    assert read_string(read_fields(b'{"model":"\\ud83d\\ude00"}').model, "model") == "\U0001f600"


def test_null_is_as_good_as_absent():
    fields = read_fields(b'{"model":null}')
    assert present(fields.model) is None
    assert present(fields.stream) is None
    assert fields.stream is MISSING


@pytest.mark.parametrize("value", [1, 1.5, True, [], {}, ["a"]])
def test_a_string_is_a_string(value):
    with pytest.raises(BadRequest, match=r"^Invalid type for 'model': expected a string, got ") as caught:
        read_string(Raw(json.dumps(value).encode()), "model")
    assert caught.value.param == "model"


def test_a_string_must_be_utf8():
    with pytest.raises(BadRequest, match="'model' is not valid UTF-8") as caught:
        read_string(read_fields(b'{"model":"\xff"}').model, "model")
    assert caught.value.param == "model"


@pytest.mark.parametrize("value", [0, 1, "true", [], {}, 1.0])
def test_a_boolean_is_a_boolean(value):
    with pytest.raises(BadRequest, match=r"^Invalid type for 'stream': expected a boolean, got ") as caught:
        read_boolean(Raw(json.dumps(value).encode()), "stream")
    assert caught.value.param == "stream"


@pytest.mark.parametrize("text", [b'"5"', b"10.5", b"1e-3", b"true", b"[]", b"{}", b"-1.5"])
def test_a_cap_is_an_integer(text):
    with pytest.raises(BadRequest, match=r"^Invalid type for 'max_tokens': expected an integer, got ") as caught:
        read_cap(Raw(text), "max_tokens")
    assert caught.value.param == "max_tokens"


@pytest.mark.parametrize(("text", "cap"), [(b"0", 0), (b"16", 16), (b"16.0", 16), (b"1e3", 1000), (b"2.5e1", 25)])
def test_a_whole_number_is_an_integer_however_it_is_written(text, cap):
    assert read_cap(Raw(text), "max_tokens") == cap


@pytest.mark.parametrize(
    ("text", "cap"),
    [
        *((b"null", None), (b"-1", None), (b"-1.0", None)),
        *((b"9" * 30, None), (b"9" * 5000, None), (b"1e30", None), (b"1e999", None)),
    ],
)
def test_a_cap_that_caps_nothing_is_none(text, cap):
    """Negative and absurd numbers are the engine's to judge; the scheduler does not count with them."""
    assert read_cap(Raw(text), "max_tokens") == cap


@pytest.mark.parametrize(
    ("text", "value"),
    [(b'"a"', "a"), (b'""', None), (b"5", None), (b"null", None), (b"{}", None), (b"[1]", None), (b'"\xff"', None)],
)
def test_an_id_of_another_type_is_not_ours_to_refuse(text, value):
    assert read_id(Raw(text)) == value


@pytest.mark.parametrize(
    ("body", "session"),
    [
        (b'{"session_id":"a","extra_body":{"session_id":"b"}}', "a"),
        (b'{"session_id":"","extra_body":{"session_id":"b"}}', "b"),
        (b'{"session_id":7,"extra_body":{"x":[1],"session_id":"b"}}', "b"),
        (b'{"extra_body":{"session_id":7}}', None),
        (b'{"extra_body":{}}', None),
        (b'{"extra_body":null}', None),
        (b'{"extra_body":"session_id"}', None),
        (b'{"extra_body":[{"session_id":"b"}]}', None),
        (b"{}", None),
    ],
)
def test_the_session_is_at_the_top_or_in_extra_body(body, session):
    assert read_session_id(read_fields(body)) == session
