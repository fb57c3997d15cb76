"""Which workers can work together: the same answer as asking a dialect about every single pair, in less time."""

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmroute.engines.dialects.fastdeploy import FASTDEPLOY
from warmroute.engines.peer import Peer
from warmroute.engines.recognise import DIALECTS
from warmroute.fleet.address import Address
from warmroute.fleet.health import Health
from warmroute.fleet.instance import InstanceInfo
from warmroute.fleet.member import Member
from warmroute.fleet.pairing import kind_of, pair_up, why_not
from warmroute.fleet.peers import peer_of
from warmroute.fleet.states import State
from warmroute.scheduling.pairs import PairPool
from warmroute.scheduling.worker import Pool, Role, Worker


def member(
    role: Role,
    port: int,
    host: str = "a",
    dialect: str = "fastdeploy",
    models: Iterable[str] | None = None,
    kv_connector: str | None = None,
    **fields,
) -> Member:
    info = replace(InstanceInfo.at(Address(host, port), role), **fields)
    made = Member(info, Worker(info.id, info.url, role), "static", Health(1, 1, State.HEALTHY), 0.0)
    made.dialect = DIALECTS[dialect]
    made.peer = peer_of(info, kv_connector)
    if models is not None:
        made.models, made.model_ids = tuple({"id": model} for model in models), frozenset(models)
    return made


def ids(pool: Pool) -> list[str]:
    return [candidate.worker.id for candidate in pool.candidates]


def as_sets(pairs: PairPool) -> dict[str, list[str]]:
    return {worker.id: ids(pool) for worker, pool in pairs.compatible.items()}


@st.composite
def members(draw: st.DrawFn, role: Role) -> list[Member]:
    drawn = st.fixed_dictionaries(
        {
            "host": st.sampled_from(["a", "b", "c"]),
            "dialect": st.sampled_from(["fastdeploy", "fastdeploy", "sglang", "vllm"]),
            "models": st.sampled_from([None, None, (), ("m",), ("n",), ("m", "n")]),
            "kv_connector": st.sampled_from([None, "NixlConnector", "MooncakeConnector"]),
            "tp_size": st.sampled_from([None, 1, 2, 4]),
            "transfer_protocol": st.sampled_from([(), ("ipc",), ("rdma",), ("ipc", "rdma")]),
            "device_ids": st.sampled_from([(), ("0",), ("0", "1")]),
            "rdma_ports": st.sampled_from([(), ("1",)]),
            "connector_port": st.integers(0, 2),
            "bootstrap_port": st.sampled_from([0, 8998]),
            "version": st.sampled_from([None, "1", "2"]),
        }
    )
    start = 1 if role == "prefill" else 1000
    return [member(role, start + number, **fields) for number, fields in enumerate(draw(st.lists(drawn, max_size=8)))]


@given(members("prefill"), members("decode"))
def test_kinds_give_what_asking_for_every_pair_gives(prefills: list[Member], decodes: list[Member]) -> None:
    pairs = pair_up(prefills, decodes)
    expected = {}
    for prefill in prefills:
        partners = [decode.id for decode in decodes if why_not(prefill, decode) is None]
        if partners:
            expected[prefill.id] = partners
        near = {d.id for d in decodes if d.id in partners and prefill.dialect.is_near(prefill.peer, d.peer)}
        assert {worker.id for worker in pairs.near(prefill.worker)} == near
    assert as_sets(pairs) == expected
    assert ids(pairs.prefill) == [prefill.id for prefill in prefills if prefill.id in expected]
    assert ids(pairs.decode) == [decode.id for decode in decodes]
    assert bool(pairs.why_none) is (not expected and bool(prefills) and bool(decodes))


def test_a_worker_without_pair_is_left_out_and_the_others_are_not():
    narrow, wide = member("prefill", 1, tp_size=2), member("prefill", 2, tp_size=4)
    pairs = pair_up([narrow, wide], [member("decode", 3, tp_size=4)])
    assert as_sets(pairs) == {"a:2": ["a:3"]}
    assert pairs.decode_for(narrow.worker).candidates == ()
    assert pairs.why_none == ""


@pytest.mark.parametrize(
    ("prefill", "decode", "reason"),
    [
        ({"tp_size": 4}, {"tp_size": 2}, "tensor-parallel size 4 of prefill and 2 of decode"),
        ({"version": "1"}, {"version": "2"}, "model version '1' of prefill and '2' of decode"),
        ({"dialect": "vllm"}, {"dialect": "sglang"}, "prefill is vllm and decode is sglang"),
        ({"models": ("m",)}, {"models": ("n",)}, "prefill and decode list no model in common"),
        ({"transfer_protocol": ("ipc",)}, {"transfer_protocol": ("ipc",), "host": "b"}, "from a to b"),
        ({"dialect": "vllm", "kv_connector": "Other"}, {"dialect": "vllm"}, "KV connector Other of prefill"),
    ],
)
def test_the_reason_why_there_is_no_pair(prefill, decode, reason):
    assert reason in pair_up([member("prefill", 1, **prefill)], [member("decode", 2, **decode)]).why_none


def test_a_few_reasons_are_enough():
    prefills = [member("prefill", port, tp_size=2 * port) for port in range(1, 9)]
    why = pair_up(prefills, [member("decode", 100, tp_size=3)]).why_none
    assert why.count("tensor-parallel size") == 3


def test_missing_workers_need_no_reason():
    one = member("prefill", 1)
    assert (pair_up([one], []).why_none, pair_up([], []).why_none) == ("", "")
    assert pair_up([one], []).prefill.candidates == []


def test_addresses_make_no_kind_and_everything_else_does():
    one = member("prefill", 1)
    same = member("prefill", 2, "b", connector_port=3, rdma_ports=("4",), engine_worker_queue_port=5)
    assert kind_of(one) == kind_of(same)
    for other in ({"tp_size": 2}, {"version": "1"}, {"transfer_protocol": ("ipc",)}, {"models": ("m",)}):
        assert kind_of(member("prefill", 3, **other)) != kind_of(one)


class Counting:
    """FastDeploy's dialect, which counts how often it is asked about a pair."""

    name = FASTDEPLOY.name

    def __init__(self) -> None:
        self.questions = 0

    def why_not(self, prefill: Peer, decode: Peer) -> str | None:
        self.questions += 1
        return FASTDEPLOY.why_not(prefill, decode)


@pytest.mark.parametrize("protocol", [("rdma",), ("ipc",), ("ipc", "rdma")])
def test_a_thousand_workers_that_differ_in_address_only_take_two_questions(protocol):
    dialect = Counting()

    def side(role: Role) -> list[Member]:
        made = []
        for number in range(500):
            one = member(
                role,
                8000 + number,
                f"10.0.0.{number // 8}",
                transfer_protocol=protocol,
                device_ids=(str(number % 8),),
                rdma_ports=(str(number),),
                connector_port=number + 1,
                models=("m",),
            )
            one.dialect = dialect
            made.append(one)
        return made

    pairs = pair_up(side("prefill"), side("decode"))
    assert dialect.questions == 2
    assert len(pairs.compatible) == 500
    # Workers with the same partners share one pool.
    assert len({id(pool) for pool in pairs.compatible.values()}) == (63 if protocol == ("ipc",) else 1)
