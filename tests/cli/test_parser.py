"""How every command reads its arguments."""

import argparse

import pytest

from warmroute.cli.parser import UsageError, parse, same_spelling


def flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--max-running", type=int)


def test_underscores_in_flag_names_are_hyphens_and_values_stay() -> None:
    assert same_spelling(["--max_running=a_b", "--name", "a_b", "-x_y", "--", "--a_b"]) == [
        "--max-running=a_b",
        "--name",
        "a_b",
        "-x_y",
        "--",
        "--a_b",
    ]


def test_both_spellings_are_one_flag() -> None:
    for spelling in ("--max-running", "--max_running"):
        assert parse("p", "", flags, [spelling, "3"]).max_running == 3


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--max-runing", "3"], "unknown argument --max-runing (nearest known: --max-running)"),
        (["--max-run=3"], "unknown argument --max-run=3 (nearest known: --max-running)"),
        (["--max-running"], "argument --max-running: expected one argument"),
        (["--max-running", "many"], "argument --max-running: invalid int value: 'many'"),
    ],
)
def test_an_error_is_one_line_and_nothing_is_abbreviated(argv: list[str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse("p", "", flags, argv)
    assert str(caught.value) == message
