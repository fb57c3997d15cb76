"""The seeds of the fuzz targets: none shows a fault, and each target reaches what it is to check."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fuzz import edge, kept, upstream
from tests.fuzz.cutting import pieces_of
from tests.support.builds import needs_source

from warmroute.gateway.known_head import KnownHead

UPSTREAM = {path.name: path.read_bytes() for path in sorted((kept.CORPUS / "upstream").iterdir())}
EDGE = {path.name: path.read_bytes() for path in sorted((kept.CORPUS / "edge").iterdir())}


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


def test_what_was_kept_of_engines_shows_no_fault():
    for data in kept.read("upstream"):
        upstream.check(data)


def test_what_was_kept_of_clients_shows_no_fault(door):
    for data in kept.read("edge"):
        edge.check(data, door)


def test_inputs_are_kept_as_they_are(tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "CORPUS", tmp_path)
    assert kept.read("edge") == []
    kept.pack("edge", [b"\n\xff", b"", b"a", b"a"])
    assert kept.read("edge") == [b"", b"a", b"\n\xff"]
    kept.unpack("edge", tmp_path)
    assert sorted(path.read_bytes() for path in tmp_path.iterdir() if path.suffix != ".kept") == [b"", b"\n\xff", b"a"]


def test_cuts_by_meaning_are_before_messages_and_chunks():
    pieces = [b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n", b"3\r\n{}\n\r\n", b"0\r\n\r\n"]
    assert pieces_of(b"\xff" + b"".join(pieces)) == (b"".join(pieces), pieces)
    assert pieces_of(EDGE["known"])[1][0].endswith(b'{"a":1}')


@needs_source
@pytest.mark.parametrize("check", ["upstream", "edge"])
def test_a_head_that_is_known_wrongly_would_be_noticed(door, monkeypatch, check):
    right = KnownHead.body_start

    def wrong(head, data):
        start = right(head, data)
        return start if start < 0 else start + 1

    monkeypatch.setattr(KnownHead, "body_start", wrong)
    play = partial(edge.check, EDGE["known"], door) if check == "edge" else partial(upstream.check, UPSTREAM["length"])
    with pytest.raises(AssertionError):
        play()


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
