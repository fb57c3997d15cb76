import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_64_intdigest

from warmroute.prompts.fingerprint import chain_seed, fingerprint, pack_token_ids
from warmroute.prompts.ladder import Ladder

SMALL = Ladder.fixed(8)
ids = st.lists(st.integers(0, 2**32 - 1), max_size=40)


def test_the_chain_is_xxh3_seeded_with_the_hash_before():
    data = b"first---second--tail"
    first = xxh3_64_intdigest(b"first---", 7)
    assert fingerprint(data, SMALL, 7) == [first, xxh3_64_intdigest(b"second--", first)]


def test_less_than_a_block_has_no_fingerprint():
    assert fingerprint(b"x" * 255, Ladder.default(), 1) == []


@given(st.binary(max_size=100), st.binary(max_size=100))
def test_a_grown_prompt_keeps_its_hashes(data, more):
    hashes = fingerprint(data, SMALL, 3)
    assert fingerprint(data + more, SMALL, 3)[: len(hashes)] == hashes


@given(st.binary(min_size=8, max_size=100), st.data())
def test_a_changed_byte_changes_its_block_and_all_after_it(data, draw):
    covered = len(data) // 8 * 8
    position = draw.draw(st.integers(0, covered - 1))
    changed = bytearray(data)
    changed[position] ^= draw.draw(st.integers(1, 255))
    block = position // 8
    before, after = fingerprint(data, SMALL, 3), fingerprint(bytes(changed), SMALL, 3)
    assert before[:block] == after[:block]
    assert all(one != other for one, other in zip(before[block:], after[block:], strict=True))


@given(st.binary(min_size=8, max_size=50))
def test_another_seed_changes_every_hash(data):
    assert not set(fingerprint(data, SMALL, 1)) & set(fingerprint(data, SMALL, 2))


@given(st.binary(max_size=5000))
def test_a_view_hashes_like_the_bytes(data):
    ladder = Ladder.default()
    assert fingerprint(memoryview(b"[" + data)[1:], ladder, 9) == fingerprint(data, ladder, 9)
    assert len(fingerprint(data, ladder, 9)) == ladder.depth(len(data))


def test_seeds_tell_apart_where_one_part_ends():
    assert chain_seed((b"ab", b"c")) != chain_seed((b"a", b"bc"))
    assert chain_seed((b"a", b"")) != chain_seed((b"", b"a"))


@given(ids)
def test_token_ids_are_packed_as_four_little_endian_bytes(token_ids):
    assert pack_token_ids(token_ids) == struct.pack(f"<{len(token_ids)}I", *token_ids)


@pytest.mark.parametrize("token_id", [-1, 2**32, 2**70, 1.5, "1", None])
def test_what_is_no_token_id_is_refused(token_id):
    with pytest.raises(ValueError, match="token ids must be"):
        pack_token_ids([1, token_id])
