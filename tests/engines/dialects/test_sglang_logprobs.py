from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmroute.engines.dialects.sglang_logprobs import merge_input_logprobs

ONE = b'{"text":"x","meta_info":{"id":"a","input_token_logprobs":[[null,1,null],[-0.5,2,null]]}}'


@pytest.mark.parametrize(
    ("prefill", "decode", "merged"),
    [
        (
            ONE,
            b'{ "text":"y", "meta_info":{"id":12345678901234567890,"input_token_logprobs":[]} }',
            b'{ "text":"y", "meta_info":{"id":12345678901234567890,'
            b'"input_token_logprobs":[[null,1,null],[-0.5,2,null]]} }',
        ),
        (
            b'{"meta_info":{"input_token_logprobs":[1],"input_top_logprobs":[2],"input_token_ids_logprobs":[ 3 ]}}',
            b'{"meta_info":{"input_token_logprobs":[4],"input_top_logprobs":[5],"input_token_ids_logprobs":[6]}}',
            b'{"meta_info":{"input_token_logprobs":[1,4],"input_top_logprobs":[2,5],"input_token_ids_logprobs":[3,6]}}',
        ),
        (
            b'[{"meta_info":{"input_token_logprobs":[1]}},{"meta_info":{"input_token_logprobs":[2]}}]',
            b'[{"meta_info":{"input_token_logprobs":[3]}},{"meta_info":{"input_token_logprobs":[4]}}]',
            b'[{"meta_info":{"input_token_logprobs":[1,3]}},{"meta_info":{"input_token_logprobs":[2,4]}}]',
        ),
        (ONE, b'{"meta_info":{"input_token_logprobs":null}}', b'{"meta_info":{"input_token_logprobs":null}}'),
        (ONE, b'{"meta_info":{}}', b'{"meta_info":{}}'),
        (ONE, b'{"choices":[]}', b'{"choices":[]}'),
        (ONE, b'{"error":', b'{"error":'),
        (ONE, b"[1, 2]", b"[1, 2]"),
        (ONE, b"[1, ", b"[1, "),
        (ONE, b"", b""),
    ],
)
def test_the_entries_of_prefill_go_first(prefill: bytes, decode: bytes, merged: bytes) -> None:
    edit = merge_input_logprobs(prefill, stream=False)
    assert edit is not None
    assert edit.whole(decode) == merged


@pytest.mark.parametrize(
    "prefill",
    [b"", b"{}", b"[]", b"[", b'{"meta_info":1}', b'{"meta_info":{"input_token_logprobs":null}}', b'{"error":{}}'],
)
@pytest.mark.parametrize("stream", [False, True])
def test_without_entries_there_is_nothing_to_edit(prefill: bytes, stream: bool) -> None:
    assert merge_input_logprobs(prefill, stream=stream) is None


PREFILL_STREAM = (
    b'data: {"meta_info":{"input_token_logprobs":[1]},"index":0}\n\n'
    b'data: {"meta_info":{"input_token_logprobs":[2]},"index":1}\n\n'
    b'data: {"meta_info":{"input_token_logprobs":[9]},"index":1}\n\n'
    b"data: [DONE]\n\n"
)
STREAM = (
    b": ping\n\n"
    b'data: {"text":"a","meta_info":{"input_token_logprobs":[]},"index":1}\n\n'
    b'data: {"text":"b","meta_info":{"input_token_logprobs":[3]},"index":0}\r\n\r\n'
    b'data: {"text":"c","meta_info":{"input_token_logprobs":[]},"index":2}\n\n'
    b'data: {"text":"d","meta_info":{}}\n\n'
    b"data: [DONE]\n\n"
)
MERGED_STREAM = (
    b": ping\n\n"
    b'data: {"text":"a","meta_info":{"input_token_logprobs":[2]},"index":1}\n\n'
    b'data: {"text":"b","meta_info":{"input_token_logprobs":[1,3]},"index":0}\r\n\r\n'
    b'data: {"text":"c","meta_info":{"input_token_logprobs":[]},"index":2}\n\n'
    b'data: {"text":"d","meta_info":{}}\n\n'
    b"data: [DONE]\n\n"
)


@given(st.sets(st.integers(1, len(STREAM) - 1), max_size=12))
def test_streams_wherever_they_are_cut(cuts: set[int]) -> None:
    edit = merge_input_logprobs(PREFILL_STREAM, stream=True)
    assert edit is not None
    stream = edit.stream()
    out = [stream.feed(STREAM[start:end]) for start, end in pairwise([0, *sorted(cuts), len(STREAM)])]
    assert b"".join(out) + stream.end() == MERGED_STREAM
