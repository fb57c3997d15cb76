import json
from random import Random

import pytest
from tests.engines.dialects.pairs import peer, request

from warmroute.engines.dialects.sglang import SGLANG
from warmroute.prompts.body import Kind

PREFILL = peer("10.0.0.1", 8100, bootstrap_port=9001)
DECODE = peer("10.0.0.2", 8200)


def rooms(seed: int, count: int) -> list[int]:
    rng = Random(seed)
    return [rng.getrandbits(63) for _ in range(count)]


def test_one_body_for_both_with_a_room() -> None:
    handover = SGLANG.begin(request(b'{"messages":[],"seed":1e400}'), PREFILL, DECODE, Random(5))
    expected = (
        b'{"messages":[],"seed":1e400,"bootstrap_host":"10.0.0.1","bootstrap_port":9001,"bootstrap_room":%d}'
        % rooms(5, 1)[0]
    )
    assert handover.prefill_body == handover.decode_body == expected
    assert handover.merge is None
    assert handover.reschedule is None


@pytest.mark.parametrize(
    ("kind", "body", "count"),
    [
        ("completions", b'{"prompt":["a","b","c"]}', 3),
        ("completions", b'{"prompt":[[1,2],[3]],"n":1}', 2),
        ("completions", b'{"prompt":["a"]}', 1),
        ("other", b'{"text":["a","b"]}', 2),
        ("other", b'{"input_ids":[[1],[2]]}', 2),
    ],
)
def test_a_batch_takes_a_room_for_each_prompt(kind: Kind, body: bytes, count: int) -> None:
    handover = SGLANG.begin(request(body, kind), PREFILL, DECODE, Random(5))
    assert handover.decode_body == b'%b,"bootstrap_host":%b,"bootstrap_port":%b,"bootstrap_room":%b}' % (
        body[:-1],
        json.dumps(["10.0.0.1"] * count, separators=(",", ":")).encode(),
        json.dumps([9001] * count, separators=(",", ":")).encode(),
        json.dumps(rooms(5, count), separators=(",", ":")).encode(),
    )


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("completions", b'{"prompt":"a"}'),
        ("completions", b'{"prompt":[1,2,3]}'),
        ("completions", b'{"prompt":["a","b"],"n":2}'),
        ("chat", b'{"prompt":["a","b"],"messages":[]}'),
        ("other", b'{"input_ids":[1,2,3]}'),
    ],
)
def test_everything_else_takes_one_room(kind: Kind, body: bytes) -> None:
    handover = SGLANG.begin(request(body, kind), PREFILL, DECODE, Random(5))
    assert json.loads(handover.decode_body)["bootstrap_room"] == rooms(5, 1)[0]


def test_no_room_is_used_twice() -> None:
    rng = Random(1)
    bodies = {SGLANG.begin(request(b"{}", attempt=k), PREFILL, DECODE, rng).decode_body for k in range(100)}
    assert len(bodies) == 100


@pytest.mark.parametrize(
    ("host", "port", "sent"),
    [
        ("10.0.0.1", 9001, b'"bootstrap_host":"10.0.0.1","bootstrap_port":9001'),
        ("10.0.0.1", 0, b'"bootstrap_host":"10.0.0.1","bootstrap_port":8998'),
        ("fd00::1", 9001, b'"bootstrap_host":"[fd00::1]","bootstrap_port":9001'),
        ("gpu-1", 9001, b'"bootstrap_host":"gpu-1","bootstrap_port":9001'),
    ],
)
def test_where_the_engines_meet(host: str, port: int, sent: bytes) -> None:
    prefill = peer(host, bootstrap_port=port)
    assert SGLANG.why_not(prefill, DECODE) is None
    assert sent in SGLANG.begin(request(b"{}"), prefill, DECODE, Random(1)).prefill_body


def test_fields_of_the_client_that_name_another_room_are_replaced() -> None:
    body = b'{"bootstrap_room":1,"a":2,"bootstrap_host":"evil"}'
    sent = SGLANG.begin(request(body), PREFILL, DECODE, Random(5)).prefill_body
    assert sent == (b'{"bootstrap_room":%d,"a":2,"bootstrap_host":"10.0.0.1","bootstrap_port":9001}' % rooms(5, 1)[0])


@pytest.mark.parametrize(("port", "works"), [(0, True), (1, True), (65535, True), (65536, False), (-1, False)])
def test_the_bootstrap_port_must_be_a_port(port: int, works: bool) -> None:
    reason = SGLANG.why_not(peer(bootstrap_port=port), peer(bootstrap_port=-1))
    assert reason is None if works else reason == f"bootstrap port {port} of prefill is not a port"


@pytest.mark.parametrize(
    ("asked", "merges"),
    [(b"true", True), (b"[true,false]", True), (b"false", False), (b"null", False)],
)
def test_log_probabilities_are_merged_only_when_asked_for(asked: bytes, merges: bool) -> None:
    body = b'{"text":"a","return_logprob":%b}' % asked
    handover = SGLANG.begin(request(body, "other"), PREFILL, DECODE, Random(1))
    assert (handover.merge is not None) == merges


def test_the_merge_of_an_answer() -> None:
    body = b'{"text":"a","return_logprob":true}'
    handover = SGLANG.begin(request(body, "other"), PREFILL, DECODE, Random(1))
    assert handover.merge is not None
    edit = handover.merge(b'{"meta_info":{"input_token_logprobs":[[null,1]]}}')
    assert edit is not None
    merged = edit.whole(b'{"text":"b","meta_info":{"input_token_logprobs":[]}}')
    assert merged == b'{"text":"b","meta_info":{"input_token_logprobs":[[null,1]]}}'


@pytest.mark.parametrize(
    ("kind", "body", "reason"),
    [
        ("chat", b"{}", None),
        ("completions", b"{}", None),
        ("other", b'{"text":"a"}', None),
        ("other", b'{"input_ids":[1]}', None),
        ("other", b'{"input":"a"}', "other_path"),
        ("other", b'{"query":"a","documents":["text"]}', "other_path"),
    ],
)
def test_which_requests_are_handed_over(kind: Kind, body: bytes, reason: str | None) -> None:
    assert SGLANG.alone_because(request(body, kind)) == reason


def test_near_is_one_host() -> None:
    assert SGLANG.is_near(peer("a", 1), peer("a", 2))
    assert not SGLANG.is_near(peer("a", 1), peer("b", 1))
