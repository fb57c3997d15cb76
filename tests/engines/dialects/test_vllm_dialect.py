from random import Random

import pytest
from tests.engines.dialects.pairs import peer, request

from warmroute.engines.dialect import DecodeRequest
from warmroute.engines.dialects.vllm import VLLM_NIXL
from warmroute.engines.dialects.vllm_usage import CachedTokensEdit
from warmroute.prompts.body import Kind

PREFILL = peer("10.0.0.1", 8100)
DECODE = peer("10.0.0.2", 8200)
WANTED = (
    b'"kv_transfer_params":{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,'
    b'"remote_block_ids":null,"remote_host":null,"remote_port":null}'
)
HANDLE = b'{"do_remote_prefill": true, "remote_block_ids":[[1,2]], "remote_blocks_expiry_time":1e400}'


@pytest.mark.parametrize(
    ("body", "sent"),
    [
        (b'{"messages":[]}', b'{"messages":[],"stream":false,"max_tokens":1,"min_tokens":1,%b}' % WANTED),
        (
            b'{"messages":[], "stream":true, "stream_options":{"include_usage":true}, "max_tokens":100, "n":1}',
            b'{"messages":[], "stream":false, "max_tokens":1, "n":1,"min_tokens":1,%b}' % WANTED,
        ),
        (
            b'{"max_completion_tokens":7,"min_tokens":5,"messages":[{"content":"max_tokens"}]}',
            b'{"max_completion_tokens":1,"min_tokens":1,"messages":[{"content":"max_tokens"}],"stream":false,'
            b'"max_tokens":1,%b}' % WANTED,
        ),
        (
            b'{"kv_transfer_params":{"x":1},"stream":null,"max_tokens":null}',
            b'{%b,"stream":false,"max_tokens":1,"min_tokens":1}' % WANTED,
        ),
    ],
)
def test_the_prefill_leg_makes_one_token_and_keeps_its_cache(body: bytes, sent: bytes) -> None:
    handover = VLLM_NIXL.begin(request(body, stream=True), PREFILL, DECODE, Random(1))
    assert handover.prefill_body == sent
    assert handover.reschedule is None


BODY = b'{"messages":[], "stream":true, "max_tokens":100}'


@pytest.mark.parametrize(
    ("usage", "edit"),
    [
        (b'{"prompt_tokens":9,"prompt_tokens_details":{"cached_tokens":4}}', CachedTokensEdit(b"4")),
        (b'{"prompt_tokens":9,"prompt_tokens_details":null}', CachedTokensEdit(b"0")),
        (b'{"prompt_tokens":9}', CachedTokensEdit(b"0")),
        (b"null", None),
    ],
)
def test_the_decode_leg_is_the_body_with_the_handle(usage: bytes, edit: CachedTokensEdit | None) -> None:
    handover = VLLM_NIXL.begin(request(BODY), PREFILL, DECODE, Random(1))
    answer = b'{"id":"x", "usage":%b, "kv_transfer_params": %b}' % (usage, HANDLE)
    body = b'{"messages":[], "stream":true, "max_tokens":100,"kv_transfer_params":%b}' % HANDLE
    assert handover.follow(answer) == DecodeRequest(body, recomputes=False, edit=edit)


@pytest.mark.parametrize(
    "answer",
    [b"", b"{}", b"[]", b'{"kv_transfer_params":null}', b'{"kv_transfer_params":1}', b'{"kv_transfer_params":{"a":1}'],
)
def test_without_a_handle_the_decode_engine_recomputes(answer: bytes) -> None:
    handover = VLLM_NIXL.begin(request(BODY), PREFILL, DECODE, Random(1))
    assert handover.follow(answer) == DecodeRequest(BODY, recomputes=True, edit=None)


@pytest.mark.parametrize(
    ("prefill", "decode", "works"),
    [
        (None, None, True),
        ("NixlConnector", None, True),
        ("NixlConnector", "NixlConnector", True),
        ("MooncakeConnector", None, False),
        ("NixlConnector", "MooncakeConnector", False),
        ("ExampleConnector", "ExampleConnector", False),
    ],
)
def test_connectors(prefill: str | None, decode: str | None, works: bool) -> None:
    reason = VLLM_NIXL.why_not(peer(kv_connector=prefill), peer(kv_connector=decode))
    assert reason is None if works else reason is not None and "only NixlConnector is supported" in reason


@pytest.mark.parametrize(
    ("kind", "body", "reason"),
    [
        ("chat", b'{"messages":[]}', None),
        ("chat", b'{"n":1,"logprobs":true,"top_logprobs":5}', None),
        ("chat", b'{"n":null,"best_of":null,"use_beam_search":false,"prompt_logprobs":null,"echo":false}', None),
        ("chat", b'{"n":2}', "several_sequences"),
        ("completions", b'{"best_of":3}', "several_sequences"),
        ("completions", b'{"use_beam_search":true}', "several_sequences"),
        ("completions", b'{"prompt_logprobs":0}', "prompt_logprobs"),
        ("completions", b'{"echo":true}', "prompt_logprobs"),
        ("completions", b'{"prompt":"a"}', None),
        ("completions", b'{"prompt":[1,2]}', None),
        ("completions", b'{"prompt":["a"]}', None),
        ("completions", b'{"prompt":["a","b"]}', "several_prompts"),
        ("completions", b'{"prompt":[[1],[2]]}', "several_prompts"),
        ("chat", b'{"prompt":["a","b"]}', None),
        ("other", b'{"input":"a"}', "other_path"),
    ],
)
def test_which_requests_are_handed_over(kind: Kind, body: bytes, reason: str | None) -> None:
    assert VLLM_NIXL.alone_because(request(body, kind)) == reason


def test_near_is_one_host() -> None:
    assert VLLM_NIXL.is_near(peer("a", 1), peer("a", 2))
    assert not VLLM_NIXL.is_near(peer("a", 1), peer("b", 1))
