from itertools import product

from tests.control.conftest import eventually

from warmroute.control.bodies import MAX_BODY_BYTES
from warmroute.fleet import FleetTimes


async def test_an_engine_registers_and_is_listed(control, engine):
    answer = await control.post("/register", engine.record(metrics_port=engine.port, device_ids=[0, "1"]))
    assert (answer.status, answer.body) == (200, {"code": 200, "msg": "Register success"})
    listed = await control.get("/registered")
    assert listed.status == 200
    assert listed.body == {
        "code": 200,
        "msg": "success",
        "mixed": [
            {
                "url": engine.url,
                "worker_type": "mixed",
                "connector_port": "",
                "engine_worker_queue_port": "",
                "transfer_protocol": [],
                "rdma_ports": [],
                "device_ids": ["0", "1"],
                "metrics_port": str(engine.port),
                "tp_size": 2,
            }
        ],
        "prefill": [],
        "decode": [],
    }
    assert (await control.get("/registered_number")).body == {"mixed": 1, "prefill": 0, "decode": 0}


async def test_a_heartbeat_is_answered_at_once_even_when_the_engine_is_down(control, engine):
    await control.add(engine)
    engine.healthy = False
    answer = await control.post("/register", engine.record())
    assert (answer.status, answer.body["msg"]) == (200, "Register success")


async def test_a_worker_that_is_not_healthy_is_refused_and_not_kept(control, engine):
    engine.healthy = False
    answer = await control.post("/register", engine.record())
    assert (answer.status, answer.body) == (503, {"code": 503, "msg": "service is not healthy"})
    assert (await control.get("/workers")).body["workers"] == []


async def test_only_healthy_workers_are_listed_as_registered(control, engine):
    await control.add(engine)
    engine.healthy = False

    async def none_is_left():
        return (await control.get("/registered_number")).body["mixed"] == 0

    await eventually(none_is_left)
    assert (await control.get("/registered")).body["mixed"] == []
    assert [worker["state"] for worker in (await control.get("/workers")).body["workers"]] == ["unhealthy"]


async def test_prefill_and_decode_are_listed_by_role(start_control, start_engine):
    control = await start_control(server={"splitwise": True})
    prefill, decode = await start_engine(), await start_engine()
    for engine, role in ((prefill, "prefill"), (decode, "DECODE")):
        record = engine.record(role=role, connector_port="1234", transfer_protocol=["rdma"], rdma_ports=[8000])
        assert (await control.post("/register", record)).status == 200
    assert (await control.get("/registered_number")).body == {"mixed": 0, "prefill": 1, "decode": 1}
    (record,) = (await control.get("/registered")).body["decode"]
    assert record["url"] == decode.url
    assert record["connector_port"] == "1234"
    assert record["transfer_protocol"] == ["rdma"]
    assert record["rdma_ports"] == ["8000"]


async def test_a_refusal_is_logged_once_until_its_reason_changes(control, engine, caplog):
    engine.healthy = False
    for _ in range(3):
        await control.post("/register", engine.record())
    await control.post("/register", engine.record(role="prefill"))
    engine.healthy = True
    await control.add(engine)
    await control.post("/register", engine.record(role="prefill"))
    await control.post("/register", b"{")
    lines = [(r.levelname, r.getMessage()) for r in caplog.records if r.name == "warmroute.control.rejections"]
    assert [level for level, _ in lines] == ["WARNING"] * 4
    assert [line.split(" is refused: ") for _, line in lines] == [
        [f"registration of {engine.url}", "service is not healthy (HTTP 500)"],
        [f"registration of {engine.url}", "only MIXED instances are allowed"],
        [f"registration of {engine.url}", "only MIXED instances are allowed"],
        ["registration of 127.0.0.1", "Invalid InstanceInfo JSON format: Input data was truncated"],
    ]


WRONG_RECORDS = [
    ({"role": None}, "invalid InstanceInfo format:role is required"),
    ({"role": "boss"}, "invalid InstanceInfo format:invalid role: boss"),
    ({"host_ip": ""}, "invalid InstanceInfo format:host_ip is required"),
    ({"port": 70000}, "invalid InstanceInfo format:invalid port: 70000"),
    ({"role": "prefill"}, "only MIXED instances are allowed"),
]


async def test_a_wrong_record_is_named_in_the_contracts_words(control):
    for fields, msg in WRONG_RECORDS:
        answer = await control.post("/register", {"role": "mixed", "host_ip": "127.0.0.1", "port": 1, **fields})
        assert (answer.status, answer.body) == (400, {"code": 400, "msg": msg})


NO_OBJECTS = [
    b"",
    b"{",
    b"\xff\xfe",
    b"nul",
    b"null",
    b"[]",
    b"3",
    b'"text"',
    b'{"role": "\\ud800"}',
    b"[" * 200_000,
    b'{"port": ' + b"9" * 5000 + b"}",
]


async def test_a_body_that_is_no_object_is_400(control):
    for body in NO_OBJECTS:
        answer = await control.post("/register", body)
        assert (answer.status, answer.body["code"]) == (400, 400), body[:20]
        assert answer.body["msg"].startswith("Invalid InstanceInfo JSON format: ")


JUNK = [None, True, 0, -1, 1.5, 10**30, "", "x" * 500, "\x00\n", [], [[]], {}, {"a": [1]}]
FIELDS = ["role", "host_ip", "port", "metrics_port", "connector_port", "rdma_ports", "device_ids", "tp_size"]


async def test_no_value_of_any_field_is_more_than_a_clear_answer(start_control, unused_port):
    control = await start_control(FleetTimes(register_spacing=0.001, register_limit=0.01))
    for field, value in product(FIELDS, JUNK):
        record = {"role": "mixed", "host_ip": "127.0.0.1", "port": unused_port, field: value}
        answer = await control.post("/register", record)
        assert answer.status in (400, 503), (field, value)
        assert answer.body["code"] == answer.status
        assert 0 < len(answer.body["msg"]) < 250


async def test_a_body_over_the_limit_is_413_and_the_router_goes_on(control):
    answer = await control.post("/register", b" " * (MAX_BODY_BYTES + 1))
    assert (answer.status, answer.body["code"]) == (413, 413)
    assert (await control.get("/health")).status == 200


async def test_any_content_type_will_do(control, engine):
    for headers in ({"content-type": "text/plain"}, {"content-type": "application/x-www-form-urlencoded"}):
        assert (await control.post("/register", engine.record(), headers=headers)).status == 200
    skipped = await control.post("/register", engine.record(), skip_auto_headers=["content-type"])
    assert skipped.status == 200
