"""Bytes of a terminal as keys."""

from __future__ import annotations

import pytest

from warmroute.cli.keyboard import keys_of


@pytest.mark.parametrize(
    ("sent", "keys"),
    [
        (b"q", ["q"]),
        (b"\x1b", ["escape"]),
        (b"\x1b[A", ["up"]),
        (b"\x1bOBd", ["down", "d"]),
        (b"jj\x1b[6~\r", ["j", "j", "page down", "enter"]),
        (b"\x1b[1;5C\x1b", ["\x1b[1;5C", "escape"]),
        ("\u00e4".encode(), ["\ufffd", "\ufffd"]),
    ],
)
def test_one_read_may_bring_several_keys(sent: bytes, keys: list[str]):
    assert keys_of(sent) == keys
