"""What prefill and decode engines of every dialect have in common: told figures, ports, failures."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from dataclasses import asdict
from urllib.request import urlopen

import pytest
from tests.simulation.pd.legs import CHAT, REMOTE_DECODE, fastdeploy_body, post, sglang_body, vllm_handle

from warmroute.engines.metrics import read_metrics
from warmroute.simulation.engine import start_engine
from warmroute.simulation.processes import free_ports
from warmroute.simulation.settings import EngineSettings

DIALECTS = ("fastdeploy", "sglang", "vllm")


async def hand_over(http, prefill, decode, key: int, **changes: object) -> int:
    """One request through a pair of any dialect; the status of its answer."""
    dialect = prefill.settings.dialect
    if dialect == "vllm":
        handle = await vllm_handle(http, prefill, {**CHAT, **changes})
        return (await post(http, decode, {**CHAT, **changes, "kv_transfer_params": handle}))[0]
    body = (
        sglang_body(prefill, key, **changes)
        if dialect == "sglang"
        else fastdeploy_body(prefill, decode, str(key), **changes)
    )
    _, (status, _) = await asyncio.gather(post(http, prefill, body), post(http, decode, body))
    return status


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_many_at_a_time_all_confirmed_and_nothing_left(pair, http, dialect):
    """With caches that hold a few of them at a time."""
    prefill, decode = await pair(dialect, cache_tokens=3200)

    async def one(key: int) -> int:
        messages = [{"role": "user", "content": f"{key} " + "word " * (50 + 13 * key % 200)}]
        return await hand_over(http, prefill, decode, key, messages=messages, stream=bool(key % 2))

    statuses = await asyncio.gather(*map(one, range(60)))
    assert set(statuses) == {200}
    assert (prefill.kv.offered, prefill.kv.sent, decode.kv.received, decode.kv.mismatches) == (60, 60, 60, 0)
    for engine in (prefill, decode):
        assert (engine.core.running, engine.core.kept, engine.core.cache.used, engine.kv_held) == (0, 0, 0, 0)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_engines_tell_what_they_confirmed(pair, http, dialect):
    prefill, decode = await pair(dialect)
    await hand_over(http, prefill, decode, 1)
    for engine, event in ((prefill, "sent"), (decode, "received")):
        async with http.get(f"{engine.url}/simulation") as response:
            told = await response.json()
        assert (told["role"], told["dialect"], told["held"]) == (engine.settings.role, dialect, 0)
        assert told["kv"] == asdict(engine.kv)
        assert told["kv"][event] == 1
        async with http.get(f"{engine.url}/metrics") as response:
            page = await response.read()
        lines = [line for line in page.decode().splitlines() if line.startswith("simulation:kv_handovers_total")]
        assert [float(line.split()[-1]) for line in lines if f'event="{event}"' in line] == [1.0]
        vitals = read_metrics(page)
        assert vitals is not None
        assert (vitals.dialect, vitals.kv_connector) == (dialect, "NixlConnector" if dialect == "vllm" else None)


async def test_vllm_tells_where_the_tokens_came_from(pair, http):
    prefill, decode = await pair("vllm")
    await hand_over(http, prefill, decode, 1)
    async with http.get(f"{decode.url}/metrics") as response:
        page = await response.text()
    labels = 'engine="0",model_name="simulated",source'
    for source, tokens in (("local_compute", 0), ("local_cache_hit", 0), ("external_kv_transfer", 98)):
        assert f'vllm:prompt_tokens_by_source_total{{{labels}="{source}"}} {float(tokens)}\n' in page


async def test_a_mixed_engine_has_nothing_to_tell(start, http):
    """And takes no notice of a handshake."""
    engine = await start(dialect="vllm")
    status, answer = await post(http, engine, {**CHAT, "kv_transfer_params": REMOTE_DECODE})
    assert (status, "kv_transfer_params" in answer, engine.kv_held) == (200, False, 0)
    async with http.get(f"{engine.url}/simulation") as response:
        assert await response.json() == {"role": "mixed"}
    async with http.get(f"{engine.url}/metrics") as response:
        assert b"simulation:" not in await response.read()


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_frozen_prefill_engine_does_not_hold_its_decode_for_ever(pair, http, dialect):
    prefill, decode = await pair(dialect, handover_seconds=0.05)
    handle = await vllm_handle(http, prefill) if dialect == "vllm" else None
    prefill.freeze()
    if dialect == "vllm":
        body = {**CHAT, "kv_transfer_params": handle}
    else:
        body = sglang_body(prefill, 1) if dialect == "sglang" else fastdeploy_body(prefill, decode, "1")
    status, _ = await post(http, decode, body)
    assert (status, decode.core.running) == (500, 0)


@pytest.mark.parametrize("dialect", ["fastdeploy", "sglang"])
async def test_only_the_meeting_port_has_kv_caches(pair, http, dialect):
    prefill, _ = await pair(dialect)
    pull = {"key": "k", "seal": "", "tokens": 1, "wait_seconds": 0}
    for port, words in ((prefill.port, "Not Found"), (prefill.meeting_port, "'k' is unknown")):
        async with http.post(f"http://127.0.0.1:{port}/simulation/kv", json=pull) as response:
            assert (response.status, (await response.json())["error"]["message"]) == (404, words)
    async with http.post(f"http://127.0.0.1:{prefill.meeting_port}/simulation/kv", json={}) as response:
        assert response.status == 400
    async with http.get(f"http://127.0.0.1:{prefill.meeting_port}/health") as response:
        assert response.status == 404


async def test_a_taken_bootstrap_port_is_told_and_frees_the_other_one(start):
    first = await start(dialect="sglang", role="prefill")
    [port] = free_ports(1)
    settings = EngineSettings(port=port, dialect="sglang", role="prefill", bootstrap_port=first.meeting_port)
    with pytest.raises(OSError, match="in use"):
        await start_engine(settings)
    await start(port=port)


async def test_only_decode_engines_give_back(start):
    engine = await start(role="prefill")
    with pytest.raises(ValueError, match="only a decode engine"):
        engine.give_back()


async def test_stop_ends_those_that_wait(pair, http):
    prefill, decode = await pair("sglang")
    legs = [asyncio.create_task(post(http, engine, sglang_body(prefill, room))) for engine, room in
            ((prefill, 1), (decode, 2))]  # fmt: skip
    while decode.core.running == 0 or prefill.kv_held == 0:
        await asyncio.sleep(0.005)
    await decode.stop()
    await prefill.stop()
    await asyncio.wait_for(asyncio.gather(*legs, return_exceptions=True), 5.0)
    assert (prefill.kv_held, prefill.core.cache.used, decode.core.cache.used) == (0, 0, 0)


@pytest.mark.parametrize("flags", [["--dialect", "sglang"], ["--dialect", "fastdeploy", "--tp-size", "2"]])
def test_the_command_tells_the_port_to_meet_at(flags):
    command = [sys.executable, "-m", "warmroute", "engine", "--port", "0", "--role", "prefill", "--bootstrap-port", "0"]
    process = subprocess.Popen([*command, *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with process:
        line = process.stdout.readline()
        url = line.split()[-1]
        with urlopen(f"{url}/simulation", timeout=5) as response:
            told = json.load(response)
        process.terminate()
    kind = "bootstrap" if "sglang" in flags else "connector"
    assert line == f"simulated {flags[1]} prefill engine ({kind} port {told['meeting_port']}) at {url}\n"
