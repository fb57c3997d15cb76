import json

import pytest

from warmroute.gateway.usage import cached_share

USAGE = {
    "prompt_tokens": 120,
    "total_tokens": 130,
    "completion_tokens": 10,
    "prompt_tokens_details": {"cached_tokens": 96},
}


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
@pytest.mark.parametrize("after", [{}, {"metadata": {"weight_version": "default"}, "kv_transfer_params": None}])
def test_the_usage_at_the_end_of_an_answer_is_read(separators, after):
    answer = {"choices": [{"message": {"content": "text"}}], "usage": USAGE, **after}
    assert cached_share(json.dumps(answer, separators=separators).encode()) == (120, 96)


def test_the_last_event_of_a_stream_is_read():
    event = b"data: " + json.dumps({"choices": [], "usage": USAGE}).encode() + b"\n\ndata: [DONE]\n\n"
    assert cached_share(event) == (120, 96)


@pytest.mark.parametrize(
    "usage",
    [
        {},
        {"prompt_tokens": 5},
        {"prompt_tokens_details": {"cached_tokens": 4}},
        {"prompt_tokens": 5, "prompt_tokens_details": None},
        {"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": None}},
        {"prompt_tokens": "5", "prompt_tokens_details": {"cached_tokens": "4"}},
        {"prompt_tokens": 10**12, "prompt_tokens_details": {"cached_tokens": 10**12}},
    ],
)
def test_an_answer_that_does_not_tell_is_none(usage):
    assert cached_share(json.dumps({"usage": usage}).encode()) is None


def test_what_a_model_writes_is_not_taken_for_its_usage():
    said = json.dumps({"usage": {"prompt_tokens": 1, "prompt_tokens_details": {"cached_tokens": 1}}})
    assert cached_share(json.dumps({"choices": [{"message": {"content": said}}]}).encode()) is None


def test_a_count_that_was_cut_off_is_not_read():
    whole = json.dumps({"usage": USAGE}).encode()
    for length in range(len(whole)):
        # Never 9 of 96.
        assert cached_share(whole[:length]) in (None, (120, 96))
