import json

import pytest

from warmroute.prompts.body import read_request
from warmroute.prompts.ladder import Ladder
from warmroute.prompts.text import prompt_text, with_token_ids

SMALL = Ladder.fixed(8)


def text(kind, **body):
    return prompt_text(json.dumps(body).encode(), kind)


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([{"role": "user", "content": "  a \n"}, {"role": "user", "content": ""}, {"content": "b c"}], "a b c"),
        ([{"content": [{"type": "text", "text": " a "}, {"type": "image_url", "text": "no"}, {"type": "text"}]}], "a"),
        ([{"content": [{"type": "text", "text": 5}]}, {"content": 5}, {"content": None}, {}, {"content": "a"}], "a"),
        ([{"content": "a"}, "x"], ""),
        ([{"content": "a"}, {"content": ["x"]}], ""),
        ([{"content": "a"}, {"content": [None]}], ""),
        ([], ""),
        ("a", ""),
        ({"content": "a"}, ""),
        (None, ""),
    ],
)
def test_chat_text_is_the_trimmed_texts_joined_by_a_space(messages, expected):
    assert text("chat", messages=messages) == expected


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [(" a ", "a"), (["a ", "", " b"], "a b"), (["a", 1], ""), ([1, 2], ""), ([["a"]], ""), (None, ""), ({}, "")],
)
def test_completion_text_is_the_strings(prompt, expected):
    assert text("completions", prompt=prompt) == expected


@pytest.mark.parametrize("body", [b'{"prompt":"\xff"}', b'{"messages":[{"content":"\xff"}],"prompt":"\xff"}'])
def test_invalid_utf8_has_no_text(body):
    for kind in ("chat", "completions"):
        assert prompt_text(body, kind) == ""


def test_token_ids_replace_estimate_and_fingerprint_only():
    prompt = read_request(b'{"model":"m","stream":true,"prompt":"hello there","session_id":"s"}', "completions", SMALL)
    exact = with_token_ids(prompt, [1, 2, 3], SMALL)
    assert exact.tokens == 3
    assert (exact.model, exact.stream, exact.session_id) == ("m", True, "s")
    assert prompt.tokens == 3
    assert prompt.fingerprint != exact.fingerprint


def test_tokenised_text_matches_the_same_tokens_sent_as_ids():
    """They are the same KV blocks."""
    sent = read_request(b'{"model":"m","prompt":[1,2,3,4]}', "completions", SMALL)
    said = read_request(b'{"model":"m","prompt":"one two three four"}', "completions", SMALL)
    assert with_token_ids(said, [1, 2, 3, 4], SMALL).fingerprint == sent.fingerprint


@pytest.mark.parametrize("other", [b'"model":"n"', b'"model":"m","cache_salt":"s"', b'"model":"m","tools":[1]'])
def test_equal_tokens_under_another_model_salt_or_tools_do_not_match(other):
    def exact(fields):
        prompt = read_request(b'{"messages":[],' + fields + b"}", "chat", SMALL)
        return with_token_ids(prompt, [1, 2, 3, 4], SMALL).fingerprint

    assert not set(exact(b'"model":"m"')) & set(exact(other))


def test_impossible_token_ids_are_refused():
    prompt = read_request(b"{}", "chat", SMALL)
    with pytest.raises(ValueError, match="token ids"):
        with_token_ids(prompt, [-1], SMALL)
