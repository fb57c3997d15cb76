"""Reading requests: any bytes give a request or a clear refusal."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmroute.simulation.api_errors import ApiError
from warmroute.simulation.api_request import read_generation, read_object

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
FIELDS = ("messages", "prompt", "model", "stream", "max_tokens", "max_completion_tokens", "n", "stream_options")
MESSAGES = st.lists(st.fixed_dictionaries({"role": st.text(max_size=4), "content": VALUES}), max_size=3)


def is_served_or_refused(body: bytes, kind: str) -> bool:
    try:
        return len(read_generation(read_object(body), kind, "m", 10_000).prompts) > 0
    except ApiError as error:
        return 400 <= error.status < 500 and bool(error.message)


@pytest.mark.parametrize("shape", ['{"messages":[{"role":"user","content":%s}]}', '{"messages":%s}', "%s"])
def test_deep_nesting(shape):
    """At any depth, also where one part of the reader copes and another does not."""
    for depth in [*range(1, 1200), 100_000]:
        assert is_served_or_refused((shape % ("[" * depth + "]" * depth)).encode(), "chat")


@given(st.binary(max_size=60), st.sampled_from(["chat", "completions"]))
def test_any_bytes(body, kind):
    assert is_served_or_refused(body, kind)


@given(st.dictionaries(st.sampled_from(FIELDS), VALUES), MESSAGES, st.sampled_from(["chat", "completions"]))
def test_any_type_in_every_field(fields, messages, kind):
    """With messages that are nearly right, and without."""
    assert is_served_or_refused(json.dumps(fields).encode(), kind)
    assert is_served_or_refused(json.dumps({"prompt": "x", **fields, "messages": messages}).encode(), kind)


def test_a_salt_separates():
    def salt(value: object) -> int:
        return read_generation({"prompt": "x", "cache_salt": value}, "completions", "m", 99).salt

    assert salt(None) == salt("") == 0
    assert len({salt("a"), salt("b"), 0}) == 3
