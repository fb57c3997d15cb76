"""Tokens of a growing conversation: always those of the whole text, at the price of its tail."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from warmroute.prompts.fingerprint import fingerprint, pack_token_ids
from warmroute.prompts.ladder import Ladder
from warmroute.prompts.token_blocks import TokenBlocks
from warmroute.prompts.token_cache import TokenCache

LADDER = Ladder.default()


class Letters:
    """A tokenizer that makes one token of each special token, and of each run of equal signs up to three."""

    specials = ("<s>", "<end>")
    cuts_at_lines = True

    def __init__(self) -> None:
        self.encoded = 0

    def encode_parts(self, parts: Sequence[str]) -> list[array[int]]:
        self.encoded += sum(map(len, parts))
        return [array("I", self.ids(part)) for part in parts]

    def special(self, text: str, at: int) -> str:
        return next((one for one in self.specials if text.startswith(one, at)), "")

    def ids(self, text: str) -> list[int]:
        ids, at = [], 0
        while at < len(text):
            special = self.special(text, at)
            run = special or text[at]
            while not special and len(run) < 3 and text[at + len(run) : at + len(run) + 1] == text[at] != "\n":
                if self.special(text, at + len(run)):
                    break
                run += text[at]
            ids.append(hash(run) & 0xFFFF if not special else self.specials.index(special))
            at += len(run)
        return ids


def tokens_of(
    cache: TokenCache,
    encoder: Letters,
    text: str,
    prefix: array[int] | None = None,
    pieces: Sequence[str] | None = None,
) -> TokenBlocks:
    """`pieces` are those of the text, if there are several."""
    work = cache.plan(pieces or [text], fingerprint(text.encode("utf-8", "surrogatepass"), LADDER, 0))
    return cache.finish(work, encoder.encode_parts(work.parts), None, 0, prefix)


def make(max_bytes: int = 1 << 30) -> tuple[TokenCache, Letters]:
    encoder = Letters()
    return TokenCache(encoder, max_bytes), encoder


def turns(count: int, size: int = 600, name: str = "") -> list[str]:
    """A conversation as its template renders it, turn by turn."""
    texts, text = [], f"<s>system {name}" + "aab" * size + "<end>\n"
    for turn in range(count):
        text += f"<s>user {turn}" + "ccd\n" * size + "<end>\n"
        texts.append(text + "<s>assistant\n")
        text += "<s>assistant\n" + "eef" * size + "<end>\n"
    return texts


def test_a_growing_conversation_costs_its_tail():
    cache, encoder = make()
    texts = turns(6)
    before = 0
    for text in texts:
        encoder.encoded = 0
        blocks = tokens_of(cache, encoder, text)
        assert blocks.packed == pack_token_ids(encoder.ids(text))
        added = len(text) - before
        assert encoder.encoded <= added + len("<s>assistant\n")
        before = len(text)


def test_only_the_longest_text_of_a_conversation_is_kept():
    cache, encoder = make()
    sizes = []
    for text in turns(5):
        tokens_of(cache, encoder, text)
        sizes.append(cache.size_bytes / len(text))
    assert max(sizes) < 1.2 * min(sizes)


def test_keys_are_taken_over():
    cache, encoder = make()
    texts = turns(3)
    for text in texts:
        blocks = tokens_of(cache, encoder, text)
        assert list(blocks.keys(16)) == list(TokenBlocks(blocks.packed).keys(16))


def test_conversations_with_one_system_prompt_share_its_tokens():
    cache, encoder = make()
    system = "<s>" + "abc" * 3000 + "<end>\n"
    tokens_of(cache, encoder, system + "<s>one" + "x" * 500 + "<end>\n<s>")
    encoder.encoded = 0
    text = system + "<s>two" + "y" * 500 + "<end>\n<s>"
    assert tokens_of(cache, encoder, text).packed == pack_token_ids(encoder.ids(text))
    assert encoder.encoded < 600


def test_a_long_text_without_special_tokens_is_cut_at_lines():
    cache, encoder = make()
    text = "some words here\n" * 2000
    tokens_of(cache, encoder, text)
    encoder.encoded = 0
    longer = text + "and more\n" * 10
    assert tokens_of(cache, encoder, longer).packed == pack_token_ids(encoder.ids(longer))
    assert encoder.encoded < 10_000


def test_what_stands_before_every_text_is_counted():
    cache, encoder = make()
    prefix = array("I", [7, 8])
    for text in turns(3):
        blocks = tokens_of(cache, encoder, text, prefix)
        assert blocks.packed == pack_token_ids([7, 8, *encoder.ids(text)])


@pytest.mark.parametrize("rest", ["", "a", "aaaa<s>", "<s", "<end>", "<s>more", "\n", "\nmore"])
def test_a_text_that_parts_from_a_known_one_where_that_was_cut(rest: str):
    """The known one was cut before its special token, behind 4,100 signs in runs of three. With more signs there the
    last run is another.
    """
    cache, encoder = make()
    tokens_of(cache, encoder, "a" * 4100 + "<s>" + "b" * 100)
    text = "a" * 4100 + rest
    assert tokens_of(cache, encoder, text).packed == pack_token_ids(encoder.ids(text))


def test_it_is_bounded():
    cache, encoder = make(max_bytes=40_000)
    for number in range(20):
        for text in turns(2, name=str(number)):
            assert tokens_of(cache, encoder, text).packed == pack_token_ids(encoder.ids(text))
            assert cache.size_bytes <= 40_000
    cache, encoder = make(max_bytes=100)
    assert tokens_of(cache, encoder, turns(1)[0]).tokens > 0
    assert cache.size_bytes == 0


PIECES = st.sampled_from(
    ["<s>", "<end>", "<s", "a" * 300, "aab" * 90, "\n", "\nx", " \n", "é" * 200, "b" * 5000, "\ud800"]
)


@given(
    st.lists(st.tuples(st.lists(PIECES, max_size=8), st.integers(0, 8)), max_size=8), st.sampled_from([3000, 1 << 20])
)
def test_whatever_was_tokenised_before_the_tokens_are_those_of_the_text(
    changes: list[tuple[list[str], int]], max_bytes: int
):
    """Texts that grow, are cut back and diverge, in any order."""
    cache, encoder = make(max_bytes)
    pieces: list[str] = []
    for added, kept in changes:
        pieces = pieces[: max(0, len(pieces) - kept)] + added
        text = "".join(pieces)
        assert tokens_of(cache, encoder, text, pieces=pieces).packed == pack_token_ids(encoder.ids(text))
        assert cache.size_bytes <= max_bytes


@example(["<<s>"], [], 0)
@given(st.lists(st.text("<s>endab\n", max_size=6)), st.lists(st.text("<s>endab\n", max_size=6)), st.integers(0, 9))
def test_a_text_may_come_in_other_pieces(known: list[str], added: list[str], kept: int):
    """What is shared need not end with a piece, nor a piece where the text may be cut."""
    cache, encoder = make()
    head = "x" * 300
    for pieces in ([head, *known], [head, *known[:kept], *added], [head + "".join(known[:kept]), *added]):
        text = "".join(pieces)
        assert tokens_of(cache, encoder, text, pieces=pieces).packed == pack_token_ids(encoder.ids(text))
