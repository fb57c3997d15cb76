"""Which origins may read an answer."""

import pytest

from warmroute.config.cors import allow_origin, response_headers


@pytest.mark.parametrize(
    ("origins", "origin", "expected"),
    [
        ((), "http://a", None),
        (("http://a",), "http://a", "http://a"),
        (("http://a",), "http://a.evil", None),
        (("http://a", "*"), "http://b", "*"),
        (("*",), "", None),
    ],
)
def test_allow_origin(origins: tuple[str, ...], origin: str, expected: str | None) -> None:
    assert allow_origin(origins, origin) == expected


def test_an_answer_for_one_origin_varies_by_origin() -> None:
    headers = dict(response_headers(("http://a",), "http://a"))
    assert headers["Access-Control-Allow-Origin"] == "http://a"
    assert headers["Vary"] == "Origin"
    assert "X-Router-Worker-URL" in headers["Access-Control-Expose-Headers"]


def test_an_answer_for_any_origin_may_be_cached_for_all() -> None:
    assert "Vary" not in dict(response_headers(("*",), "http://a"))


def test_other_origins_get_no_headers() -> None:
    assert response_headers(("http://a",), "http://b") == []
