import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmroute.prompts.ladder import Ladder

LADDERS = [Ladder.default(), Ladder.fixed(63), Ladder.fixed(1024), Ladder.fixed(10_000)]
ladders = st.sampled_from(LADDERS)


def test_the_default_widens_with_depth():
    """Every 256 B up to 4 KiB, 1 KiB up to 32 KiB, 4 KiB up to 256 KiB, then every 16 KiB."""
    ends = Ladder.default().block_ends(400 * 1024)
    widths = [end - start for start, end in zip((0, *ends), ends, strict=False)]
    assert widths == [256] * 16 + [1024] * 28 + [4096] * 56 + [16384] * 9
    assert ends[15] == 4 * 1024
    assert ends[43] == 32 * 1024
    assert ends[99] == 256 * 1024


def test_fixed_blocks_have_one_width():
    assert list(Ladder.fixed(64).block_ends(200)) == [64, 128, 192]


def test_a_block_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least 1"):
        Ladder.fixed(0)


@given(ladders, st.integers(0, 600_000))
def test_block_ends_are_the_whole_blocks_and_no_more(ladder, length):
    ends = ladder.block_ends(length)
    assert len(ends) == ladder.depth(length)
    assert all(end <= length for end in ends)
    assert ladder.bytes_at(len(ends) + 1) > length


@given(ladders, st.integers(0, 600_000))
def test_tokens_at_agrees_with_the_ends_that_are_hashed(ladder, length):
    ends = ladder.block_ends(length)
    assert [ladder.bytes_at(depth) for depth in range(len(ends) + 1)] == [0, *ends]
    assert ladder.tokens_at(len(ends)) == (ends[-1] if ends else 0) // 4


@given(ladders, st.integers(0, 600_000), st.integers(0, 600_000))
def test_a_longer_prompt_keeps_the_blocks_of_a_shorter_one(ladder, one, other):
    shorter, longer = sorted((one, other))
    ends = ladder.block_ends(shorter)
    assert ladder.block_ends(longer)[: len(ends)] == ends


def test_ladders_are_values():
    assert Ladder.default() == Ladder.default()
    assert hash(Ladder.fixed(64)) == hash(Ladder.fixed(64))
    assert Ladder.fixed(64) != Ladder.fixed(128)
