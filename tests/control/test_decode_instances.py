import pytest
from tests.control.conftest import eventually


@pytest.fixture
async def control(start_control):
    return await start_control(server={"splitwise": True})


async def register(control, engine, role, **fields):
    answer = await control.post("/register", engine.record(role=role, **fields))
    assert answer.status == 200, answer.body


async def ports(control, query=""):
    return [record["port"] for record in (await control.get(f"/decode_instances{query}")).body]


async def test_a_prefill_engine_learns_all_it_needs_to_connect(control, engine, start_engine):
    await register(
        control,
        engine,
        "decode",
        connector_port=7001,
        engine_worker_queue_port=7002,
        transfer_protocol=["rdma"],
        rdma_ports=[7100, "7101"],
        device_ids=[0, 1],
        version="v1",
    )
    await register(control, await start_engine(), "prefill")
    answer = await control.get("/decode_instances?version=v1")
    assert answer.status == 200
    assert answer.body == [
        {
            "role": "DECODE",
            "host_ip": "127.0.0.1",
            "port": str(engine.port),
            "metrics_port": str(engine.port),
            "connector_port": "7001",
            "engine_worker_queue_port": "7002",
            "transfer_protocol": ["rdma"],
            "rdma_ports": ["7100", "7101"],
            "device_ids": ["0", "1"],
            "tp_size": 2,
            "is_paused": False,
            "version": "v1",
        }
    ]


async def test_decode_engines_of_another_version_are_left_out(control, start_engine):
    old, new, untold = [await start_engine() for _ in range(3)]
    await register(control, old, "decode", version=1)
    await register(control, new, "decode", version=2)
    await register(control, untold, "decode")
    by_port = {str(engine.port): name for engine, name in ((old, "old"), (new, "new"), (untold, "untold"))}

    async def names(query):
        return {by_port[port] for port in await ports(control, query)}

    assert await names("?version=1") == {"old", "untold"}
    assert await names("?version=3") == {"untold"}
    assert await names("") == await names("?version=") == {"old", "new", "untold"}
    await register(control, old, "decode", version=2)
    assert await names("?version=2") == {"old", "new", "untold"}


async def test_only_healthy_decode_engines_are_named(control, engine):
    assert await ports(control) == []
    await register(control, engine, "decode")
    assert await ports(control) == [str(engine.port)]
    engine.healthy = False

    async def is_gone():
        return await ports(control) == []

    await eventually(is_gone)


async def test_in_mixed_mode_there_are_none(start_control, engine):
    control = await start_control()
    await control.add(engine)
    assert await ports(control, "?version=1") == []
