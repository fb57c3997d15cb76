"""Workers at https:// URLs: whom the router trusts, and what it shows them."""

import ssl

import pytest
import trustme
from tests.support.http_client import Client, post
from tests.support.router import config, eventually, running
from tests.support.scripted_worker import ScriptedWorker


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture
def ca_file(tmp_path, authority):
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    return str(tmp_path / "ca.pem")


@pytest.fixture
def client_cert(tmp_path, authority):
    made = authority.issue_cert("router@example.org")
    made.private_key_and_cert_chain_pem.write_to_path(tmp_path / "router.pem")
    return str(tmp_path / "router.pem")


@pytest.fixture
async def worker(authority):
    worker = ScriptedWorker()
    worker.tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(worker.tls)
    async with worker:
        yield worker


async def ask(port: int) -> int:
    async with await Client.connect(port) as client:
        return (await client.ask(post())).status


async def test_a_worker_with_a_certificate_of_a_trusted_authority_serves(worker, ca_file):
    async with running(config(worker.url, security={"upstream_ca": ca_file})) as router:
        assert [await ask(router.port) for _ in range(3)] == [200] * 3
        assert worker.requests[0].values(b"host") == [worker.url.removeprefix("https://").encode()]
        assert router.fleet.get(worker.url).state == "healthy"


async def test_any_other_worker_gets_nothing(worker, authority, tmp_path, caplog):
    """Neither a probe nor a prompt: the handshake fails before."""
    trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
    for security in ({"upstream_ca": str(tmp_path / "other.pem")}, {}):
        async with running(config(worker.url, security=security), workers=0) as router:
            await eventually(lambda: "certificate verify failed" in caplog.text, "the log says why", 5)
            assert await ask(router.port) == 503
        caplog.clear()
    assert not worker.requests


async def test_a_certificate_for_another_name_is_refused(authority, ca_file, caplog):
    worker = ScriptedWorker()
    worker.tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("engine.example").configure_cert(worker.tls)
    async with worker, running(config(worker.url, security={"upstream_ca": ca_file}), workers=0) as router:
        await eventually(lambda: "certificate is not valid for '127.0.0.1'" in caplog.text, "the log says why", 5)
        assert await ask(router.port) == 503


async def test_a_request_checks_the_certificate_by_itself(worker, ca_file, tmp_path):
    """Also when probes once passed: the worker's certificate is another one now."""
    async with running(config(worker.url, security={"upstream_ca": ca_file}, health_check_interval_secs=60)) as router:
        worker.connections_made = 0
        trustme.CA().issue_cert("127.0.0.1").configure_cert(worker.tls)
        assert await ask(router.port) == 502
        assert not worker.requests


async def test_insecure_has_to_be_asked_for(worker):
    async with running(config(worker.url, security={"upstream_insecure": True})) as router:
        assert await ask(router.port) == 200


async def test_a_worker_may_ask_who_the_router_is(worker, authority, ca_file, client_cert, caplog):
    worker.tls.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(worker.tls)
    security = {"upstream_ca": ca_file, "upstream_cert": client_cert}
    async with running(config(worker.url, security=security)) as router:
        assert await ask(router.port) == 200
    async with running(config(worker.url, security={"upstream_ca": ca_file}), workers=0) as router:
        await eventually(lambda: "is waited for" in caplog.text, "the log says that it is not there", 5)
        assert await ask(router.port) == 503
    assert len(worker.requests) == 1
