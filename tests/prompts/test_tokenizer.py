import sys

import pytest
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, processors

from warmroute.prompts.tokenizer import LocalTokenizer, TokenizerError


@pytest.fixture
def tokenizer_file(tmp_path):
    vocabulary = {"[BOS]": 0, "[PAD]": 1, "hello": 2, "world": 3}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[PAD]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(single="[BOS] $A", special_tokens=[("[BOS]", 0)])
    tokenizer.enable_truncation(3)
    tokenizer.enable_padding(length=8, pad_id=1, pad_token="[PAD]")
    path = tmp_path / "tokenizer.json"
    tokenizer.save(str(path))
    return path


def test_text_becomes_ids_in_full_and_without_additions(tokenizer_file):
    assert LocalTokenizer(tokenizer_file).encode("hello world hello world hello") == [2, 3, 2, 3, 2]


def test_no_text_has_no_ids(tokenizer_file):
    assert LocalTokenizer(str(tokenizer_file)).encode("") == []


def test_a_text_that_is_no_unicode_is_an_error_of_ours(tokenizer_file):
    with pytest.raises(TokenizerError, match="cannot be tokenised"):
        LocalTokenizer(tokenizer_file).encode("\ud800")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(TokenizerError, match=r"nowhere\.json cannot be used"):
        LocalTokenizer(tmp_path / "nowhere.json")


def test_a_broken_file_is_named(tmp_path):
    path = tmp_path / "broken.json"
    path.write_text("{")
    with pytest.raises(TokenizerError, match=r"broken\.json cannot be used"):
        LocalTokenizer(path)


def test_a_missing_library_names_the_extra(tokenizer_file, monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(TokenizerError, match=r"warmroute\[tokenizer\]"):
        LocalTokenizer(tokenizer_file)


def test_the_library_is_imported_only_when_asked_for():
    """Importing the module must not need the extra."""
    module = sys.modules["warmroute.prompts.tokenizer"]
    assert not hasattr(module, "Tokenizer")


def byte_level(tmp_path, pre_tokenizer, *added):
    tokenizer = Tokenizer(
        models.BPE({one: number for number, one in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, [])
    )
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.add_special_tokens(["<|end|>", *added])
    path = tmp_path / "tokenizer.json"
    tokenizer.save(str(path))
    return LocalTokenizer(path)


def test_where_a_text_may_be_cut(tmp_path):
    """Before special tokens, and at lines if that changes nothing."""
    local = byte_level(tmp_path, pre_tokenizers.ByteLevel(add_prefix_space=False))
    assert local.specials == ["<|end|>"]
    assert local.cuts_at_lines
    # Each piece gets a space before it: a piece that begins inside a text would get one as well.
    assert not byte_level(tmp_path, pre_tokenizers.ByteLevel(add_prefix_space=True)).cuts_at_lines


def test_a_text_is_not_cut_before_a_token_that_takes_white_space_before_it(tmp_path):
    greedy = AddedToken("<|greedy|>", lstrip=True, special=True)
    local = byte_level(tmp_path, pre_tokenizers.ByteLevel(add_prefix_space=False), greedy)
    line, rest = "a\n", "<|greedy|>b"
    assert local.encode(line + rest) != local.encode(line) + local.encode(rest)
    assert local.specials == ["<|end|>"]
    assert not local.cuts_at_lines


def test_a_text_is_not_cut_before_specials_if_tokens_look_around_themselves(tmp_path):
    word = AddedToken("word", single_word=True, special=True)
    local = byte_level(tmp_path, pre_tokenizers.ByteLevel(add_prefix_space=False), word)
    assert local.encode("aword") != local.encode("a") + local.encode("word")
    assert local.specials == []
    assert local.cuts_at_lines


def test_parts_are_encoded_by_themselves(tmp_path):
    local = byte_level(tmp_path, pre_tokenizers.ByteLevel(add_prefix_space=False))
    parts = ["abc", "<|end|>d", ""]
    assert [list(ids) for ids in local.encode_parts(parts)] == [local.encode(part) for part in parts]
    with pytest.raises(TokenizerError, match="cannot be tokenised"):
        local.encode_parts(["\ud800"])


def test_what_is_put_before_a_text(tokenizer_file, tmp_path):
    assert LocalTokenizer(tokenizer_file).prefix == [0]
    assert byte_level(tmp_path, pre_tokenizers.ByteLevel(add_prefix_space=False)).prefix == []
    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    tokenizer.post_processor = processors.TemplateProcessing(single="[BOS] $A [BOS]", special_tokens=[("[BOS]", 0)])
    tokenizer.save(str(tokenizer_file))
    assert LocalTokenizer(tokenizer_file).prefix is None
