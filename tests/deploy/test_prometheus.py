"""Rules checked by promtool, and every query asked of a real Prometheus that scrapes a running router.

Both come with Debian's package `prometheus`; without it these tests are skipped.
"""

import asyncio
import json
import shutil
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
import yaml
from deploy.grafana import draw
from tests.deploy.queries import ALERTS, DEPLOY, alerts, panels
from tests.support.http_client import CHAT, ask, post
from tests.support.router import eventually, free_port, router_over
from tests.support.scripted_worker import LAST_CHUNK, SSE_HEAD, ScriptedWorker, chunk

pytestmark = pytest.mark.skipif(
    shutil.which("prometheus") is None or shutil.which("promtool") is None,
    reason="Debian's package prometheus is not installed",
)

USAGE = b'"usage":{"prompt_tokens":100,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":64}}'
STREAM = post(CHAT, {"model": "m", "messages": [{"role": "user", "content": "x" * 4000}], "stream": True})


def promtool(*arguments: str) -> None:
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_rules_are_valid():
    promtool("check", "rules", str(ALERTS))


def test_the_rules_fire_when_they_should():
    promtool("test", "rules", str(DEPLOY / "prometheus" / "alerts_test.yml"))


def test_the_configuration_is_valid():
    promtool("check", "config", str(DEPLOY / "prometheus" / "prometheus.yml"))


async def stream_three_tokens(_request, connection):
    await connection.send(SSE_HEAD)
    for _ in range(3):
        await connection.send(chunk(b'data: {"choices":[]}\n\n'))
        await asyncio.sleep(0.01)
    await connection.send(chunk(b'data: {"choices":[],%b}\n\n' % USAGE) + chunk(b"data: [DONE]\n\n") + LAST_CHUNK)


@asynccontextmanager
async def prometheus_over(router_port: int, directory: Path):
    """A Prometheus that scrapes a router twice a second; gives its URL."""
    port = free_port()
    settings = {
        "global": {"scrape_interval": "500ms", "scrape_timeout": "500ms", "evaluation_interval": "1s"},
        "rule_files": [str(ALERTS)],
        "scrape_configs": [
            {"job_name": "warmroute", "static_configs": [{"targets": [f"127.0.0.1:{router_port}"]}]},
        ],
    }
    (directory / "prometheus.yml").write_text(yaml.safe_dump(settings))
    process = await asyncio.create_subprocess_exec(
        "prometheus",
        f"--config.file={directory / 'prometheus.yml'}",
        f"--storage.tsdb.path={directory / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        stdout=sys.stderr,
        stderr=sys.stderr,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        await ready(url)
        yield url
    finally:
        process.terminate()
        await process.wait()


async def ready(url: str) -> None:
    """Wait until a Prometheus that was started answers queries; before that it is not there, or answers 503."""
    async with asyncio.timeout(30), aiohttp.ClientSession() as http:
        while True:
            try:
                async with http.get(f"{url}/-/ready") as answer:
                    if answer.status == 200:
                        return
            except aiohttp.ClientConnectionError:
                pass
            await asyncio.sleep(0.1)


async def query(http: aiohttp.ClientSession, url: str, expression: str) -> list:
    async with http.get(f"{url}/api/v1/query", params={"query": expression}) as answer:
        content = await answer.json()
    assert content["status"] == "success", (expression, content)
    return content["data"]["result"]


async def drawn(url: str) -> None:
    """Every panel is drawn, and shows what was served."""
    dashboard = json.loads(draw.DASHBOARD.read_text())["panels"]
    html = await asyncio.to_thread(draw.page, url, dashboard, time.time() - 60, time.time(), 1180)
    assert html.count("<section") == sum(panel["type"] != "row" for panel in dashboard)
    assert "served" in html
    assert "no data" not in html


async def answers(http: aiohttp.ClientSession, url: str, expression: str, router_port: int) -> list:
    """Ask until there is a result, with traffic meanwhile; fails after half a minute."""
    async with asyncio.timeout(30):
        while True:
            if result := await query(http, url, expression):
                return result
            await ask(router_port, STREAM)
            await asyncio.sleep(0.2)


@pytest.mark.timeout(120)
async def test_every_query_of_the_dashboard_and_the_alerts_is_answered(tmp_path):
    async with ScriptedWorker() as worker:
        worker.script = stream_three_tokens
        async with router_over(worker) as router, prometheus_over(router.port, tmp_path) as url:
            async with aiohttp.ClientSession() as http:
                everything = "rate(warmroute_reported_cached_tokens_total[3s]) > 0"
                await answers(http, url, everything, router.port)
                for title, expression in panels():
                    asked = expression.replace("$__rate_interval", "3s").replace("$instance", ".*")
                    result = await answers(http, url, asked, router.port)
                    assert all(sample["value"][1] != "NaN" for sample in result) or "quantile" in asked, (title, asked)
                for expression in alerts().values():
                    await query(http, url, expression)
                await drawn(url)

                async def all_rules() -> list:
                    async with http.get(f"{url}/api/v1/rules") as answer:
                        groups = (await answer.json())["data"]["groups"]
                    return [rule for group in groups for rule in group["rules"]]

                rules = await all_rules()
                assert {rule["name"] for rule in rules} == set(alerts())
                async with asyncio.timeout(20):
                    while not all(rule["health"] == "ok" for rule in await all_rules()):
                        await asyncio.sleep(0.2)
                assert {rule["name"] for rule in await all_rules() if rule["state"] == "firing"} == set()
            await eventually(lambda: router.ledger.open_leases == 0, "all requests have ended")
