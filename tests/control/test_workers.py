import asyncio
from urllib.parse import quote

from tests.control.conftest import eventually

from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.lease import Outcome


def forms(engine):
    """Every way to name a worker in a path."""
    return [engine.id, engine.url, quote(engine.url, safe=""), quote(quote(engine.url, safe=""), safe="")]


def open_lease(control):
    return control.parts.scheduler.select(Prompt(tokens=10), control.parts.fleet.pool("mixed", None))


async def ids(control):
    return [worker["id"] for worker in (await control.get("/workers")).body["workers"]]


async def test_workers_are_listed_with_what_runs_on_them(control, engine):
    assert (await control.get("/workers")).body == {"code": 200, "msg": "success", "workers": []}
    await control.add(engine)
    lease = open_lease(control)
    expected = {
        "id": engine.id,
        "url": engine.url,
        "role": "mixed",
        "state": "healthy",
        "breaker": "closed",
        "stuck": False,
        "running": 1,
        "pending_prefill_tokens": 10,
        "dialect": "fastdeploy",
        "models": ["m"],
        "source": "registered",
    }
    assert (await control.get("/workers")).body["workers"] == [expected]
    for form in forms(engine):
        shown = await control.get(f"/workers/{form}")
        assert (shown.status, shown.body) == (200, expected), form
    lease.release(Outcome.SERVED)


async def test_a_worker_is_added_before_it_is_up_and_serves_once_it_is(control, start_engine, unused_port):
    answer = await control.post("/workers", {"url": f"http://127.0.0.1:{unused_port}"})
    assert answer.status == 200
    assert answer.body["id"] == f"127.0.0.1:{unused_port}"
    assert (answer.body["role"], answer.body["state"], answer.body["source"]) == ("mixed", "starting", "added")
    assert (await control.get("/ready")).status == 503
    await start_engine(port=unused_port)

    async def is_ready():
        return (await control.get("/ready")).status == 200

    await eventually(is_ready)


async def test_workers_of_both_roles_are_added_and_shown_with_what_they_speak(start_control, start_engine):
    control = await start_control(server={"splitwise": True})
    prefill, decode = await start_engine(metrics_page="sglang:num_queue_reqs 0\n"), await start_engine()
    answer = await control.post("/workers", {"url": prefill.url, "role": "prefill", "bootstrap_port": 8999})
    assert (answer.status, answer.body["role"]) == (200, "prefill")
    assert (await control.post("/workers", {"url": decode.url, "role": "decode"})).status == 200
    assert control.parts.fleet.get(prefill.id).peer.bootstrap_port == 8999

    async def both_are_healthy():
        return all(worker["state"] == "healthy" for worker in (await control.get("/workers")).body["workers"])

    await eventually(both_are_healthy)
    assert (await control.get(f"/workers/{prefill.id}")).body["dialect"] == "sglang"
    assert (await control.get(f"/workers/{decode.id}")).body["dialect"] is None
    assert (await control.get("/ready")).status == 503


NO_WORKERS = [
    ({"url": "http://a:1", "bootstrap_port": "x"}, "bootstrap_port must be a port number"),
    ({"url": "http://a:1", "bootstrap_port": 70000}, "bootstrap_port must be a port number"),
    ({}, "url must be"),
    ({"url": 3}, "url must be"),
    ({"url": " "}, "url must be"),
    ({"url": "ftp://a:1"}, "ftp://a:1"),
    ({"url": "http://"}, "http://"),
    ({"url": "http://a:99999"}, "http://a:99999"),
    ({"url": "http://a:1", "role": "boss"}, "invalid role: boss; known: mixed, prefill, decode"),
    ({"url": "http://a:1", "role": [1]}, "invalid role: [1]"),
    ({"url": "http://a:1", "role": {}}, "invalid role: {}"),
    ({"url": "http://a:1", "role": False}, "invalid role: False"),
    ({"url": "http://a:1", "bootstrap_port": []}, "bootstrap_port must be a port number"),
    ({"url": "http://a:1", "bootstrap_port": False}, "bootstrap_port must be a port number"),
    ({"url": "http://a:1", "role": "decode"}, "only MIXED instances are allowed"),
    ([], "Invalid JSON format: expected an object"),
    (b"\xff", "Invalid JSON format: "),
]


async def test_a_worker_that_cannot_be_understood_is_400(control):
    for body, part in NO_WORKERS:
        answer = await control.post("/workers", body)
        assert (answer.status, answer.body["code"]) == (400, 400), body
        assert part in answer.body["msg"]
    assert await ids(control) == []


async def test_delete_lets_running_requests_end_and_then_removes_the_worker(control, engine):
    await control.add(engine)
    lease = open_lease(control)
    answer = await control.call("DELETE", f"/workers/{engine.id}")
    assert (answer.status, answer.body) == (200, {"code": 200, "msg": "draining", "running": 1})
    assert (await control.get(f"/workers/{engine.id}")).body["state"] == "draining"
    assert (await control.get("/ready")).status == 503
    assert (await control.post("/register", engine.record())).status == 200  # a heartbeat changes nothing
    assert (await control.get("/ready")).status == 503
    lease.release(Outcome.SERVED)
    await eventually(lambda: _is_gone(control))
    await control.add(engine)  # and a registration after it brings the worker back
    assert (await control.get("/ready")).status == 200


async def test_delete_takes_every_form_of_the_name(control, engine):
    for form in forms(engine):
        await control.add(engine)
        answer = await control.call("DELETE", f"/workers/{form}")
        assert (answer.status, answer.body) == (200, {"code": 200, "msg": "draining", "running": 0}), form
        await eventually(lambda: _is_gone(control))


async def test_delete_is_for_good_and_deregister_until_the_worker_was_down_and_up_again(control, start_engine):
    deleted, deregistered = await start_engine(), await start_engine()
    for engine in (deleted, deregistered):
        await control.post("/workers", {"url": engine.url})
    await control.call("DELETE", f"/workers/{deleted.id}")
    await control.post("/deregister", {"url": deregistered.url})
    await eventually(lambda: _is_gone(control))
    for healthy in (False, True):
        deleted.healthy = deregistered.healthy = healthy
        await asyncio.sleep(0.2)  # some probes

    async def is_back():
        return deregistered.id in await ids(control)

    await eventually(is_back)
    assert await ids(control) == [deregistered.id]


async def test_deregister_by_url_or_by_host_and_port(control, engine):
    host, port = engine.id.split(":")
    for body in (
        {"url": engine.url},
        {"host_ip": host, "port": int(port)},
        {"host_ip": host, "port": port},
        {"role": "mixed", "host_ip": host, "port": int(port), "device_ids": ["0"]},
    ):
        await control.add(engine)
        answer = await control.post("/deregister", body)
        assert (answer.status, answer.body) == (200, {"code": 200, "msg": "draining", "running": 0})
        await eventually(lambda: _is_gone(control))


NO_NAMES = [
    {},
    {"url": 1},
    {"host_ip": "127.0.0.1"},
    {"host_ip": 1, "port": 1},
    {"host_ip": "a", "port": True},
    {"host_ip": "a", "port": "x"},
    {"host_ip": "a", "port": [1]},
    [],
    b"{",
    b"\xff",
]


async def test_deregister_without_a_usable_name_is_400(control):
    for body in NO_NAMES:
        answer = await control.post("/deregister", body)
        assert (answer.status, answer.body["code"]) == (400, 400), body
        assert answer.body["msg"]


UNKNOWN = [
    ("GET", "/workers/127.0.0.1:9", None),
    ("GET", "/workers/", None),
    ("GET", "/workers/%FF%00", None),
    ("DELETE", "/workers/127.0.0.1:9", None),
    ("DELETE", "/workers/http%3A%2F%2F127.0.0.1%3A9", None),
    ("POST", "/workers/nobody/drain", None),
    ("POST", "/workers/nobody/undrain", None),
    ("POST", "/deregister", {"url": "http://127.0.0.1:9"}),
    ("POST", "/deregister", {"host_ip": "::1", "port": 9}),
    ("POST", "/deregister", {"url": "http://[", "port": 9}),
    ("POST", "/deregister", {"host_ip": "a", "port": "9" * 5000}),
]


async def test_an_unknown_worker_is_404(control):
    for method, path, body in UNKNOWN:
        answer = await control.call(method, path, body)
        assert (answer.status, answer.body["code"]) == (404, 404), (method, path, body)
        assert answer.body["msg"].startswith("unknown worker: ")


async def test_a_drain_holds_through_heartbeats_until_undrain(control, engine):
    await control.add(engine)
    lease = open_lease(control)
    name = quote(engine.url, safe="")
    answer = await control.post(f"/workers/{name}/drain")
    assert (answer.status, answer.body) == (200, {"code": 200, "msg": "draining", "running": 1})
    lease.release(Outcome.SERVED)
    await control.add(engine)
    assert (await control.get(f"/workers/{name}")).body["state"] == "draining"
    assert (await control.get("/ready")).status == 503
    answer = await control.post(f"/workers/{name}/undrain")
    assert (answer.status, answer.body["state"]) == (200, "healthy")
    assert (await control.get("/ready")).status == 200


async def _is_gone(control):
    return await ids(control) == []
