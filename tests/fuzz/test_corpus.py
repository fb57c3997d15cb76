"""The seeds of the fuzz targets: none shows a fault, and each target reaches what it is to check."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fuzz import edge, upstream

CORPUS = Path(__file__).parent / "corpus"
UPSTREAM = {path.name: path.read_bytes() for path in sorted((CORPUS / "upstream").iterdir())}
EDGE = {path.name: path.read_bytes() for path in sorted((CORPUS / "edge").iterdir())}


@pytest.fixture(scope="module")
def door():
    made = edge.Edge()
    yield made
    made.close()


@pytest.mark.parametrize("data", UPSTREAM.values(), ids=UPSTREAM)
def test_a_seed_of_an_engine_shows_no_fault(data):
    upstream.check(data)


@pytest.mark.parametrize("data", EDGE.values(), ids=EDGE)
def test_a_seed_of_a_client_shows_no_fault(door, data):
    edge.check(data, door)


@pytest.mark.parametrize(
    ("seed", "requests"),
    [
        ("plain", 1),
        ("two", 2),
        ("chunked", 1),
        ("absolute", 1),
        ("upgrade", 1),
        ("both", 0),
        ("lengths", 0),
        ("fold", 0),
    ],
)
def test_seeds_get_as_far_as_they_are_to(door, seed, requests):
    assert len(door.play([EDGE[seed][1:]])) == requests


def test_a_second_request_in_a_body_would_be_noticed():
    with pytest.raises(AssertionError):
        edge.check_for_worker(b"POST / HTTP/1.1\r\nHost: a\r\nx-request-id: i\r\nContent-Length: 1\r\n\r\n", b"xPOST")


def edits(seeds):
    """A seed with a few bytes changed."""

    @st.composite
    def damaged(draw):
        data = bytearray(draw(st.sampled_from(seeds)))
        for _ in range(draw(st.integers(0, 4))):
            start = draw(st.integers(0, len(data)))
            data[start : start + draw(st.integers(0, 6))] = draw(st.binary(max_size=6))
        return bytes(data)

    return damaged()


@settings(max_examples=200)
@given(edits(sorted(UPSTREAM.values())))
def test_a_damaged_answer_shows_no_fault(data):
    upstream.check(data)


@settings(max_examples=60)
@given(data=edits(sorted(EDGE.values())))
def test_a_damaged_request_shows_no_fault(door, data):
    edge.check(data, door)
