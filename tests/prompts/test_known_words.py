"""Words that were encoded before, in any text, are the tokens that the tokenizer makes of that text."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from warmroute.prompts import known_words
from warmroute.prompts.known_words import KnownWords
from warmroute.prompts.tokenizer import LocalTokenizer

LLAMA = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
SPLITS = {
    "gpt2": pre_tokenizers.ByteLevel(add_prefix_space=False),
    "llama": LLAMA,
    "qwen": LLAMA.replace("{1,3}", ""),
    "all in one": pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
}
SAMPLES = [
    "a ab abc b bc bcd's don't 12 123 1234 a1 é éa\n\na b  c   ab\tab a-b a_b it's IT'S <|s|>a b<|e|>\n",
    "a b c ab",
] * 9


class Listening(LocalTokenizer):
    """Tells what it was asked to encode."""

    def encode_parts(self, parts: Sequence[str]) -> list[array[int]]:
        self.asked = list(parts)
        return super().encode_parts(parts)


def make(directory: Path, split: str) -> Listening:
    tokenizer = Tokenizer(models.BPE())
    pre_tokenizer = SPLITS[split]
    if isinstance(pre_tokenizer, str):
        pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(pre_tokenizer), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizer
    trainer = trainers.BpeTrainer(
        vocab_size=330,
        special_tokens=["<|s|>", "<|e|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(SAMPLES, trainer)
    tokenizer.add_tokens(["bcd", AddedToken("b", single_word=True), AddedToken("<x>", lstrip=True, rstrip=True)])
    tokenizer.save(str(directory / "tokenizer.json"))
    return Listening(directory / "tokenizer.json")


@pytest.fixture(scope="module", params=SPLITS)
def tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LocalTokenizer:
    return make(tmp_path_factory.mktemp("tokenizer"), request.param)


WORDS = st.sampled_from(
    [
        *"ab ' ' ' \n\t1-.é\u0301",
        "ab",
        "abc",
        "bcd",
        " a",
        " ab",
        "'s",
        "12",
        "  ",
        "<|s|>",
        "<|e|>",
        "<x>",
        "\u4f60",
        "\xa0",
    ]
)
TEXTS = st.lists(st.lists(WORDS, max_size=30).map("".join), max_size=6)


@given(st.lists(TEXTS, max_size=4))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_whatever_was_encoded_before_the_tokens_are_those_of_the_texts(
    tokenizer: LocalTokenizer, rounds: list[list[str]]
):
    words = KnownWords(tokenizer)
    for texts in rounds:
        assert words.encode_parts(texts) == tokenizer.encode_parts(texts)


@pytest.mark.parametrize("split", SPLITS)
def test_what_was_encoded_is_not_encoded_again(tmp_path: Path, split: str):
    tokenizer = make(tmp_path, split)
    words = KnownWords(tokenizer)
    text = "<|s|>user\na bcd ab, abc " + "y" * 30
    first = words.encode_parts([text])
    assert words.encode_parts([text]) == first
    # What is too long is not kept.
    assert tokenizer.asked == ([text] if split == "all in one" else [" " + "y" * 30])


def test_it_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(known_words, "_MOST_WORDS", 3)
    tokenizer = make(tmp_path, "gpt2")
    words = KnownWords(tokenizer)
    for text in ("a b c", "a c b", "ab abc bc", "a b c d e f g", "g f"):
        assert words.encode_parts([text]) == tokenizer.encode_parts([text])
        assert len(words._known) <= 7
