from random import Random

import pytest
from tests.engines.dialects.pairs import peer, request

from warmroute.engines.dialect import Together
from warmroute.engines.dialects.fastdeploy import FASTDEPLOY

BOTH = ("ipc", "rdma")
PREFILL = peer("10.0.0.1", 8100, connector_port=9100, device_ids=("0", "1"), rdma_ports=("7001", "7002"), tp_size=2)
DECODE = peer("10.0.0.2", 8200, connector_port=9200, device_ids=("2", "3"), rdma_ports=("7003", "7004"), tp_size=2)
INFO = (
    b'"disaggregate_info":{"prefill_ip":"10.0.0.1","decode_ip":"10.0.0.2","prefill_connector_port":9100,'
    b'"decode_connector_port":9200,"decode_device_ids":["2","3"],"decode_rdma_ports":["7003","7004"],'
    b'"transfer_protocol":"rdma","decode_tp_size":2}'
)


def begin(body: bytes, attempt: int = 0) -> Together:
    return FASTDEPLOY.begin(request(body, attempt=attempt), PREFILL, DECODE, Random(1))


def test_one_body_for_both_with_the_eight_keys() -> None:
    handover = begin(b'{"messages":[],"seed":123456789012345678901}')
    expected = b'{"messages":[],"seed":123456789012345678901,' + INFO + b',"request_id":"made-once"}'
    assert handover.prefill_body == handover.decode_body == expected
    assert handover.merge is None
    assert handover.reschedule is not None


def test_what_was_not_told_is_sent_empty() -> None:
    handover = FASTDEPLOY.begin(request(b"{}"), peer("::1", 1), peer("h", 2), Random(1))
    assert handover.prefill_body == (
        b'{"disaggregate_info":{"prefill_ip":"::1","decode_ip":"h","prefill_connector_port":0,"decode_connector_port":0,'
        b'"decode_device_ids":[],"decode_rdma_ports":[],"transfer_protocol":"rdma","decode_tp_size":1},'
        b'"request_id":"made-once"}'
    )


@pytest.mark.parametrize(
    ("given", "attempt", "sent"),
    [
        (b'"mine"', 0, b'"mine"'),
        (b'"mine"', 2, b'"mine-retry2"'),
        (b'"\\u00e9\\""', 1, b'"\\u00e9\\"-retry1"'),
        (b"42", 0, b'"42"'),
        (b"-1.50", 3, b'"-1.50-retry3"'),
        (b'""', 0, b'"made-once"'),
        (b"null", 1, b'"made-once-retry1"'),
        (b"true", 0, b'"made-once"'),
        (b'{"a":1}', 0, b'"made-once"'),
        (b'["a"]', 0, b'"made-once"'),
    ],
)
def test_the_request_id_is_kept_and_no_id_is_sent_twice(given: bytes, attempt: int, sent: bytes) -> None:
    body = begin(b'{"request_id":%b,"a":1}' % given, attempt).decode_body
    assert body == b'{"request_id":%b,"a":1,%b}' % (sent, INFO)


def test_a_byte_order_mark_hides_nothing() -> None:
    body = begin(b'\xef\xbb\xbf{"request_id":"mine"}').decode_body
    assert body == b'\xef\xbb\xbf{"request_id":"mine",' + INFO + b"}"


@pytest.mark.parametrize(
    ("decode_host", "prefill_lists", "decode_lists", "prefill_size", "decode_size", "protocol"),
    [
        ("10.0.0.1", BOTH, BOTH, 2, 2, "ipc"),
        ("10.0.0.1", BOTH, BOTH, 2, 1, "ipc"),
        ("10.0.0.1", ("ipc",), ("ipc",), 1, 1, "ipc"),
        ("10.0.0.2", BOTH, BOTH, 2, 2, "rdma"),
        ("10.0.0.1", BOTH, ("rdma",), 2, 2, "rdma"),
        ("10.0.0.1", ("rdma",), BOTH, 2, 2, "rdma"),
        ("10.0.0.1", (), (), 2, 2, "rdma"),
    ],
)
def test_transfer_protocol(
    decode_host: str,
    prefill_lists: tuple[str, ...],
    decode_lists: tuple[str, ...],
    prefill_size: int,
    decode_size: int,
    protocol: str,
) -> None:
    prefill = peer("10.0.0.1", transfer_protocol=prefill_lists, tp_size=prefill_size)
    decode = peer(decode_host, transfer_protocol=decode_lists, tp_size=decode_size)
    assert FASTDEPLOY.why_not(prefill, decode) is None
    body = FASTDEPLOY.begin(request(b"{}"), prefill, decode, Random(1)).prefill_body
    assert b'"transfer_protocol":"%b"' % protocol.encode() in body


@pytest.mark.parametrize(
    ("prefill", "decode", "works"), [(1, 1, 1), (4, 4, 1), (4, 1, 1), (1, 4, 0), (4, 2, 0), (2, 4, 0)]
)
def test_tensor_parallel_sizes(prefill: int, decode: int, works: int) -> None:
    reason = FASTDEPLOY.why_not(peer(tp_size=prefill), peer(tp_size=decode))
    assert (reason is None) == bool(works)
    if reason is not None:
        assert f"size {prefill} of prefill and {decode} of decode" in reason


@pytest.mark.parametrize(
    ("prefill", "decode", "works"),
    [(None, None, True), ("a", None, True), (None, "b", True), ("a", "a", True), ("a", "b", False)],
)
def test_model_versions(prefill: str | None, decode: str | None, works: bool) -> None:
    reason = FASTDEPLOY.why_not(peer(version=prefill), peer(version=decode))
    assert reason is None if works else reason == "model version 'a' of prefill and 'b' of decode"


@pytest.mark.parametrize(
    ("prefill", "decode", "decode_host", "works"),
    [
        (("ipc",), ("ipc",), "10.0.0.1", True),
        (("ipc",), ("ipc",), "10.0.0.2", False),
        (("ipc",), ("rdma",), "10.0.0.1", False),
        (BOTH, ("ipc",), "10.0.0.2", False),
        (BOTH, ("rdma",), "10.0.0.2", True),
        ((), ("ipc",), "10.0.0.1", False),
        ((), ("rdma",), "10.0.0.1", True),
        ((), (), "10.0.0.2", True),
    ],
)
def test_protocols_in_common(prefill: tuple[str, ...], decode: tuple[str, ...], decode_host: str, works: bool) -> None:
    sides = peer(transfer_protocol=prefill), peer(decode_host, transfer_protocol=decode)
    reason = FASTDEPLOY.why_not(*sides)
    assert reason is None if works else reason is not None and "transfer protocols" in reason


@pytest.mark.parametrize(
    ("decode_host", "prefill_lists", "decode_lists", "near"),
    [
        ("10.0.0.1", BOTH, BOTH, True),
        ("10.0.0.1", BOTH, ("rdma",), False),
        ("10.0.0.1", (), BOTH, True),
        ("10.0.0.2", BOTH, BOTH, False),
        ("10.0.0.2", (), (), False),
    ],
)
def test_near(decode_host: str, prefill_lists: tuple[str, ...], decode_lists: tuple[str, ...], near: bool) -> None:
    sides = peer(transfer_protocol=prefill_lists), peer(decode_host, transfer_protocol=decode_lists)
    assert FASTDEPLOY.is_near(*sides) is near
