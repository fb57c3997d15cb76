"""Prefill and decode workers in a running fleet, over real sockets: recognised, paired, and apart again."""

import logging

import pytest
from tests.fleet.fake_engine import FakeEngine, until
from tests.fleet.test_registration import info_of

from warmroute.fleet import Fleet, UnknownWorker
from warmroute.scheduling.worker import Worker


@pytest.fixture
def engine_of(make_engine):
    async def make(family: str = "vllm", owner: str = "") -> FakeEngine:
        engine = await make_engine()
        engine.family, engine.owner = family, owner
        return engine

    return make


@pytest.fixture
def start_pd(make_fleet):
    """A fleet of the prefill and decode workers that are named; `decode_alone` as the option."""

    async def start(prefill=(), decode=(), decode_alone: str = "auto", **more) -> Fleet:
        urls = {"prefill": tuple(one.url for one in prefill), "decode": tuple(one.url for one in decode)}
        scheduler = {"pd_decode_alone": decode_alone}
        return await make_fleet(splitwise=True, scheduler=scheduler, **urls, **more)

    return start


def paired(fleet: Fleet, model: str | None = None) -> dict[str, list[str]]:
    pairs = fleet.pairs(model)
    return {worker.id: [row.worker.id for row in pool.candidates] for worker, pool in pairs.compatible.items()}


def worker_of(fleet: Fleet, engine: FakeEngine) -> Worker:
    return fleet.get(engine.id).worker


@pytest.mark.parametrize(
    ("family", "owner", "dialect"),
    [("vllm", "", "vllm"), ("sglang", "", "sglang"), ("fastdeploy", "", "fastdeploy"), ("", "sglang", "sglang")],
)
async def test_engines_are_recognised_and_paired(engine_of, start_pd, family, owner, dialect):
    prefill, decode = await engine_of(family, owner), await engine_of(family, owner)
    fleet = await start_pd([prefill], [decode])
    await until(fleet.can_serve)
    await until(lambda: paired(fleet) == {prefill.id: [decode.id]})
    spoken, first, second = fleet.handshake(worker_of(fleet, prefill), worker_of(fleet, decode))
    assert (spoken.name, first.url, second.url) == (dialect, prefill.url, decode.url)
    assert fleet.dialect(worker_of(fleet, decode)) is spoken


async def test_the_number_beside_a_url_is_the_port_of_the_handshake(engine_of, make_fleet):
    prefill, decode = await engine_of("sglang"), await engine_of("sglang")
    fleet = await make_fleet(splitwise=True, prefill=[prefill.url, 8999], decode=[decode.url])
    await until(fleet.can_serve)
    _, peer, _ = fleet.handshake(worker_of(fleet, prefill), worker_of(fleet, decode))
    assert (peer.bootstrap_port, peer.connector_port) == (8999, 8999)
    await fleet.register(info_of(prefill, "prefill", tp_size=2))
    assert fleet.get(prefill.id).peer.bootstrap_port == 8999


async def test_an_unrecognised_engine_waits_with_one_warning_until_it_shows_what_it_is(engine_of, start_pd, caplog):
    caplog.set_level(logging.WARNING)
    prefill, decode = await engine_of(), await engine_of("")
    fleet = await start_pd([prefill], [decode], poll_interval=0.02)
    await until(lambda: fleet.get(decode.id).state == "healthy" and decode.polls > 4)
    assert not fleet.can_serve()
    assert fleet.pool("decode", None).candidates == []
    (warning,) = [text for text in caplog.messages if "--engine" in text]
    assert decode.url in warning
    decode.owner = "vllm"
    await until(fleet.can_serve)
    assert paired(fleet) == {prefill.id: [decode.id]}


async def test_metrics_that_stop_do_not_make_an_engine_unknown(engine_of, start_pd):
    prefill, decode = await engine_of(), await engine_of()
    fleet = await start_pd([prefill], [decode], poll_interval=0.02)
    await until(fleet.can_serve)
    decode.family = ""
    polls = decode.polls
    await until(lambda: decode.polls > polls + 2)
    assert paired(fleet) == {prefill.id: [decode.id]}


async def test_an_engine_that_was_replaced_is_recognised_anew(engine_of, start_pd):
    prefill, decode = await engine_of(), await engine_of()
    fleet = await start_pd([prefill], [decode])
    await until(fleet.can_serve)
    await decode.stop()
    await until(lambda: not fleet.pool("decode", None).candidates)
    decode.family, decode.owner = "", "sglang"
    await decode.start()
    await until(lambda: fleet.pool("decode", None).candidates)
    assert fleet.dialect(worker_of(fleet, decode)).name == "sglang"
    assert fleet.pairs(None).why_none == "prefill is vllm and decode is sglang"


async def test_an_engine_that_is_named_needs_no_recognition(engine_of, start_pd):
    prefill, decode = await engine_of(""), await engine_of("vllm")
    fleet = await start_pd([prefill], [decode], engine="sglang")
    await until(fleet.can_serve)
    assert fleet.dialect(worker_of(fleet, decode)).name == "sglang"


async def test_engines_that_register_are_fastdeploys_at_once_and_after_a_return(engine_of, start_pd):
    prefill, decode = await engine_of(""), await engine_of("vllm")
    fleet = await start_pd()
    await fleet.register(info_of(prefill, "prefill"))
    await fleet.register(info_of(decode, "decode"))
    assert paired(fleet) == {prefill.id: [decode.id]}
    assert fleet.dialect(worker_of(fleet, decode)).name == "fastdeploy"
    fleet.deregister(decode.id)
    await until(lambda: fleet.get(decode.id) is None)
    assert not fleet.can_serve()
    await fleet.register(info_of(decode, "decode"))
    assert paired(fleet) == {prefill.id: [decode.id]}


async def test_what_a_heartbeat_changes_counts_at_once(engine_of, start_pd):
    prefill, decode = await engine_of(""), await engine_of("")
    fleet = await start_pd()
    await fleet.register(info_of(prefill, "prefill", tp_size=4))
    await fleet.register(info_of(decode, "decode", tp_size=2))
    assert not fleet.can_serve()
    pairs = fleet.pairs(None)
    assert pairs.prefill.candidates == []
    assert len(pairs.decode.candidates) == 1
    assert "tensor-parallel size 4 of prefill and 2 of decode" in pairs.why_none
    await fleet.register(info_of(decode, "decode", tp_size=4))
    assert paired(fleet) == {prefill.id: [decode.id]}
    assert fleet.handshake(worker_of(fleet, prefill), worker_of(fleet, decode))[2].tp_size == 4


async def test_pairs_are_made_once_and_again_after_a_change(engine_of, start_pd):
    prefill, decode = await engine_of(""), await engine_of("")
    fleet = await start_pd()
    await fleet.register(info_of(prefill, "prefill"))
    await fleet.register(info_of(decode, "decode"))
    pairs = fleet.pairs("m")
    await fleet.register(info_of(decode, "decode"))
    assert fleet.pairs("m") is pairs
    assert fleet.pairs("nobody's") is fleet.pairs("nobody's either")
    fleet.drain(decode.id)
    assert fleet.pairs("m").prefill.candidates == []
    fleet.undrain(decode.id)
    assert paired(fleet, "m") == {prefill.id: [decode.id]}


async def test_each_model_has_its_pairs(engine_of, start_pd):
    engines = [await engine_of("") for _ in range(4)]
    fleet = await start_pd()
    for engine, role, model in zip(engines, ("prefill", "decode") * 2, "mmnn", strict=True):
        engine.models = [model]
        await fleet.register(info_of(engine, role))
    m = {engines[0].id: [engines[1].id]}
    n = {engines[2].id: [engines[3].id]}
    assert (paired(fleet, "m"), paired(fleet, "n"), paired(fleet)) == (m, n, m | n)


async def test_a_worker_may_change_its_role(engine_of, start_pd):
    first, second, third = [await engine_of("") for _ in range(3)]
    fleet = await start_pd()
    for engine, role in ((first, "prefill"), (second, "decode"), (third, "decode")):
        await fleet.register(info_of(engine, role))
    before = worker_of(fleet, third)
    before.load.running_requests = 1
    await fleet.register(info_of(third, "prefill"))
    assert paired(fleet) == {first.id: [second.id], third.id: [second.id]}
    assert (before.role, worker_of(fleet, third).role) == ("decode", "prefill")
    with pytest.raises(UnknownWorker):
        fleet.handshake(worker_of(fleet, first), before)
    assert fleet.dialect(before) is None
    await fleet.register(info_of(second, "prefill"))
    assert not fleet.can_serve()
    await fleet.register(info_of(third, "decode"))
    assert paired(fleet) == {first.id: [third.id], second.id: [third.id]}
    assert worker_of(fleet, third) is before


@pytest.mark.parametrize(
    ("family", "option", "expected"), [("vllm", "auto", 1), ("vllm", "never", 0), ("sglang", "auto", 0)]
)
async def test_decode_workers_alone(engine_of, start_pd, family, option, expected):
    prefill, decode = await engine_of(family), await engine_of(family)
    fleet = await start_pd([prefill], [decode], option)
    await until(lambda: paired(fleet))
    await prefill.stop()
    await until(lambda: not paired(fleet))
    assert len(fleet.decode_alone(None).candidates) == len(fleet.decode_alone("m").candidates) == expected
    assert fleet.can_serve() is bool(expected)
    await decode.stop()
    await until(lambda: not fleet.pool("decode", None).candidates)
    assert not fleet.can_serve()


async def test_an_operator_adds_workers_of_both_roles(engine_of, start_pd):
    prefill, decode = await engine_of("sglang"), await engine_of("sglang")
    fleet = await start_pd()
    fleet.add_worker(prefill.url, "prefill", 9001)
    fleet.add_worker(decode.url, "decode")
    await until(fleet.can_serve)
    assert fleet.get(prefill.id).peer.bootstrap_port == 9001
    fleet.add_worker(prefill.url, "prefill", 9002)
    assert fleet.get(prefill.id).peer.bootstrap_port == 9002
    fleet.add_worker(prefill.url, "prefill")
    assert fleet.get(prefill.id).peer.bootstrap_port == 9002


async def test_an_order_to_abort_reaches_both_roles(engine_of, start_pd):
    prefill, decode = await engine_of(), await engine_of()
    fleet = await start_pd([prefill], [decode])
    answers = await fleet.abort(b'{"abort_all": true}')
    assert {answer.member.url for answer in answers} == {prefill.url, decode.url}
    assert prefill.aborts == decode.aborts == [b'{"abort_all": true}']


async def test_in_mixed_mode_an_unknown_engine_serves(engine_of, make_fleet, caplog):
    engine = await engine_of("")
    fleet = await make_fleet(engine.url)
    await until(fleet.can_serve)
    assert fleet.dialect(worker_of(fleet, engine)) is None
    assert "--engine" not in caplog.text
