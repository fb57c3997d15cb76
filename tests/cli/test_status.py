"""`warmroute status` against real routers: what it says, and what its exit code says."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
import trustme
from tests.support.router import config, free_port, router_over, running
from tests.support.scripted_worker import ScriptedWorker

from warmroute.cli import main
from warmroute.config.tree import SecurityConfig

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def no_key(monkeypatch):
    monkeypatch.delenv("WARMROUTE_ADMIN_KEY", raising=False)


async def status(*argv: str) -> int:
    return await asyncio.to_thread(main, ["status", *argv])


async def test_a_router_that_can_serve_is_0(capsys: Captured):
    async with ScriptedWorker() as worker, router_over(worker) as router:
        url = f"http://127.0.0.1:{router.port}"
        assert await status(url) == 0
        out = capsys.readouterr().out
        assert out.startswith(f"can serve: 1 of 1 workers can get requests\n{url}: warmroute ")
        assert "least_delay" in out


async def test_a_router_without_a_usable_worker_is_1_and_says_whom_it_waits_for(capsys: Captured):
    port = free_port()
    async with running(config(f"http://127.0.0.1:{port}"), workers=0) as router:
        assert await status(f"http://127.0.0.1:{router.port}/") == 1
        out = capsys.readouterr().out
        assert out.startswith("CANNOT SERVE: 0 of 1 workers")
        assert out.endswith(f"127.0.0.1:{port} (mixed): starting\n")


async def test_json_is_what_the_router_tells(capsys: Captured):
    async with running(config()) as router:
        assert await status("--json", f"http://127.0.0.1:{router.port}") == 1
        told = json.loads(capsys.readouterr().out)
        assert told["can_serve"] is False
        assert told["workers"] == []


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (["http://127.0.0.1:1"], "no router answers at http://127.0.0.1:1"),
        (["router:30000"], "is no URL of a router"),
        (["http://router:port"], "is no URL of a router"),
        (["--timeout", "0"], "must be above 0"),
        (["https://127.0.0.1:1", "--ca", "/no/such/file"], "--ca /no/such/file"),
    ],
)
async def test_what_tells_nothing_is_2_and_one_line(argv: list[str], why: str, capsys: Captured):
    assert await status(*argv) == 2
    err = capsys.readouterr().err
    assert why in err
    assert err.count("\n") == 1


async def test_what_is_no_router_is_2(capsys: Captured):
    async with ScriptedWorker() as worker:
        assert await status(worker.url) == 2
        assert "what answers is no router of this version" in capsys.readouterr().err


async def test_a_router_with_admin_keys_wants_one(capsys: Captured, monkeypatch):
    settings = config().model_copy(update={"security": SecurityConfig(admin_key=("secret",))})
    async with running(settings) as router:
        url = f"http://127.0.0.1:{router.port}"
        assert await status(url) == 2
        assert "answers 401: GET /admin/state needs an admin key" in capsys.readouterr().err
        assert await status(url, "--admin-key", "wrong") == 2
        assert "needs an admin key, and the key that came is none; send one as" in capsys.readouterr().err
        assert await status(url, "--admin-key", "secret") == 1
        monkeypatch.setenv("WARMROUTE_ADMIN_KEY", "secret,other")
        assert await status(url) == 1


async def test_a_certificate_that_is_not_trusted_is_not_a_router_that_is_away(capsys: Captured, tmp_path: Path):
    authority = trustme.CA()
    made = authority.issue_cert("127.0.0.1")
    cert, key, ca = (tmp_path / name for name in ("cert.pem", "key.pem", "ca.pem"))
    made.private_key_pem.write_to_path(key)
    made.cert_chain_pems[0].write_to_path(cert)
    authority.cert_pem.write_to_path(ca)
    async with router_over(security={"tls_cert": str(cert), "tls_key": str(key)}) as router:
        url = f"https://127.0.0.1:{router.port}"
        assert await status(url) == 2
        err = capsys.readouterr().err
        assert "is not trusted" in err
        assert "--ca FILE" in err
        assert "no router answers" not in err
        assert await status(url, "--ca", str(ca)) == 1
