"""Values on the command line of engine, bench and demo."""

from argparse import ArgumentTypeError

import pytest

from warmroute.cli.values import not_negative, port_list, port_number, positive, positive_int


@pytest.mark.parametrize(
    ("text", "ports"),
    [("8101", [8101]), ("8101-8103", [8101, 8102, 8103]), ("1,8105,7-8", [1, 8105, 7, 8]), ("65535", [65535])],
)
def test_port_lists(text, ports):
    assert port_list(text) == ports


@pytest.mark.parametrize("text", ["", "a", "8101-", "-8101", "0", "65536", "8103-8101", "1,,2", "8101-8102-8103", "²"])
def test_bad_port_lists(text):
    with pytest.raises(ArgumentTypeError):
        port_list(text)


@pytest.mark.parametrize(("text", "expected"), [("0", 0), ("8998", 8998), ("65535", 65535)])
def test_ports(text, expected):
    assert port_number(text) == expected


@pytest.mark.parametrize("text", ["", "-1", "65536", "x", "²"])
def test_bad_ports(text):
    with pytest.raises(ArgumentTypeError):
        port_number(text)


def test_numbers():
    assert (positive_int("3"), positive("0.5"), not_negative("0")) == (3, 0.5, 0.0)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (positive_int, "0"),
        (positive_int, "1.5"),
        (positive_int, "-1"),
        (positive, "0"),
        (positive, "nan"),
        (positive, "inf"),
        (positive, "x"),
        (not_negative, "-0.1"),
        (not_negative, ""),
    ],
)
def test_bad_numbers(kind, text):
    with pytest.raises(ArgumentTypeError, match="must be"):
        kind(text)
