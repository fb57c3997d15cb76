from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmroute.engines.dialects.vllm_usage import CachedTokensEdit, cached_tokens


@pytest.mark.parametrize(
    ("usage", "cached"),
    [
        (b'{"prompt_tokens":9,"prompt_tokens_details":{"cached_tokens":4}}', b"4"),
        (b'{"prompt_tokens":9,"prompt_tokens_details":{"cached_tokens":null}}', b"0"),
        (b'{"prompt_tokens":9,"prompt_tokens_details":null}', b"0"),
        (b'{"prompt_tokens":9}', b"0"),
        (b"{}", None),
        (b"null", None),
        (b"7", None),
        (b'{"prompt_tokens":9', None),
    ],
)
def test_cached_tokens(usage: bytes, cached: bytes | None) -> None:
    assert cached_tokens(usage) == cached


@pytest.mark.parametrize(
    ("cached", "answer", "edited"),
    [
        (
            b"4",
            b'{"id": 1e400, "usage": {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 8, "a": 1}}}',
            b'{"id": 1e400, "usage": {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4, "a": 1}}}',
        ),
        (
            b"4",
            b'{"usage":{"prompt_tokens":9,"prompt_tokens_details":null}}',
            b'{"usage":{"prompt_tokens":9,"prompt_tokens_details":{"cached_tokens":4}}}',
        ),
        (
            b"4",
            b'{"usage":{"prompt_tokens":9}}',
            b'{"usage":{"prompt_tokens":9,"prompt_tokens_details":{"cached_tokens":4}}}',
        ),
        (
            b"0",
            b'{"usage":{"prompt_tokens":9,"prompt_tokens_details":{"cached_tokens":9}}}',
            b'{"usage":{"prompt_tokens":9,"prompt_tokens_details":{"cached_tokens":0}}}',
        ),
        (b"0", b'{"usage":{"prompt_tokens":9}}', b'{"usage":{"prompt_tokens":9}}'),
        (b"4", b'{"usage":null}', b'{"usage":null}'),
        (b"4", b'{"choices":[{"usage":{"prompt_tokens":9}}]}', b'{"choices":[{"usage":{"prompt_tokens":9}}]}'),
        (b"4", b'{"usage":{"prompt_tokens":9}', b'{"usage":{"prompt_tokens":9}'),
        (b"4", b"", b""),
        (b"4", b"\x1f\x8b\x00", b"\x1f\x8b\x00"),
    ],
)
def test_whole_answers(cached: bytes, answer: bytes, edited: bytes) -> None:
    assert CachedTokensEdit(cached).whole(answer) == edited


STREAM = (
    b'data: {"choices":[{"delta":{"content":"\\"prompt_tokens\\""}}]}\n\n'
    b'data: {"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":9,"completion_tokens":1}}\n\n'
    b'data: {"choices":[],"usage":{"prompt_tokens":9,"prompt_tokens_details":{"cached_tokens":8}}}\n\n'
    b"data: [DONE]\n\n"
)
EDITED_STREAM = (
    b'data: {"choices":[{"delta":{"content":"\\"prompt_tokens\\""}}]}\n\n'
    b'data: {"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":9,"completion_tokens":1,'
    b'"prompt_tokens_details":{"cached_tokens":4}}}\n\n'
    b'data: {"choices":[],"usage":{"prompt_tokens":9,"prompt_tokens_details":{"cached_tokens":4}}}\n\n'
    b"data: [DONE]\n\n"
)


@given(st.sets(st.integers(1, len(STREAM) - 1), max_size=12))
def test_streams_wherever_they_are_cut(cuts: set[int]) -> None:
    stream = CachedTokensEdit(b"4").stream()
    out = [stream.feed(STREAM[start:end]) for start, end in pairwise([0, *sorted(cuts), len(STREAM)])]
    assert b"".join(out) + stream.end() == EDITED_STREAM
