"""The harness against a bare mock worker: its counting and its guard against wrong answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.answers import ANSWER, CHUNKS
from benchmarks.load import LoadResult, connected, run_load
from benchmarks.measure import WORKERS, Row, Run, Target, measure, mock_workers, running
from benchmarks.mock_worker import TOKEN_SECONDS
from benchmarks.processes import Cores, fetch
from benchmarks.routers import warmroute
from benchmarks.scenarios import CACHE_TOKENS, PAIR_REQUESTS, PAIR_STREAM, REQUESTS, STREAM


@pytest.fixture(scope="module")
def worker() -> Iterator[Target]:
    with mock_workers(Cores.of_machine(), CACHE_TOKENS) as (child, ports):
        assert len(set(ports)) == WORKERS
        yield Target("direct", ports[0], child)


@pytest.mark.parametrize("scenario", REQUESTS, ids=lambda scenario: scenario.name)
async def test_plain_requests_are_answered_and_cost_cpu_time(worker: Target, scenario):
    row = Row()
    await measure(worker, scenario, scenario.prompts(), 0.3, row)
    assert row.valid, row.errors
    assert row.requests >= scenario.connections
    assert 0 < row.median_us < 1e6
    assert 0 < row.busy[0] <= 1.5


async def test_a_stream_trickles(worker: Target):
    row = Row()
    await measure(worker, replace(STREAM, connections=4), STREAM.prompts(), 0.1, row)
    assert row.valid, row.errors
    assert row.requests == 4
    assert row.requests_per_second[0] < 4 / ((CHUNKS - 1) * TOKEN_SECONDS)


async def test_a_wrong_length_makes_the_row_invalid(worker: Target):
    row = Row()
    await measure(worker, REQUESTS[0], STREAM.prompts(), 0.1, row)
    assert not row.valid
    assert "bytes instead of" in row.errors[0]


async def test_a_wrong_status_counts_as_failed(worker: Target):
    request = b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n"
    result = await run_load(worker.port, lambda: request, 0, connections=1, requests=2)
    assert (result.requests, result.failed) == (0, 2)
    assert result.errors[0].startswith("status 404")


async def test_so_many_requests_and_no_more(worker: Target):
    result = await run_load(worker.port, REQUESTS[0].prompts(), len(ANSWER), connections=8, requests=20)
    assert (result.requests, result.failed) == (20, 0)


async def test_a_run_is_the_sum_of_its_slices(worker: Target):
    scenario = replace(REQUESTS[0], connections=4)
    async with connected(worker.port, scenario.answer_bytes, scenario.connections) as load:
        run, other = Run(worker, load), Run(worker, load)
        await run.go_on(scenario.prompts(), requests=6)
        await other.go_on(scenario.prompts(), requests=40)
        first = run.cpu_seconds
        await run.go_on(scenario.prompts(), requests=3)
    assert (run.load.requests, other.load.requests, run.load.failed) == (9, 40, 0)
    assert 0 < first < run.cpu_seconds
    assert run.load.seconds > 0


async def test_connections_stay_open_from_run_to_run_and_a_broken_one_fails_in_each():
    opened, answers = [], 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal answers
        opened.append(writer)
        while answers < 4 and await reader.readuntil(b"\r\n\r\n"):
            answers += 1
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    def request() -> bytes:
        return b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server, connected(server.sockets[0].getsockname()[1], 0, 1) as load:
        runs = [await load.run(request, requests=2) for _ in range(4)]
    assert [(run.requests, run.failed) for run in runs] == [(2, 0), (2, 0), (0, 1), (0, 1)]
    assert "closed" in runs[2].errors[0]
    assert len(opened) == 1


def test_runs_add_up_with_the_first_of_their_errors():
    both, second = LoadResult(5, 2, 1.0, ["a", "b"]), LoadResult(3, 2, 0.5, ["c", "d"])
    both.add(second)
    assert both == LoadResult(8, 4, 1.5, ["a", "b", "c"])


def test_the_worker_tells_its_cache_size(worker: Target):
    page = fetch(f"http://127.0.0.1:{worker.port}/metrics")
    assert page is not None
    assert f'kv_cache_size_tokens="{CACHE_TOKENS}"'.encode() in page
    assert worker.child.rss_bytes() > 1_000_000


@pytest.mark.parametrize("make", ["sglang", "vllm"])
@pytest.mark.parametrize("scenario", [PAIR_REQUESTS[0], PAIR_STREAM], ids=lambda scenario: scenario.name)
async def test_mock_pairs_serve_requests_through_the_router(make: str, scenario, tmp_path: Path):
    cores, row = Cores.of_machine(), Row()
    with (
        mock_workers(cores, CACHE_TOKENS, make) as (_, ports),
        running(warmroute("pairs", make), ports, cores, tmp_path) as target,
    ):
        await measure(target, replace(scenario, connections=4), scenario.prompts(), 0.2, row)
    assert row.valid, row.errors
    assert row.requests >= 4


async def test_a_pair_of_workers_without_its_router_gives_no_answer_that_counts():
    with mock_workers(Cores.of_machine(), CACHE_TOKENS, "vllm") as (_, ports):
        load = await run_load(ports[-1], REQUESTS[0].prompts(), len(ANSWER), connections=1, requests=2)
    assert (load.requests, load.failed) == (0, 2)
    assert load.errors[0].startswith("status 400")
