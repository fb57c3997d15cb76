"""Messages of publishers: both encodings at both levels, and everything that may be wrong with one."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmroute.engines.kv_events.batch import read_batch, read_message, sequence_bytes
from warmroute.prompts.fingerprint import pack_token_ids
from warmroute.prompts.token_blocks import extra_bytes
from warmroute.scheduling.kv_events import Cleared, Removed, Stored

TOKENS = list(range(8))
LEGACY = ["BlockStored", [1, 2], None, TOKENS, 4, None, "GPU", None, [None, None], 0, "full_attention", None]
MAP = {
    "type": "BlockStored",
    "block_hashes": [1, 2],
    "parent_block_hash": None,
    "token_ids": TOKENS,
    "block_size": 4,
    "lora_id": None,
    "medium": "GPU",
    "lora_name": None,
    "extra_keys": [None, None],
    "group_idx": 0,
    "kv_cache_spec_kind": "full_attention",
}
PLAIN = Stored([1, 2], None, pack_token_ids(TOKENS), 4)


def packed(*events: Any, rank: int | None = 0) -> bytes:
    return msgspec.msgpack.encode([1.5, list(events), rank])


def read(event: Any) -> Any:
    batch = read_batch(packed(event))
    assert batch.unreadable == 0
    return batch.events[0] if batch.events else None


def changed(**fields: Any) -> dict[str, Any]:
    return {**MAP, **fields}


@pytest.mark.parametrize("event", [LEGACY, LEGACY[:7], LEGACY[:6], LEGACY[:5], MAP])
def test_a_stored_event_in_either_encoding(event: Any):
    assert read(event) == PLAIN


def test_a_batch_as_an_array_or_as_a_map():
    as_map = msgspec.msgpack.encode({"ts": 1.5, "events": [MAP, LEGACY], "data_parallel_rank": 3, "new": 1})
    assert read_batch(as_map) == ([PLAIN, PLAIN], 3, 0)
    assert read_batch(packed(LEGACY, MAP, rank=None)) == ([PLAIN, PLAIN], None, 0)
    assert read_batch(msgspec.msgpack.encode([1.5, [MAP]])).rank is None


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (["BlockRemoved", [7], "CPU", 2], Removed([7], "CPU", 2)),
        (["BlockRemoved", [7]], Removed([7])),
        ({"type": "BlockRemoved", "block_hashes": [7], "medium": "GPU", "group_idx": 0}, Removed([7])),
        (["AllBlocksCleared"], Cleared()),
        ({"type": "AllBlocksCleared"}, Cleared()),
        # What is not known yet is no error.
        ({"type": "BlockInactive", "block_hashes": "?"}, None),
        (["BlockOffsets", 1, 2, 3], None),
        (changed(locality="x", session_id="s", block_offsets=[0]), PLAIN),
        ([*LEGACY, "more", {"than": "today"}], PLAIN),
    ],
)
def test_the_other_events_and_what_is_new(event: Any, expected: Any):
    assert read(event) == expected


def test_hashes_are_signed_unsigned_or_bytes():
    """SGLang publishes signed numbers, vLLM unsigned ones or whole digests."""
    digest = bytes(range(24)) + (2**64 - 5).to_bytes(8, "big")
    for value in (-5, 2**64 - 5, digest):
        assert read(changed(block_hashes=[value, 1], parent_block_hash=value)).hashes == [2**64 - 5, 1]
        assert read(changed(parent_block_hash=value)).parent == 2**64 - 5
        assert read(["BlockRemoved", [value]]).hashes == [2**64 - 5]


def test_what_else_decides_a_block():
    """The adapter's name is in vLLM's extra keys as well; what is left of them is told apart."""
    event = changed(lora_name="fr", lora_id=3, extra_keys=[["fr", "salt"], ["fr", ["image", 4]]])
    read_event = read(event)
    assert read_event.lora == "fr"
    assert read_event.extras == [extra_bytes(["salt"]), extra_bytes([["image", 4]])]
    assert read(changed(extra_keys=[["salt"], None])).extras == [extra_bytes(["salt"]), b""]
    assert read(changed(lora_id=3)).lora not in ("", "3")
    assert read(changed(extra_keys=["image", None])).extras == [extra_bytes(["image"]), b""]


def test_sglang_has_a_map_in_the_place_of_the_adapters_name():
    event = [*LEGACY[:7], {"cache_salt": "tenant", "session_id": "s"}]
    assert read(event) == Stored([1, 2], None, pack_token_ids(TOKENS), 4, salt="tenant")


def test_kinds_of_cache_and_tiers():
    assert not read(changed(kv_cache_spec_kind="sliding_window")).dense
    assert read(changed(kv_cache_spec_kind="mla_attention")).dense
    assert read(changed(medium="cpu", group_idx=2)).tier == "CPU"
    assert read(changed(medium=None)).tier == "GPU"


@pytest.mark.parametrize(
    "event",
    [
        changed(block_hashes=None),
        changed(block_hashes=["text"]),
        changed(block_hashes=[b""]),
        changed(token_ids=None),
        changed(token_ids=[-1] * 8),
        changed(token_ids=[2**33] * 8),
        changed(token_ids=["a"] * 8),
        changed(block_size="4"),
        changed(block_size=None),
        changed(group_idx=-1),
        changed(parent_block_hash=1.5),
        {},
        [],
        [1, 2],
        7,
        None,
        {"type": ["BlockStored"]},
    ],
)
def test_an_event_that_cannot_be_read_costs_only_itself(event: Any):
    """An over-long token array must not cost the removals of its batch."""
    batch = read_batch(packed(["BlockRemoved", [1]], event, ["BlockRemoved", [2]]))
    assert [one.hashes for one in batch.events] == [[1], [2]]
    assert batch.unreadable <= 1


NO_BATCHES: list[Any] = [[1.0], {"ts": 1}, "x", [1.0, None]]


@pytest.mark.parametrize("payload", [b"", b"\xc1", b"\x91" * 5000, *map(msgspec.msgpack.encode, NO_BATCHES)])
def test_what_is_no_batch(payload: bytes):
    with pytest.raises(ValueError, match=r"batch|msgpack"):
        read_batch(payload)


def test_frames_are_read_from_the_right():
    """Newer publishers put the topic into their replays, older ones do not."""
    for frames in ([b"kv@a@m", sequence_bytes(9), b"p"], [b"", sequence_bytes(9), b"p"]):
        assert read_message(frames) == (9, b"p")
    assert read_message([b"", b"kv@a@m", sequence_bytes(9), b"p"]) == (9, b"p")
    assert read_message([b"", b"", b"\xff" * 8, b""]).ends_replay
    assert not read_message([b"", sequence_bytes(9), b"p"]).ends_replay


@pytest.mark.parametrize("frames", [[], [b"x"], [b"t", b"short", b"p"], [b"", b"p"]])
def test_other_frames_are_refused(frames: list[bytes]):
    with pytest.raises(ValueError, match="frames"):
        read_message(frames)


JSON_LIKE = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=4) | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(JSON_LIKE | st.lists(JSON_LIKE).map(lambda rest: ["BlockStored", *rest]), max_size=4))
def test_any_events_are_read_or_counted(events: list[Any]):
    batch = read_batch(packed(*events))
    assert len(batch.events) + batch.unreadable <= len(events)


@given(st.binary(max_size=40))
def test_any_bytes_are_a_batch_or_an_error(payload: bytes):
    with suppress(ValueError):
        assert read_batch(payload).unreadable >= 0
