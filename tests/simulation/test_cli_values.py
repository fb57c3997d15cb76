"""Values on the command line of engine, bench and demo."""

from argparse import ArgumentTypeError

import pytest

from warmroute.cli.values import endpoint_url, not_negative, output_file, port_list, port_number, positive, positive_int


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


@pytest.mark.parametrize("text", ["http://127.0.0.1:30000", "https://router/v1", "http://[::1]:8000/"])
def test_urls(text):
    assert endpoint_url(text) == text


@pytest.mark.parametrize("text", ["", "localhost", "127.0.0.1:30000", "ftp://a", "http://", "http://a:0", "http://a:x"])
def test_bad_urls(text):
    with pytest.raises(ArgumentTypeError, match="must be like http://"):
        endpoint_url(text)


def test_a_file_to_write_is_new_or_old_but_no_directory_nor_in_one_that_is_not_there(tmp_path):
    old = tmp_path / "old.json"
    old.touch()
    assert [output_file(str(path)) for path in (old, tmp_path / "new.json")] == [old, tmp_path / "new.json"]
    with pytest.raises(ArgumentTypeError, match="is a directory, a file is needed"):
        output_file(str(tmp_path))
    with pytest.raises(ArgumentTypeError, match="there is no directory"):
        output_file(str(tmp_path / "nowhere" / "new.json"))


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
