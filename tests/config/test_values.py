"""Value forms: lists and worker URLs."""

import pytest

from warmroute.config.values import (
    comma_list,
    http_url,
    numbered_urls,
    origins,
    split_number,
    with_numbers,
    worker_url,
    worker_urls,
)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("http://a:8000", "http://a:8000"),
        ("a:8000", "http://a:8000"),
        ("http://a:8000/", "http://a:8000"),
        (" HTTP://Engine-1.pool:8000 ", "http://engine-1.pool:8000"),
        ("http://a", "http://a:80"),
        ("HTTPS://a:8000/", "https://a:8000"),
        ("https://a", "https://a:443"),
        ("http://[::1]:8000", "http://[::1]:8000"),
        ("[2001:db8::2]:1", "http://[2001:db8::2]:1"),
    ],
)
def test_a_worker_has_one_spelling(given: str, expected: str) -> None:
    assert worker_url(given) == expected
    assert worker_url(expected) == expected


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("http://a:8000/v1", "base path"),
        ("http://a:8000?x=1", "query"),
        ("http://user@a:8000", "user"),
        ("a", "needs a port"),
        ("ftp://a:8000", "must be http"),
        ("http://:8000", "no host"),
        ("http://a:0", "1 to 65535"),
        ("http://a:70000", "not a URL"),
        ("http://a:port", "not a URL"),
        ("http://[::1:8000", "not a URL"),
        ("http://a b:8000", "spaces"),
        ("", "no host"),
    ],
)
def test_a_worker_url_that_cannot_be_used_is_refused(given: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        worker_url(given)


def test_a_worker_named_twice_is_refused_whatever_its_spelling() -> None:
    with pytest.raises(ValueError, match="http://a:1 twice"):
        worker_urls(["a:1", "http://A:1/"])


def test_the_bad_one_of_several_workers_is_named() -> None:
    with pytest.raises(ValueError, match=r"'b' needs a port"):
        worker_urls(["a:1", "b"])


@pytest.mark.parametrize(
    ("given", "expected"),
    [("a,b", ["a", "b"]), (" a , ,b,", ["a", "b"]), (["a,b", "c"], ["a", "b", "c"]), ([1, "a"], [1, "a"]), (5, 5)],
)
def test_lists_split_at_commas(given: object, expected: object) -> None:
    assert comma_list(given) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("a,1", ["a,1"]),
        (["a", 1, "b"], ["a,1", "b"]),
        ("1,a", ["1", "a"]),
        ("a,1,2", ["a,1,2"]),
        (["a", True], ["a", True]),
        (["a", -1], ["a", -1]),
        (5, 5),
    ],
)
def test_a_number_joins_the_item_before_it(given: object, expected: object) -> None:
    assert with_numbers(given) == expected


def test_a_url_with_a_port_beside_it_has_one_spelling() -> None:
    assert numbered_urls(["A:1,08998", "[::1]:2"]) == ("http://a:1,8998", "http://[::1]:2")
    assert split_number("http://a:1,8998") == ("http://a:1", 8998)
    assert split_number("http://a:1") == ("http://a:1", 0)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("8998", "without a URL"),
        ("a:1,0", "1 to 65535"),
        ("a:1,65536", "1 to 65535"),
        ("a:1,2,3", "one port"),
        ("a:1,", "one port"),
        ("a,5", "needs a port"),
    ],
)
def test_a_port_beside_a_url_that_cannot_be_used_is_refused(given: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        numbered_urls([given])


def test_one_url_with_two_ports_is_named_twice() -> None:
    with pytest.raises(ValueError, match="http://a:1 twice"):
        numbered_urls(["a:1,5", "a:1,6"])


def test_http_url_keeps_good_ones_and_refuses_others() -> None:
    assert http_url("") == ""
    assert http_url("https://t:1/x") == "https://t:1/x"
    for bad in ("t:8098", "/tokenize", "http://"):
        with pytest.raises(ValueError, match=bad):
            http_url(bad)


def test_origins_are_spelled_as_browsers_send_them() -> None:
    given = ["*", "null", "https://Chat.Example", "http://a:80", "https://a:443", "http://[::1]:3000", "app://x"]
    expected = ("*", "null", "https://chat.example", "http://a", "https://a", "http://[::1]:3000", "app://x")
    assert origins(given) == expected


@pytest.mark.parametrize(
    "given",
    [
        "foo",
        "foo:80",
        "//a",
        "http://a:0x1",
        "http://a:",
        "http://a/",
        "http://a/x",
        "http://a?x",
        "http://a#",
        "http://u@a",
        "http://",
        "a b",
    ],
)
def test_what_no_browser_sends_as_its_origin_is_refused_with_the_right_form(given: str) -> None:
    with pytest.raises(ValueError, match=r"must be \* or scheme://host\[:port\]") as caught:
        origins([given])
    assert repr(given) in str(caught.value)
