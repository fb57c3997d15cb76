"""The access log: a line for every inference request, whatever became of it, and never a byte of a prompt."""

import json

import pytest
from tests.support.http_client import CHAT, COMPLETIONS, Client, ask, post
from tests.support.router import config, eventually, running
from tests.support.scripted_worker import answering, response, streaming

from warmroute.app import Router
from warmroute.config.tree import LogConfig
from warmroute.replay.readers.read import read_trace
from warmroute.telemetry.access_log import AccessLogError

pytestmark = pytest.mark.asyncio(loop_scope="module")

USAGE = {"prompt_tokens": 1000, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 512}}


def logged(*urls, path, prefixes=False, **settings):
    log = LogConfig(access_log=str(path), access_log_prefixes=prefixes)
    return config(*urls, **settings).model_copy(update={"log": log})


async def lines_of(path, count):
    await eventually(lambda: path.exists() and path.read_bytes().count(b"\n") == count, f"{count} lines", 5)
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def chat(text, **more):
    return post(CHAT, {"model": "m", "messages": [{"role": "user", "content": text}], **more})


async def test_a_served_request(lone_worker, tmp_path):
    path = tmp_path / "access.log"
    lone_worker.script = answering(response(json.dumps({"choices": [], "usage": USAGE}).encode()))
    async with running(logged(lone_worker.url, path=path)) as router:
        answer = await ask(router.port, chat("a secret" * 500, session_id="talk"))
        (line,) = await lines_of(path, 1)
        (worker,) = router.ledger.workers()
    assert line["request_id"].encode() == answer.value(b"x-request-id")
    assert line["worker"] == worker.id
    assert line.pop("time") > 1.7e9
    assert 0 <= line["ttft"] <= line["duration"] < 10
    assert {key: line[key] for key in ("path", "status", "outcome", "policy", "model", "session_id")} == {
        "path": CHAT,
        "status": 200,
        "outcome": "served",
        "policy": "least_delay",
        "model": "m",
        "session_id": "talk",
    }
    assert (line["cached_tokens"], line["output_tokens"], line["matched_tokens"]) == (512, 7, 0)
    assert line["prompt_tokens"] == pytest.approx(1000, abs=20)
    assert "prefix" not in line
    assert b"secret" not in path.read_bytes()


async def test_the_pieces_of_a_stream_without_usage_are_its_tokens(lone_worker, tmp_path):
    path = tmp_path / "access.log"
    lone_worker.script = streaming([b"data: {}\n\n"] * 3)
    async with running(logged(lone_worker.url, path=path)) as router:
        await ask(router.port, chat("hello", stream=True))
        (line,) = await lines_of(path, 1)
    assert 1 <= line["output_tokens"] <= 3


async def test_requests_that_were_not_served(lone_worker, tmp_path):
    path = tmp_path / "access.log"

    async def stall(_request, connection):
        await connection.wait_closed_by_peer()

    async with running(logged(lone_worker.url, path=path)) as router:
        await ask(router.port, post(COMPLETIONS, b"no json"))
        lone_worker.script = answering(response(b"{}", b"400 Bad Request"))
        await ask(router.port, post())
        lone_worker.script = stall
        async with await Client.connect(router.port) as client:
            await client.send(post())
            await eventually(lambda: router.ledger.open_leases == 1, "it is on its way")
        lines = await lines_of(path, 3)
    assert [(line["status"], line["outcome"], "worker" in line) for line in lines] == [
        (400, "refused", False),
        (400, "error", True),
        (499, "aborted", True),
    ]


async def test_what_waits_is_written_before_the_end(lone_worker, tmp_path):
    path = tmp_path / "access.log"
    lone_worker.script = answering(response(b"{}"))
    async with running(logged(lone_worker.url, path=path)) as router:
        await ask(router.port, post())
    assert path.read_bytes().count(b"\n") == 1


async def test_a_file_that_was_rotated_away_is_begun_anew(lone_worker, tmp_path):
    path = tmp_path / "access.log"
    lone_worker.script = answering(response(b"{}"))
    async with running(logged(lone_worker.url, path=path)) as router:
        await ask(router.port, post())
        await lines_of(path, 1)
        path.rename(tmp_path / "access.log.1")
        await ask(router.port, post())
        await lines_of(path, 1)
    assert (tmp_path / "access.log.1").read_bytes().count(b"\n") == 1


async def test_prefixes_tell_which_prompts_began_alike_and_can_be_replayed(lone_worker, tmp_path):
    path = tmp_path / "access.log"
    lone_worker.script = answering(response(json.dumps({"usage": USAGE}).encode()))
    common = "s" * 8000
    async with running(logged(lone_worker.url, path=path, prefixes=True)) as router:
        for text in (common + "a" * 4000, common + "b" * 4000):
            await ask(router.port, chat(text))
        first, second = await lines_of(path, 2)
        fingerprint = router.gateway.ladder
    shared = sum(one == other for one, other in zip(first["prefix"], second["prefix"], strict=True))
    assert fingerprint.tokens_at(shared) == pytest.approx(2000, abs=256)
    assert shared < len(first["prefix"])

    trace = read_trace(path)
    one, other = (session.turns[0] for session in trace.sessions)
    assert one.blocks[:shared] == other.blocks[:shared]
    assert one.blocks[shared] != other.blocks[shared]
    assert one.ends[shared] == fingerprint.tokens_at(shared)
    assert (one.prompt_tokens, one.output_tokens) == (first["prompt_tokens"], 7)


async def test_two_routers_hash_the_same_prompt_differently(lone_worker, tmp_path):
    prefixes = []
    lone_worker.script = answering(response(b"{}"))
    for name in ("one", "other"):
        async with running(logged(lone_worker.url, path=tmp_path / name, prefixes=True)) as router:
            await ask(router.port, chat("x" * 2000))
        (line,) = await lines_of(tmp_path / name, 1)
        prefixes.append(line["prefix"])
    assert not {*prefixes[0]} & {*prefixes[1]}


async def test_a_disk_that_takes_nothing_loses_lines_and_no_requests(lone_worker):
    lone_worker.script = answering(response(b"{}"))
    async with running(logged(lone_worker.url, path="/dev/full")) as router:
        assert (await ask(router.port, post())).status == 200
        await eventually(lambda: router.metrics.lost_access_lines() == 1, "the line is lost", 5)
        assert (await ask(router.port, post())).status == 200
        await eventually(lambda: router.metrics.lost_access_lines() == 2, "the line is lost", 5)


async def test_a_file_that_cannot_be_opened_ends_the_start(lone_worker, tmp_path):
    with pytest.raises(AccessLogError, match=r"--access-log .*Is a directory"):
        Router(logged(lone_worker.url, path=tmp_path))
