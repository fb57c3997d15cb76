import pytest

from warmroute.control.bodies import BadJsonError, parse_json, parse_object


@pytest.mark.parametrize(
    ("body", "value"), [(b"null", None), (b" [1, 2.5] ", [1, 2.5]), (b'{"a": "\xc3\xa9"}', {"a": "é"})]
)
def test_json_is_decoded(body, value):
    assert parse_json(body) == value


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"{}x", b"\xff", b'"\xed\xa0\x80"', b'"\\ud800"', b"NaN", b"1e999", b"9" * 5000, b"[" * 100_000],
    ids=lambda body: repr(body[:10]),
)
def test_anything_else_is_bad_json(body):
    with pytest.raises(BadJsonError, match=r"."):
        parse_json(body)


@pytest.mark.parametrize("body", [b"", b" \r\n"])
def test_an_empty_body_is_called_so(body):
    with pytest.raises(BadJsonError, match=r"^the body is empty$"):
        parse_object(body)


@pytest.mark.parametrize("body", [b"null", b"[]", b"1", b'"x"', b"true"])
def test_an_object_is_an_object(body):
    with pytest.raises(BadJsonError, match="expected an object"):
        parse_object(body)
