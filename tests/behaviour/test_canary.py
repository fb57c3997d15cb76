"""Keys and prompts are nowhere in what the router writes: not in logs at the lowest level, metrics, errors, endpoints.

A real router process with keys of all kinds is driven through what goes well and what does not; then everything that it
wrote is searched. What an engine answers is the engine's, so the engines here repeat nothing.
"""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from tests.support.http_client import CHAT, COMPLETIONS, Client, post
from tests.support.router import free_port
from tests.support.scripted_worker import (
    SSE_HEAD,
    Hanging,
    Script,
    ScriptedWorker,
    answering,
    chunk,
    response,
    streaming,
    then_closing,
    then_resetting,
)

CANARY = "kanarienvogel"
API_KEY, ADMIN_KEY, WORKER_KEY = (f"sk-{CANARY}-{kind}" for kind in ("api", "admin", "worker"))
PROMPT = f"the secret of {CANARY} is long " * 40
MESSAGES = [{"role": "user", "content": PROMPT}]
AUTHORISED = (b"Authorization", b"Bearer " + API_KEY.encode())
EVENT = b'data: {"choices":[{"delta":{"content":"x"}}]}\n\n'

ENGINE_SCRIPTS: dict[str, Script] = {
    "good": answering(response(b'{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":1}}')),
    "stream": streaming([EVENT, b"data: [DONE]\n\n"]),
    "unfinished": streaming([EVENT]),
    "cut": then_resetting(SSE_HEAD + chunk(EVENT)),
    "refused": answering(response(b'{"error":{"message":"no"}}', b"400 Bad Request")),
    "broken": answering(response(b'{"error":{"message":"no"}}', b"500 Internal Server Error")),
    "busy": answering(response(b"{}", b"429 Too Many Requests")),
    "reset": then_resetting(),
    "nonsense": then_closing(b"nonsense\r\n\r\n"),
    "short": then_closing(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"),
}

BAD_REQUESTS = [
    post(body=b'{"messages": "' + PROMPT.encode(), headers=[AUTHORISED]),
    post(body=PROMPT.encode(), headers=[AUTHORISED]),
    post(body={"messages": MESSAGES, "max_tokens": PROMPT}, headers=[AUTHORISED]),
    post(body={"messages": PROMPT, "stream": PROMPT}, headers=[AUTHORISED]),
    post(body={"messages": MESSAGES, "model": {"x": PROMPT}}, headers=[AUTHORISED]),
    post(COMPLETIONS, body={"prompt": {"x": PROMPT}}, headers=[AUTHORISED]),
    post(body={"messages": MESSAGES}, headers=[(b"Authorization", f"Bearer wrong-{CANARY}".encode())]),
    post(body={"messages": MESSAGES}, headers=[(b"X-Api-Key", f"wrong-{CANARY}".encode())]),
    post(
        body={"messages": MESSAGES},
        headers=[(b"Authorization", f"Basic {CANARY}".encode())],
    ),
    post(body={"messages": MESSAGES}),
    post(body={"messages": MESSAGES}, headers=[AUTHORISED, (b"Content-Length", b"7")]),
    post(body={"messages": MESSAGES}, headers=[AUTHORISED, (b"Bad Header", CANARY.encode())]),
    post(body={"messages": MESSAGES}, headers=[AUTHORISED, (b"X-Padding", CANARY.encode() * 6000)]),
    post(f"/v1/unknown?key={CANARY}", body={"messages": MESSAGES}, headers=[AUTHORISED]),
    post(
        "/workers", body={"url": "http://127.0.0.1:1"}, headers=[(b"Authorization", f"Bearer wrong-{CANARY}".encode())]
    ),
    post("/workers", body=PROMPT.encode(), headers=[(b"Authorization", b"Bearer " + ADMIN_KEY.encode())]),
    post("/register", body=b'{"role": ' + PROMPT.encode()),
    post("/v1/abort_requests", body=PROMPT.encode(), headers=[(b"X-Api-Key", ADMIN_KEY.encode())]),
    b"POST "
    + CHAT.encode()
    + b" HTTP/1.1\r\nHost: r\r\nTransfer-Encoding: chunked\r\nAuthorization: Bearer "
    + API_KEY.encode()
    + b"\r\n\r\nzz\r\n"
    + PROMPT.encode(),
]

PAGES = [
    "/health",
    "/ready",
    "/health_generate",
    "/metrics",
    "/workers",
    "/registered",
    "/worker_metrics",
    "/v1/models",
    "/decode_instances",
    "/admin/state",
    "/admin/history",
    "/admin/decisions",
    "/openapi.json",
    "/unknown",
]


def flags(tmp_path: Path) -> list[str]:
    """Every kind of key in every place that it may come from."""
    (tmp_path / "api.keys").write_text(f"{API_KEY}\n")
    (tmp_path / "worker.keys").write_text(f"http://127.0.0.1:9={WORKER_KEY}-other\n")
    return [
        *("--api-key-file", str(tmp_path / "api.keys"), "--worker-key", WORKER_KEY),
        *("--worker-key-file", str(tmp_path / "worker.keys")),
        *(
            "--log-level",
            "debug",
            "--access-log",
            str(tmp_path / "access.log"),
            "--explain",
            "--max-body-bytes",
            "100000",
        ),
        *("--health-check-interval-secs", "0.3", "--max-inflight-per-worker", "3", "--stats-interval-secs", "0.3"),
        *("--retry-budget", "0", "--drain-timeout", "1"),
    ]


@asynccontextmanager
async def router(tmp_path: Path, *more: str) -> AsyncIterator[int]:
    """The process; its port. What it writes is in `router.log` when it has ended."""
    port = free_port()
    with (tmp_path / "router.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "warmroute", "serve", "--host", "127.0.0.1", "--port", str(port)),
            *flags(tmp_path),
            *more,
            stdout=log,
            stderr=log,
            cwd=tmp_path,
            env={"PATH": "", "WARMROUTE_ADMIN_KEY": ADMIN_KEY},
        )
        try:
            async with asyncio.timeout(30):
                while b" 200 " not in (await said(port, b"GET /ready HTTP/1.1\r\nHost: r\r\n\r\n"))[:20]:
                    await asyncio.sleep(0.05)
            yield port
        finally:
            process.terminate()
            await asyncio.wait_for(process.wait(), 10)


async def said(port: int, request: bytes, seconds: float = 5.0) -> bytes:
    """All that the router answers to a request, or to a part of one, until it closes or has answered."""
    with suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
        async with await Client.connect(port) as client, asyncio.timeout(seconds):
            await client.send(request)
            answer = await client.read_head()
            with suppress(asyncio.IncompleteReadError):
                return answer.raw_head + (await client._read_body(answer))
            return answer.raw_head
    return b""


async def drive(port: int, worker: ScriptedWorker) -> list[bytes]:
    """Everything once; returns all answers."""
    answers = []
    for number, (name, script) in enumerate(ENGINE_SCRIPTS.items()):
        worker.script = script
        stream = name in ("stream", "unfinished", "cut")
        body = {"model": "m", "messages": MESSAGES, "stream": stream}
        request_id = (b"X-Request-Id", b"request-%d" % number)
        answers.append(await said(port, post(f"{CHAT}?key={CANARY}", body=body, headers=[AUTHORISED, request_id])))
    worker.script = Hanging()
    with suppress(TimeoutError):  # a client that leaves
        async with await Client.connect(port) as client, asyncio.timeout(0.3):
            await client.send(post(body={"messages": MESSAGES}, headers=[AUTHORISED]))
            await client.read_head()
    async with await Client.connect(port) as client:  # and one that leaves in the middle of its request
        await client.send(post(body={"messages": MESSAGES}, headers=[AUTHORISED])[:-200])
    answers += [await said(port, request) for request in BAD_REQUESTS]
    await worker.stop_listening()
    answers.append(await said(port, post(body={"messages": MESSAGES}, headers=[AUTHORISED])))
    await asyncio.sleep(0.7)  # a probe that fails, and a line of statistics
    answers.append(await said(port, post(body={"messages": MESSAGES}, headers=[AUTHORISED])))
    for key in (ADMIN_KEY, API_KEY):
        for page in PAGES:
            lines = f"GET {page} HTTP/1.1\r\nHost: r\r\nAuthorization: Bearer {key}\r\n\r\n"
            answers.append(await said(port, lines.encode()))
    return answers


def written(tmp_path: Path, answers: list[bytes]) -> dict[str, bytes]:
    """All that the router wrote, by where."""
    files = {path.name: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".keys"}
    return {**files, **{f"answer {number}": answer for number, answer in enumerate(answers)}}


@pytest.mark.parametrize("mode", ["mixed", "pairs"])
async def test_nothing_that_the_router_writes_holds_a_key_or_a_prompt(tmp_path: Path, mode: str) -> None:
    async with ScriptedWorker() as worker, ScriptedWorker() as prefill:
        more = ["--worker", worker.url]
        if mode == "pairs":
            more = ["--prefill", prefill.url, "--decode", worker.url, "--engine", "sglang"]
        async with router(tmp_path, *more) as port:
            answers = await drive(port, worker)
        checked = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "warmroute", "check", *flags(tmp_path), *more),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={"PATH": "", "WARMROUTE_ADMIN_KEY": ADMIN_KEY},
        )
        output, _ = await checked.communicate()
    everything = {**written(tmp_path, answers), "check": output}
    assert {name for name, text in everything.items() if CANARY.encode() in text} == set()
    # It was all there to be seen.
    assert len([answer for answer in answers if answer]) >= len(answers) - 1
    assert b"request-0" in everything["router.log"]
    assert b"request-0" in everything["access.log"]
    assert b"not shown" in everything["check"]
    assert any(
        WORKER_KEY.encode() in request.raw_head and PROMPT.encode() in request.body for request in worker.requests
    )
