import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmroute.engines.exposition import Sample, count_label, samples, total


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("load 3", 3.0),
        ("load\t3", 3.0),
        ("load 3.5", 3.5),
        ("load 1e3", 1000.0),
        ("load 1.25e-2 1700000000000", 0.0125),
        ("load{} 7", 7.0),
        ('load{a="b"} 8', 8.0),
        ('load {a="b"} 8', 8.0),
        ('load{a="b",} 8 # {trace="x"} 1', 8.0),
        ('load{path="{weird} \\" 99"} 4', 4.0),
    ],
)
def test_a_sample_is_read_in_every_form_of_the_format(line, value):
    page = f"# HELP load 5\n# TYPE load gauge\n{line}\nother 1\n".encode()
    assert [sample.value for sample in samples(page, "load")] == [value]


def test_labels_are_unescaped():
    page = b'load{name="a\\"b\\\\c\\nd",rank="0"} 1\n'
    assert samples(page, "load") == [Sample({"name": 'a"b\\c\nd', "rank": "0"}, 1.0)]


def test_only_the_exact_name_at_the_start_of_a_line_counts():
    page = b'load_total 1\nmy:load 2\n# load 3\nload_by_reason{a="b"} 4\n load 5\nload 6'
    assert [sample.value for sample in samples(page, "load")] == [6.0]


def test_the_first_line_of_a_page_counts():
    assert [sample.value for sample in samples(b"load 1\nload 2\n", "load")] == [1.0, 2.0]


@pytest.mark.parametrize("line", ["load +Inf", "load -Inf", "load NaN", "load x", "load ", "load", 'load{a="b} 3'])
def test_what_is_no_finite_number_is_skipped(line):
    assert [sample.value for sample in samples(f"{line}\nload 9\n".encode(), "load")] == [9.0]


def test_a_quote_that_is_never_closed_costs_one_pass():
    page = b'load{a="' + b"\\" * 1_000_000
    assert samples(page, "load") == []


@pytest.mark.parametrize(
    ("values", "expected"),
    [([], None), ([1.0, 2.5], 3.5), ([0.0], 0.0), ([-2.0], 0.0), ([1.7e308, 1.7e308, 1.7e308], None)],
)
def test_total_adds_ranks_and_knows_nothing_from_nothing(values, expected):
    assert total([Sample({}, value) for value in values]) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("16", 16), ("None", None), ("", None), ("0", None), ("-1", None), ("1.5", None), ("9" * 40, None), ("٣", None)],
)
def test_count_label_takes_whole_numbers_above_zero(text, expected):
    assert count_label(Sample({"n": text}, 1.0), "n") == expected


def test_count_label_without_the_label():
    assert count_label(Sample({}, 1.0), "n") is None


@given(st.binary(max_size=200))
def test_no_bytes_make_it_raise(noise):
    for page in (noise, b"load" + noise, b"x\nload{" + noise):
        assert all(math.isfinite(sample.value) for sample in samples(page, "load"))
