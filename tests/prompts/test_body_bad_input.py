"""No body, however odd, does anything but become a Prompt or a BadRequest."""

import json
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmroute.prompts.body import BadRequest, read_request
from warmroute.prompts.ladder import Ladder
from warmroute.prompts.prompt import Prompt

SMALL = Ladder.fixed(8)
WRONG = {
    "model": (1, True, [], {}),
    "stream": ("true", 1, 0, [], {}),
    "max_tokens": ("1", 1.5, True, [], {}),
    "max_completion_tokens": ("1", 1.5, False, [], {}),
    "messages": ("hi", 1, True, {}),
    "prompt": (1, True, {}),
}
JUDGED = {
    "chat": ("model", "stream", "max_tokens", "max_completion_tokens", "messages"),
    "completions": ("model", "stream", "max_tokens", "max_completion_tokens", "prompt"),
    "other": ("model", "stream"),
}
NOT_READ = [(kind, name) for kind, name in product(JUDGED, WRONG) if name not in JUDGED[kind]]

kinds = st.sampled_from(sorted(JUDGED))
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)
field_names = st.sampled_from(
    [*WRONG, "input", "tools", "cache_salt", "request_id", "session_id", "extra_body", "user", "documents", "system"]
)


def outcome(body, kind):
    try:
        return read_request(body, kind, SMALL)
    except BadRequest as error:
        return error


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in JUDGED for name in JUDGED[kind]])
def test_a_wrong_type_names_field_and_expectation(kind, name):
    for value in WRONG[name]:
        with pytest.raises(BadRequest, match=f"^Invalid type for '{name}': expected an? .+, got .+") as caught:
            read_request(json.dumps({name: value}).encode(), kind, SMALL)
        assert caught.value.param == name


@pytest.mark.parametrize(("kind", "name"), NOT_READ)
def test_what_a_path_does_not_read_can_have_any_type(kind, name):
    for value in WRONG[name]:
        assert isinstance(read_request(json.dumps({name: value}).encode(), kind, SMALL), Prompt)


@given(st.binary(max_size=200), kinds)
def test_any_bytes_are_a_prompt_or_a_bad_request(body, kind):
    assert isinstance(outcome(body, kind), Prompt | BadRequest)


@given(st.dictionaries(field_names, json_values, max_size=8), kinds)
def test_any_object_is_a_prompt_or_names_the_judged_field(body, kind):
    result = outcome(json.dumps(body).encode(), kind)
    if isinstance(result, BadRequest):
        assert result.param in JUDGED[kind]
    else:
        assert SMALL.tokens_at(len(result.fingerprint)) <= result.tokens
        assert result.max_tokens is None or result.max_tokens >= 0


@given(st.dictionaries(field_names, json_values, min_size=1, max_size=4), kinds, st.data())
def test_a_damaged_body_is_a_prompt_or_a_bad_request(body, kind, data):
    text = bytearray(json.dumps(body).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    assert isinstance(outcome(bytes(text[: data.draw(st.integers(0, len(text)))]), kind), Prompt | BadRequest)


@pytest.mark.parametrize(
    "place", [b'{"prompt":%s}', b'{"messages":%s}', b'{"extra_body":{"session_id":%s}}', b'{"x":%s}']
)
def test_no_depth_of_nesting_is_too_much(place):
    """Around the interpreter's limit as well, where the first scan passes and a second one might not."""
    for depth, kind in product((*range(850, 1010, 3), 100_000), JUDGED):
        result = outcome(place % (b"[" * depth + b"]" * depth), kind)
        assert isinstance(result, Prompt) or "nested too deeply" in str(result)
