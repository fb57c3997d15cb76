"""Clients over TLS: the same router behind it, and a certificate that is renewed without anybody noticing."""

import asyncio
import ssl

import pytest
import trustme
from tests.support.http_client import Client, post
from tests.support.router import eventually, router_over
from tests.support.scripted_worker import SSE_HEAD, Hanging, ScriptedWorker, chunk, response, streaming


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture
def trust(authority):
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


@pytest.fixture
def files(tmp_path, authority):
    """The options, and a function that writes a fresh certificate."""
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"

    def renew():
        made = authority.issue_cert("127.0.0.1")
        made.private_key_pem.write_to_path(key)
        made.cert_chain_pems[0].write_to_path(cert)

    renew()
    return {"tls_cert": str(cert), "tls_key": str(key)}, renew


def shown(client: Client) -> bytes:
    """The router's certificate as this client has seen it."""
    seen: bytes = client.writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    return seen


async def test_answers_streams_and_large_bodies_pass(files, trust):
    async with ScriptedWorker() as worker, router_over(worker, security=files[0]) as router:
        async with await Client.connect(router.port, tls=trust) as client:
            body = b'{"prompt": "%b"}' % (b"x" * 3_000_000)
            worker.script = response_script = streaming([b"data: 1\n\n", b"data: [DONE]\n\n"])
            answer = await client.ask(post(body=body))
            assert (answer.status, answer.body) == (200, b"data: 1\n\ndata: [DONE]\n\n")
            assert worker.requests[0].body == body

            async def large(_request, connection):
                await connection.send(response(body))

            worker.script = large
            assert (await client.ask(post())).body == body
            worker.script = response_script
            assert (await client.ask(post())).status == 200
        assert worker.connections_made >= 1


async def test_a_client_that_leaves_ends_its_request(files, trust):
    async with ScriptedWorker() as worker, router_over(worker, security=files[0]) as router:
        worker.script = hanging = Hanging(SSE_HEAD + chunk(b"data: 1\n\n"))
        client = await Client.connect(router.port, tls=trust)
        await client.send(post())
        await client.read_head()
        client.abort()
        async with asyncio.timeout(5):
            await hanging.given_up.wait()


async def test_control_endpoints_and_refusals_are_behind_it_too(files, trust):
    async with ScriptedWorker() as worker, router_over(worker, security=files[0]) as router:
        async with await Client.connect(router.port, tls=trust) as client:
            await client.send(b"GET /health HTTP/1.1\r\nHost: r\r\n\r\n")
            assert (await client.read_response()).status == 200
            await client.send(b"POST /v1/completions HTTP/1.1\r\nHost: r\r\nContent-Length: 5, 6\r\n\r\n")
            assert (await client.read_response()).status == 400


async def test_nobody_is_served_without_tls(files):
    async with ScriptedWorker() as worker, router_over(worker, security=files[0]) as router:
        async with await Client.connect(router.port) as client:
            await client.send(post())
            assert b"HTTP" not in await client.read_to_end()
        assert not worker.requests


async def test_a_renewed_certificate_is_shown_to_new_connections_and_old_ones_go_on(files, trust):
    options, renew = files
    async with ScriptedWorker() as worker, router_over(worker, security=options) as router:
        async with await Client.connect(router.port, tls=trust) as old:
            assert (await old.ask(post())).status == 200
            renew()
            latest = shown(old)

            async def look() -> None:
                nonlocal latest
                while latest == shown(old):
                    async with await Client.connect(router.port, tls=trust) as new:
                        latest = shown(new)
                        assert (await new.ask(post())).status == 200
                    await asyncio.sleep(0.05)

            await asyncio.wait_for(look(), 10)
            assert (await old.ask(post())).status == 200
        await eventually(lambda: router.ledger.open_leases == 0, "all is given back")
