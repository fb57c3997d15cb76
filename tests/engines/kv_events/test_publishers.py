"""Where publishers are, and which side listens."""

from __future__ import annotations

import json

import pytest

from warmroute.engines.kv_events.publishers import Publisher, configured, publisher_at, read_sources

CONFIG = {
    "enable_kv_cache_events": True,
    "publisher": "zmq",
    "endpoint": "tcp://*:5557",
    "replay_endpoint": "tcp://*:5558",
    "buffer_steps": 10000,
    "topic": "kv@a@m",
}


@pytest.mark.parametrize(
    ("endpoint", "replay", "expected"),
    [
        ("tcp://*:5557", "", Publisher(0, "tcp://10.0.0.7:5557")),
        ("tcp://*:5557", "tcp://*:5558", Publisher(0, "tcp://10.0.0.7:5557", replay="tcp://10.0.0.7:5558")),
        ("tcp://[::]:5557", "tcp://0.0.0.0:1", Publisher(0, "tcp://10.0.0.7:5557", replay="tcp://10.0.0.7:1")),
        ("ipc:///run/kv", "", Publisher(0, "ipc:///run/kv")),
        # Neither a wildcard nor local: the engine connects, so that we must listen.
        ("tcp://127.0.0.1:5557", "", Publisher(0, "tcp://127.0.0.1:5557", we_listen=True)),
        (
            "tcp://10.1.1.1:5557",
            "tcp://10.0.0.7:5558",
            Publisher(0, "tcp://10.1.1.1:5557", True, "tcp://10.0.0.7:5558"),
        ),
    ],
)
def test_the_rule_of_the_engines(endpoint: str, replay: str, expected: Publisher):
    assert publisher_at(0, endpoint, replay, "10.0.0.7") == expected


def test_an_ipv6_host_stands_in_brackets():
    assert publisher_at(0, "tcp://*:5557", "", "fd00::7").address == "tcp://[fd00::7]:5557"


def test_what_vllm_tells_is_of_each_rank_already():
    page = json.dumps({"1": CONFIG | {"endpoint": "tcp://*:5559", "replay_endpoint": None}, "0": CONFIG, "2": {}})
    assert read_sources(page.encode(), "w") == [
        Publisher(0, "tcp://w:5557", replay="tcp://w:5558"),
        Publisher(1, "tcp://w:5559"),
    ]


@pytest.mark.parametrize("change", [{"enable_kv_cache_events": False}, {"publisher": "null"}, {"endpoint": None}])
def test_publishers_that_are_none(change: dict[str, object]):
    assert read_sources(json.dumps({"0": CONFIG | change}).encode(), "w") == []


@pytest.mark.parametrize("page", [b"", b"[]", b'{"x":{}}', b'{"0":3}', b"{}" * 2])
def test_what_cannot_be_read(page: bytes):
    assert read_sources(page, "w") is None


def test_configured_ranks_are_a_port_each():
    assert configured("tcp://*:5557", "tcp://*:6557", 2, "w") == [
        Publisher(0, "tcp://w:5557", replay="tcp://w:6557"),
        Publisher(1, "tcp://w:5558", replay="tcp://w:6558"),
    ]
    assert [one.address for one in configured("ipc:///kv", "", 2, "w")] == ["ipc:///kv", "ipc:///kv_dp1"]


def test_sglang_listens_at_every_address():
    assert configured("tcp://0.0.0.0:5557", "", 1, "w") == [Publisher(0, "tcp://w:5557")]
