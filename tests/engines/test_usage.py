"""Usage at the end of an answer: of every engine's shape, and nothing from anything else."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmroute.engines.usage import CACHED_TOKENS, Usage, read_usage

CHAT = {"choices": [], "usage": {"prompt_tokens": 70, "prompt_tokens_details": {"cached_tokens": 64}}}


def event(data: object) -> bytes:
    return b"data: " + json.dumps(data).encode() + b"\n\n"


@pytest.mark.parametrize(
    "tail",
    [
        json.dumps(CHAT).encode(),
        json.dumps(CHAT, separators=(",", ":")).encode(),
        json.dumps(CHAT, indent=1).encode(),
        event(CHAT) + b"data: [DONE]\n\n",
        b'"}}]}\n\n' + event({"usage": None}) + event(CHAT) + b"data: [DONE]\n\n",
        # Usage in every event: the last one counts.
        event({"usage": {"prompt_tokens": 70, "prompt_tokens_details": {"cached_tokens": 3}}}) + event(CHAT),
        event({"usage": {"input_tokens": 70, "input_tokens_details": {"cached_tokens": 64}, "output_tokens": 1}}),
    ],
)
def test_usage_is_found(tail: bytes):
    assert read_usage(tail) == Usage(70, 64)


@pytest.mark.parametrize(
    "tail",
    [
        b"",
        json.dumps({"usage": {"prompt_tokens": 70, "prompt_tokens_details": None}}).encode(),
        json.dumps({"usage": {"prompt_tokens": 7, "prompt_tokens_details": {"cached_tokens": 64}}}).encode(),
        json.dumps({"usage": {"prompt_tokens": 0, "prompt_tokens_details": {"cached_tokens": 0}}}).encode(),
        json.dumps({"usage": {"prompt_tokens": 70, "prompt_tokens_details": {"cached_tokens": -1}}}).encode(),
        json.dumps({"usage": {"prompt_tokens": 70, "prompt_tokens_details": {"cached_tokens": 10**400}}}).encode(),
        # Cut off before its beginning.
        json.dumps(CHAT).encode()[30:],
        # What a model wrote is no usage.
        json.dumps({"choices": [{"text": json.dumps(CHAT)}], "usage": {"prompt_tokens": 70}}).encode(),
    ],
)
def test_what_is_no_usage_teaches_nothing(tail: bytes):
    assert read_usage(tail) is None


def test_text_of_a_model_is_not_even_looked_at():
    assert CACHED_TOKENS not in json.dumps({"text": json.dumps(CHAT)}).encode()


@given(st.binary() | st.binary().map(lambda noise: json.dumps(CHAT).encode() + noise))
def test_any_bytes_give_a_possible_usage_or_none(tail: bytes):
    usage = read_usage(tail)
    assert usage is None or 0 <= usage.cached_tokens <= usage.prompt_tokens
