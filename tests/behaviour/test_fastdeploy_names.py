"""FastDeploy's metric names on a running router: there when asked for, and only then."""

import pytest
from tests.support.http_client import COMPLETIONS, ask, post
from tests.support.router import assert_nothing_held, config, running
from tests.support.scripted_worker import answering, response

from warmroute.config.tree import TelemetryConfig

pytestmark = pytest.mark.asyncio(loop_scope="module")

SCRAPE = b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize("on", [True, False])
async def test_requests_are_counted_under_the_old_names_too(lone_worker, on):
    lone_worker.script = answering(response(b"{}"))
    settings = config(lone_worker.url).model_copy(update={"telemetry": TelemetryConfig(fastdeploy_metrics=on)})
    async with running(settings) as router:
        for _ in range(3):
            await ask(router.port, post(COMPLETIONS + "?x=1", {"prompt": "a", "session_id": "s"}))
        await ask(router.port, post(COMPLETIONS, b"no json"))
        await assert_nothing_held(router)
        page = (await ask(router.port, SCRAPE)).body.decode()
    lines = [line for line in page.splitlines() if line.startswith(("http_requests", "inference_", "router_cache"))]
    expected = [
        'http_requests_total{endpoint="/v1/completions",method="POST",status_code="200"} 3.0',
        'http_requests_total{endpoint="/v1/completions",method="POST",status_code="400"} 1.0',
        f'inference_requests_total{{decode_worker="",mixed_worker="{lone_worker.url}",prefill_worker="",'
        'status_code="200"} 3.0',
        "router_cache_hit_total 2.0",
        "router_cache_request_total 3.0",
    ]
    assert lines == (expected if on else [])
