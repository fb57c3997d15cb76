"""One message of a KV-event publisher: its frames, and the msgpack batch in the last of them.

Published: [topic, sequence number (8 bytes, big-endian), batch]. Replayed: [b"", sequence number, batch] or
[b"", topic, sequence number, batch]; an empty batch is the end. A batch is [time, [event, ...], data-parallel rank or
nil], or a map with ts, events and data_parallel_rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from warmroute.engines.kv_events.mapped import read_mapped
from warmroute.engines.kv_events.positional import read_positional
from warmroute.scheduling.kv_events import KvEvent

_SEQUENCE_BYTES = 8


class Message(NamedTuple):
    """A message that is not decoded yet."""

    sequence: int
    payload: bytes

    @property
    def ends_replay(self) -> bool:
        """Whether nothing more is replayed."""
        return not self.payload


class Batch(NamedTuple):
    """The events of a message in their order. `rank` is None where the engine tells none."""

    events: Sequence[KvEvent]
    rank: int | None = None
    unreadable: int = 0
    """Events that could not be read."""


def read_message(frames: Sequence[bytes]) -> Message:
    """The frames of a message, published or replayed: read from the right. ValueError for other frames."""
    if len(frames) < 2 or len(frames[-2]) != _SEQUENCE_BYTES:
        raise ValueError(f"not the frames of KV events: {len(frames)} of {[len(frame) for frame in frames][:8]} bytes")
    return Message(int.from_bytes(frames[-2], "big"), frames[-1])


def sequence_bytes(sequence: int) -> bytes:
    """The frame that asks for a replay from this number on."""
    return sequence.to_bytes(_SEQUENCE_BYTES, "big")


def read_batch(payload: bytes) -> Batch:
    """Decode a batch. ValueError when it is none."""
    try:
        batch = msgspec.msgpack.decode(payload)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"not msgpack: {error}") from error
    if isinstance(batch, dict):
        raw, rank = batch.get("events"), batch.get("data_parallel_rank")
    elif isinstance(batch, list) and len(batch) >= 2:
        raw, rank = batch[1], batch[2] if len(batch) > 2 else None
    else:
        raise ValueError("a batch is an array or a map")
    if not isinstance(raw, list):
        raise ValueError("a batch without a list of events")
    events: list[KvEvent] = []
    unreadable = 0
    for item in raw:
        try:
            event = _read_event(item)
        except (ValueError, TypeError, OverflowError):
            unreadable += 1
            continue
        if event is not None:
            events.append(event)
    return Batch(events, rank if isinstance(rank, int) else None, unreadable)


def _read_event(item: object) -> KvEvent | None:
    if isinstance(item, dict):
        return read_mapped(item)
    if isinstance(item, list):
        return read_positional(item)
    raise ValueError("an event is an array or a map")
