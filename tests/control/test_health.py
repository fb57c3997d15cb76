import pytest
from tests.control.conftest import eventually

PAGE = """\
# TYPE fastdeploy:num_requests_running gauge
fastdeploy:num_requests_running{x="y"} 3.0
fastdeploy:num_requests_waiting 2.0
available_gpu_block_num 40
"""


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_health_is_ok_without_any_worker(control, method):
    answer = await control.call(method, "/health")
    assert answer.status == 200
    assert answer.body == ({"code": 200, "status": "ok"} if method == "GET" else "")


async def test_ready_follows_whether_a_worker_can_serve(control, engine):
    answer = await control.get("/ready")
    assert (answer.status, answer.body) == (503, {"code": 503, "infer_ready": False})
    await control.add(engine)
    answer = await control.get("/ready")
    assert (answer.status, answer.body) == (200, {"code": 200, "infer_ready": True})

    async def status_is(status):
        return (await control.get("/ready")).status == status

    engine.healthy = False
    await eventually(lambda: status_is(503))
    engine.healthy = True
    await eventually(lambda: status_is(200))


async def test_a_paused_worker_alone_makes_no_router_ready(control, engine):
    await control.add(engine)
    await control.post("/register", engine.record(is_paused=True))
    assert (await control.get("/ready")).status == 503


async def test_health_generate_probes_every_worker_now(start_control, start_engine):
    # No tick falls into this test: the answer is what the probes of this very request say.
    control = await start_control(manager={"health-check-interval-secs": 60})
    sound, ill = await start_engine(), await start_engine()
    await control.add(sound, ill)
    answer = await control.get("/health_generate")
    assert (answer.status, answer.body) == (200, {"code": 200, "msg": "Health check complete"})
    ill.healthy = False
    answer = await control.get("/health_generate")
    assert answer.status == 503
    assert answer.body == {
        "code": 503,
        "msg": f"unhealthy: {ill.url}",
        "unhealthy": [{"url": ill.url, "reason": "HTTP 500"}],
    }


async def test_worker_metrics_show_what_engines_report_as_integers(control, start_engine):
    telling, silent = await start_engine(metrics_page=PAGE), await start_engine()
    await control.add(telling, silent)
    answer = await control.get("/worker_metrics")
    assert answer.status == 200
    metrics = answer.body.pop("metrics")
    assert answer.body == {"code": 200, "is_queueing": True, "pending_request_count": 0}
    assert metrics[telling.url]["num_requests_running"] == 3
    assert metrics[telling.url]["num_requests_waiting"] == 2
    assert metrics[silent.url] == {"num_requests_running": 0, "num_requests_waiting": 0, "available_gpu_block_num": 0}
    assert all(isinstance(value, int) for figures in metrics.values() for value in figures.values())


@pytest.mark.parametrize("number", ["NaN", "+Inf", "-1", "1e300"])
async def test_odd_numbers_of_an_engine_are_still_json(control, start_engine, number):
    page = f"fastdeploy:num_requests_running {number}\nfastdeploy:num_requests_waiting {number}\n"
    await control.add(await start_engine(metrics_page=page))
    answer = await control.get("/worker_metrics")
    assert answer.status == 200
    (figures,) = answer.body["metrics"].values()
    assert all(isinstance(value, int) for value in figures.values())
