"""Keys of blocks: equal for equal prefixes of equal kind, different for all others, and taken over where they are."""

from __future__ import annotations

import gc
import tracemalloc
from random import Random

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
    grown = TokenBlocks(pack_token_ids(ids[shared:]), salt, known=earlier, shared_tokens=shared)
    for size, lora in ((4, ""), (5, "a"), (16, ""), (4, "a")):
        assert own_keys(grown, size, lora) == list(blocks(ids, salt).keys(size, lora))


def own_keys(prompt: TokenBlocks, size: int, lora: str = "") -> list[int]:
    """Without those that a longer prompt has added."""
    return list(prompt.keys(size, lora))[: prompt.tokens // size]


@given(seed=st.integers(0, 1 << 32), size=st.sampled_from([4, 5, 512]), most=st.sampled_from([3, 700, 5000]))
def test_conversations_that_branch_again_and_again(seed: int, size: int, most: int):
    """Whatever shares what with whom, each has its own tokens and keys, in whatever order they are asked for."""
    rng = Random(seed)
    known: list[tuple[list[int], TokenBlocks]] = [([], blocks([]))]
    for _ in range(100):
        ids, earlier = rng.choice(known[-3:])
        shared = rng.choice([len(ids), len(ids), max(0, len(ids) - rng.randrange(most)), rng.randint(0, len(ids))])
        new = [rng.randrange(1 << 32) for _ in range(rng.randrange(most))]
        grown = TokenBlocks(pack_token_ids(new), known=earlier, shared_tokens=shared)
        known.append(([*ids[:shared], *new], grown))
        if rng.random() < 0.5:
            grown.keys(size)
    for ids, prompt in known:
        assert prompt.tokens == len(ids)
        assert prompt.packed == pack_token_ids(ids)
        assert own_keys(prompt, size) == list(blocks(ids).keys(size))


def test_a_prompt_that_is_sent_again_and_again_takes_no_more_memory():
    """Each is made from the one before; what they keep of each other has an end."""
    prompt = blocks(list(range(20_000)))
    gc.collect()
    tracemalloc.start()
    try:
        for _ in range(1000):
            prompt = TokenBlocks(b"", known=prompt, shared_tokens=19_900)
            prompt = TokenBlocks(pack_token_ids(list(range(100))), known=prompt, shared_tokens=19_900)
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert used < 4 * 80_000


def test_what_is_taken_over_does_not_keep_what_is_not():
    long = blocks(list(range(100_000)))
    gc.collect()
    tracemalloc.start()
    try:
        for _ in range(20):
            kept = TokenBlocks(pack_token_ids(list(range(100_000))), known=long, shared_tokens=1000)
            long = TokenBlocks(b"", known=kept, shared_tokens=2000)
        del kept
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert long.tokens == 2000
    assert used < 100_000


def test_what_is_taken_over_does_not_keep_the_keys_of_every_turn():
    """The last tokens of a turn are mostly encoded anew in the next, so that its keys are none that went before."""
    prompt = blocks(list(range(40_000)))
    gc.collect()
    tracemalloc.start()
    try:
        for _ in range(50):
            new = pack_token_ids(list(range(600)))
            prompt = TokenBlocks(new, known=prompt, shared_tokens=prompt.tokens - 50)
            prompt.keys(SIZE)
        used = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert used < 60 * prompt.tokens


def test_keys_of_another_salt_are_not_taken_over():
    ids = list(range(8))
    earlier = blocks(ids, "one")
    earlier.keys(SIZE)
    grown = TokenBlocks(b"", "two", known=earlier, shared_tokens=8)
    assert list(grown.keys(SIZE)) == list(blocks(ids, "two").keys(SIZE))
