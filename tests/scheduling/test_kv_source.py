"""The rules of a consumer of KV events, each of which somebody has got wrong; told by what the index then matches."""

from __future__ import annotations

import pytest
from tests.support.kv_events import SIZE, ids, matches, name, prompt, removed, stored
from tests.support.pools import make_worker

from warmroute.prompts.fingerprint import pack_token_ids
from warmroute.prompts.token_blocks import TokenBlocks, extra_bytes
from warmroute.scheduling.exact_index import BLOCK_BYTES, ExactIndex
from warmroute.scheduling.kv_events import Cleared, Stored
from warmroute.scheduling.kv_source import SMALLEST_UNIT, KvSource


class House:
    """An index with one publisher."""

    def __init__(self, max_blocks: int = 1000) -> None:
        self.index = ExactIndex(max_blocks * BLOCK_BYTES)
        self.source = self.add("w")

    def add(self, worker: str, rank: int = 0) -> KvSource:
        return self.index.source(make_worker(worker), rank)

    def tell(self, *events: object) -> None:
        self.source.apply(events)  # type: ignore[arg-type]

    def matched(self, blocks: str, **more: object) -> int:
        return matches(self.index, prompt(blocks, **more)).get("w", 0)  # type: ignore[arg-type]


@pytest.fixture
def house() -> House:
    return House()


def test_blocks_come_and_go(house: House):
    house.tell(stored("abc"))
    assert [house.matched(blocks) for blocks in ("abcd", "abx", "b", "")] == [3, 2, 0, 0]
    house.tell(removed("abc"))
    assert house.matched("abcd") == 2
    house.tell(stored("abcd", 2))
    assert house.matched("abcd") == 4


def test_the_last_token_is_computed_in_any_case(house: House):
    """So a prompt that is cached as a whole hits one block less."""
    house.tell(stored("abc"))
    assert house.matched("abc", tail=0) == 2
    assert house.matched("abc", tail=1) == 3


def test_one_batch_may_evict_before_it_stores(house: House):
    house.tell(stored("ab"), removed("ab"), stored("ax", 1))
    assert house.matched("axx") == 2


def test_copies_are_counted(house: House):
    """A prompt that ends with a block has it computed again; each of the two copies is taken back by itself."""
    house.tell(stored("abc"), stored("abc", 2))
    house.tell(removed("abc"))
    assert house.matched("abcd") == 3
    house.tell(removed("abc"))
    assert house.matched("abcd") == 2


def test_full_reports_are_not_counted(house: House):
    """They announce again what is there, and nobody ever takes those announcements back."""
    house.source.counts_copies = False
    house.tell(stored("abc"), stored("abc"), stored("abc"), removed("abc"))
    assert house.matched("abcd") == 2


def test_what_was_never_announced_cannot_be_taken_back(house: House):
    house.tell(removed("a", "ab"), removed("a", tier="CPU"), stored("ab"), removed("ab", group=1))
    assert house.matched("abc") == 2
    house.tell(removed("ab"), removed("ab"), stored("ab", 1))
    assert house.matched("abc") == 2, "a count below zero would swallow it"


def test_tiers_hold_a_block_each(house: House):
    """Offloaded blocks may come without tokens; a block is there as long as one tier has it."""
    house.tell(stored("abc"), stored("abc", tier="CPU", tokens=b""))
    house.tell(removed("abc", "ab"))
    assert house.matched("abcd") == 3
    house.tell(removed("abc", tier="CPU"))
    assert house.matched("abcd") == 2


def test_offloaded_blocks_that_nobody_knows_are_counted(house: House):
    house.tell(stored("abc", tier="CPU", tokens=b""))
    assert house.matched("abc") == 0
    assert house.source.orphans == 3
    assert house.source.is_incomplete


def test_an_unknown_parent_is_not_dropped_silently(house: House):
    house.tell(stored("abcd", 2))
    assert house.matched("abcde") == 0
    assert house.source.is_incomplete
    assert house.source.orphans == 2
    # A replay brings them all in order.
    house.source.clear()
    house.tell(stored("ab"), stored("abcd", 2))
    assert house.matched("abcde") == 4


def test_another_engine_may_know_the_parent(house: House):
    """Equal engines name equal blocks equally. What the other holds is still not ours."""
    house.add("other").apply([stored("ab")])
    house.tell(stored("zz"), stored("abcd", 2))
    assert house.source.orphans == 0
    assert matches(house.index, prompt("abcd")) == {"other": 2}
    house.tell(stored("ab"))
    assert matches(house.index, prompt("abcd")) == {"other": 2, "w": 4}


def test_a_hole_ends_the_match(house: House):
    house.tell(stored("abcd"), removed("ab"))
    assert house.matched("abcde") == 1


def test_the_engine_clears_its_cache(house: House):
    house.tell(stored("abc"), stored("x", tier="CPU"), Cleared())
    assert house.matched("abc") == house.matched("xx") == 0
    assert house.index.held == 0
    house.tell(stored("abc"))
    assert house.matched("abcd") == 3


@pytest.mark.parametrize(
    "event",
    [
        stored("ab", dense=False, group=1),
        stored("ab", tokens=pack_token_ids(ids("ab")[:-1])),
        stored("ab", tokens=pack_token_ids(ids("abc"))),
        stored("ab", size=0),
        stored("ab", extras=(b"x",)),
    ],
)
def test_what_is_no_dense_span_is_refused(house: House, event: Stored):
    """Of hybrid models, groups with sliding windows or state-space layers; and tokens that do not fill the blocks."""
    house.tell(stored("q"), event)
    assert house.matched("ab") == 0
    assert house.source.refused == 2
    house.tell(removed("ab", group=event.group))
    assert house.matched("qq") == 1


def test_a_group_that_is_refused_takes_nothing_back(house: House):
    """All groups share their hashes: the removal of a window's block is not that of the prefix's."""
    house.tell(stored("ab"), stored("ab", dense=False, group=1), removed("ab", "a", group=1))
    assert house.matched("abc") == 2


def test_a_second_block_size_is_refused(house: House):
    house.tell(stored("ab"), stored("abcd", size=2 * SIZE))
    assert house.matched("abcd") == 2
    assert house.source.refused == 4


def test_salt_lora_and_images_keep_prompts_apart(house: House):
    house.tell(
        stored("ab", extras=(extra_bytes(["salt"]), b"")),
        Stored([101, 102], None, pack_token_ids(ids("ab")), SIZE, lora="adapter"),
        Stored([201, 202], None, pack_token_ids(ids("cd")), SIZE, extras=(b"", extra_bytes([["image", 3]]))),
    )
    assert house.matched("abc") == 0
    assert house.matched("abc", salt="salt") == 2
    assert house.matched("abc", salt="other") == 0
    assert matches(house.index, prompt("abc"), "adapter") == {"w": 2}
    assert matches(house.index, prompt("abc"), "base") == {}
    assert house.matched("cdx") == 1, "up to the image the text is the same"


def test_a_salt_that_the_engine_does_not_hash(house: House):
    """SGLang: equal hashes, told apart by a salt beside them. What is removed may be either; the count stays right."""
    house.tell(stored("ab", salt="one"), stored("ab", salt="two"), stored("abc", 2, salt="two"))
    assert house.matched("abcd") == 0
    assert house.matched("abcd", salt="one") == 2
    assert house.matched("abcd", salt="two") == 3
    house.tell(removed("abc"), removed("ab"), removed("ab"), removed("a"), removed("a"))
    assert house.matched("abcd", salt="one") == house.matched("abcd", salt="two") == 0
    assert len(house.source) == house.index.held == 0


@pytest.mark.parametrize("size", [1, 2, 5])
def test_small_blocks_are_taken_together(house: House, size: int):
    """SGLang's default block is one token."""
    unit = -(-SMALLEST_UNIT // size) * size
    tokens = list(range(3 * unit))
    per_unit = unit // size

    def span(start: int, end: int) -> Stored:
        parent = start - 1 if start else None
        packed = pack_token_ids(tokens[start * size : end * size])
        return Stored(list(range(start, end)), parent, packed, size)

    def matched() -> int:
        return house.index.match(TokenBlocks(pack_token_ids([*tokens, 1]))).get(house.source.worker, 0) // unit

    house.tell(span(0, per_unit - 1))
    assert matched() == 0
    house.tell(span(per_unit - 1, per_unit + 1), span(per_unit + 1, 3 * per_unit))
    assert matched() == 3
    house.tell(*(removed_one(number) for number in range(3 * per_unit - 1, per_unit - 1, -1)))
    assert matched() == 1
    assert house.index.held == len(house.source) == per_unit
    house.tell(Cleared())
    assert matched() == house.index.held == 0


def removed_one(number: int):
    event = removed("a")
    return type(event)([number])


def test_a_salt_with_small_blocks(house: House):
    packed = pack_token_ids(list(range(SMALLEST_UNIT)))
    house.tell(
        Stored(list(range(8)), None, packed[:32], 1, salt="s"), Stored(list(range(8, 16)), 7, packed[32:], 1, salt="s")
    )
    assert house.index.match(TokenBlocks(packed + packed[:4], "s")) == {house.source.worker: SMALLEST_UNIT}
    assert house.index.match(TokenBlocks(packed + packed[:4])) == {}


def test_a_name_that_stands_for_other_tokens_now(house: House):
    """The engine has restarted with another seed and nobody noticed: only what was told last counts."""
    house.tell(stored("ab"), Stored([name("a"), name("ab")], None, pack_token_ids(ids("xy")), SIZE))
    assert house.matched("abc") == 0
    assert house.matched("xyz") == 2


@pytest.mark.parametrize("size", [SIZE, 1])
def test_there_is_room_for_so_many_blocks_only(size: int):
    house = House(max_blocks=40)
    house.tell(Stored(list(range(64)), None, pack_token_ids(list(range(64 * size))), size))
    assert house.index.held <= 40 + 4
    assert house.source.refused >= 64 - 40
    assert house.source.stored == 40
    house.tell(Cleared())
    assert house.index.held == 0
