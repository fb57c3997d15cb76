import sys

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

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
