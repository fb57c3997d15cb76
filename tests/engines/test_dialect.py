"""What every dialect owes to those who know none of them by name."""

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engines.dialects.pairs import peer, request

from warmroute.engines.dialect import Dialect, InTurn, Together
from warmroute.engines.recognise import DIALECTS
from warmroute.prompts.body import Kind

PREFILL = peer("10.0.0.1", 8100, connector_port=1, bootstrap_port=2)
DECODE = peer("10.0.0.2", 8200, connector_port=3)
TOUCHED = {
    *("disaggregate_info", "request_id", "bootstrap_host", "bootstrap_port", "bootstrap_room"),
    *("stream", "stream_options", "max_tokens", "max_completion_tokens", "min_tokens", "kv_transfer_params"),
}
values = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.lists(st.integers(), max_size=2)
bodies = st.dictionaries(st.sampled_from(sorted(TOUCHED)) | st.text(max_size=5), values, max_size=8)
every_dialect = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=list(DIALECTS))


def untouched(body: bytes) -> dict[str, Any]:
    return {name: value for name, value in json.loads(body).items() if name not in TOUCHED}


@every_dialect
@given(members=bodies, stream=st.booleans(), attempt=st.integers(0, 3), kind=st.sampled_from(["chat", "completions"]))
def test_both_legs_keep_all_that_is_the_clients(
    dialect: Dialect, members: dict[str, Any], stream: bool, attempt: int, kind: Kind
) -> None:
    body = json.dumps(members).encode()
    handover = dialect.begin(request(body, kind, stream=stream, attempt=attempt), PREFILL, DECODE, Random(1))
    if isinstance(handover, Together):
        assert dialect.order == "together"
        decode_body = handover.decode_body
    else:
        assert isinstance(handover, InTurn)
        assert dialect.order == "in_turn"
        decode_body = handover.follow(b'{"kv_transfer_params":{}}').body
    assert untouched(handover.prefill_body) == untouched(decode_body) == untouched(body)


@every_dialect
@given(answer=st.binary(max_size=30))
def test_no_answer_makes_a_dialect_raise(dialect: Dialect, answer: bytes) -> None:
    body = b'{"return_logprob":true}'
    for stream in (False, True):
        handover = dialect.begin(request(body, stream=stream), PREFILL, DECODE, Random(1))
        if isinstance(handover, InTurn):
            assert handover.follow(answer).body == body
            continue
        if handover.merge is not None:
            assert handover.merge(answer) is None
        if handover.reschedule is not None:
            assert handover.reschedule.whole(200, answer) is None
            assert handover.reschedule.stream().feed(answer) in ("hold", "pass")


@every_dialect
def test_only_a_dialect_whose_decode_engine_can_prefill_serves_alone(dialect: Dialect) -> None:
    assert dialect.decodes_alone == (dialect.name == "vllm")


@every_dialect
def test_of_the_prefill_alone_tells_who_answers_before_it_is_taken_over(dialect: Dialect) -> None:
    assert dialect.tells_prefill == (dialect.name != "sglang")


@every_dialect
def test_paths_without_a_known_handover_are_served_alone(dialect: Dialect) -> None:
    assert dialect.alone_because(request(b'{"input":"a"}', "other")) == "other_path"
    assert dialect.alone_because(request(b'{"messages":[]}')) is None
