"""Keys of blocks: equal for equal prefixes of equal kind, different for all others, and taken over where they are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_64_intdigest

from warmroute.prompts.fingerprint import pack_token_ids
from warmroute.prompts.token_blocks import TokenBlocks, extra_bytes, root_key

SIZE = 4


def blocks(ids: list[int], salt: str | None = None) -> TokenBlocks:
    return TokenBlocks(pack_token_ids(ids), salt)


def test_the_formula():
    packed = pack_token_ids(list(range(8)))
    first = xxh3_64_intdigest(packed[:16], root_key(SIZE, "fr"))
    assert list(TokenBlocks(packed).keys(SIZE, "fr")) == [first, xxh3_64_intdigest(packed[16:], first)]
    salted = xxh3_64_intdigest(extra_bytes(["s"]), first)
    assert list(TokenBlocks(packed, "s").keys(SIZE, "fr")) == [salted, xxh3_64_intdigest(packed[16:], salted)]


def test_only_whole_blocks_have_keys():
    assert len(blocks(list(range(11))).keys(SIZE)) == 2
    assert list(blocks([1, 2, 3]).keys(SIZE)) == []
    assert list(blocks([]).keys(SIZE)) == []


def test_what_is_no_token_keeps_prompts_apart():
    ids = list(range(8))
    kinds = [
        blocks(ids).keys(SIZE),
        blocks(ids, "salt").keys(SIZE),
        blocks(ids, "other").keys(SIZE),
        blocks(ids).keys(SIZE, "adapter"),
        blocks(ids, "salt").keys(SIZE, "adapter"),
        blocks(ids).keys(2)[1::2],
    ]
    assert len({key for keys in kinds for key in keys}) == 12


@given(st.lists(st.integers(0, 2**32 - 1), max_size=40), st.integers(0, 40), st.sampled_from([None, "salt"]))
def test_what_is_taken_over_is_what_would_be_computed(ids: list[int], shared: int, salt: str | None):
    shared = min(shared, len(ids))
    earlier = blocks([*ids[:shared], 7, 7, 7, 7], salt)
    for size, lora in ((4, ""), (5, "a"), (16, "")):
        earlier.keys(size, lora)
    grown = TokenBlocks(pack_token_ids(ids), salt, known=earlier, shared_tokens=shared)
    for size, lora in ((4, ""), (5, "a"), (16, ""), (4, "a")):
        assert list(grown.keys(size, lora)) == list(blocks(ids, salt).keys(size, lora))


def test_keys_of_another_salt_are_not_taken_over():
    ids = list(range(8))
    earlier = blocks(ids, "one")
    earlier.keys(SIZE)
    grown = TokenBlocks(pack_token_ids(ids), "two", known=earlier, shared_tokens=8)
    assert list(grown.keys(SIZE)) == list(blocks(ids, "two").keys(SIZE))
