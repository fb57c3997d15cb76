"""Requests for which no worker has a place: they wait in order, for a bounded time, and for nobody who has left."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from tests.support.http_client import Client, Response, post
from tests.support.router import config, eventually, router_over, running
from tests.support.scripted_worker import Connection, Request, ScriptedWorker, response

from warmroute.app import Router


class Holding:
    """A script that answers each request when it is told to. `names` are what requests say they are, as they came."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.held: list[asyncio.Event] = []

    async def __call__(self, request: Request, connection: Connection) -> None:
        self.names.append(json.loads(request.body).get("name", ""))
        event = asyncio.Event()
        self.held.append(event)
        await event.wait()
        await connection.send(response())

    def answer(self, number: int) -> None:
        self.held[number].set()


@pytest.fixture
async def worker() -> AsyncIterator[ScriptedWorker]:
    async with ScriptedWorker() as worker:
        worker.script = Holding()
        yield worker


def ask(router: Router, name: str, priority: str = "", model: str = "m") -> asyncio.Task[Response]:
    async def asking() -> Response:
        async with await Client.connect(router.port) as client:
            headers = [(b"X-Request-Priority", priority.encode())] if priority else []
            return await client.ask(post(body={"model": model, "messages": [], "name": name}, headers=headers))

    return asyncio.create_task(asking())


async def waiting(router: Router, number: int) -> None:
    await eventually(lambda: router.metrics.queue_length == number, f"{number} wait", 5)


async def began(script: Holding, number: int) -> None:
    await eventually(lambda: len(script.names) == number, f"{number} have begun", 5)


def limits(limit: int = 1, **more: float) -> dict[str, float]:
    return {"max_inflight_per_worker": limit, **more}


async def test_requests_wait_in_the_order_of_their_arrival(worker: ScriptedWorker) -> None:
    script = worker.script
    async with router_over(worker, scheduler=limits()) as router:
        answers = []
        for number, name in enumerate("abcd"):
            answers.append(ask(router, name))
            await (began(script, 1) if number == 0 else waiting(router, number))
        for number in range(4):
            await began(script, number + 1)
            await waiting(router, 3 - number)
            assert router.ledger.open_leases == 1
            script.answer(number)
            assert (await answers[number]).status == 200
        assert script.names == list("abcd")
        assert router.metrics.queue_wait.count == 3
        assert not router.metrics.queue_drops


async def test_priority_orders_the_line(worker: ScriptedWorker) -> None:
    script = worker.script
    async with router_over(worker, scheduler=limits()) as router:
        answers = [ask(router, "first")]
        await began(script, 1)
        for number, (name, priority) in enumerate((("low", "-9"), ("none", ""), ("odd", "high"), ("urgent", "9"))):
            answers.append(ask(router, name, priority))
            await waiting(router, number + 1)
        for number in range(5):
            await began(script, number + 1)
            script.answer(number)
        assert [answer.status for answer in await asyncio.gather(*answers)] == [200] * 5
        assert script.names == ["first", "urgent", "none", "odd", "low"]


async def test_a_full_line_and_a_long_wait_are_429(worker: ScriptedWorker) -> None:
    script = worker.script
    async with router_over(worker, scheduler=limits(max_queue=1, queue_timeout=0.3)) as router:
        first = ask(router, "first")
        await began(script, 1)
        second = ask(router, "second")
        await waiting(router, 1)
        for answer, says in ((await ask(router, "third"), "1 requests wait"), (await second, "for 0.3 s")):
            assert (answer.status, answer.error["code"]) == (429, "overloaded")
            assert says in answer.error["message"]
            assert 1 <= int(answer.value(b"retry-after")) <= 60
        script.answer(0)
        assert (await first).status == 200
        assert script.names == ["first"]
        assert router.metrics.queue_drops == {"full": 1, "timeout": 1}
        assert router.metrics.queue_length == 0


async def test_who_leaves_is_waited_for_no_longer(worker: ScriptedWorker) -> None:
    script = worker.script
    async with router_over(worker, scheduler=limits()) as router:
        first = ask(router, "first")
        await began(script, 1)
        async with await Client.connect(router.port) as leaver:
            await leaver.send(post(body={"name": "leaver"}))
            await waiting(router, 1)
            second = ask(router, "second")
            await waiting(router, 2)
        await waiting(router, 1)
        script.answer(0)
        await began(script, 2)
        script.answer(1)
        assert [(await first).status, (await second).status] == [200, 200]
        assert script.names == ["first", "second"]
        assert router.metrics.queue_drops == {"client_left": 1}


async def test_who_waits_takes_whichever_worker_is_free_first(worker: ScriptedWorker) -> None:
    async with ScriptedWorker(Holding()) as other, router_over(worker, other, scheduler=limits()) as router:
        answers = [ask(router, name) for name in "abc"]
        await began(worker.script, 1)
        await began(other.script, 1)
        await waiting(router, 1)
        other.script.answer(0)
        await began(other.script, 2)
        assert len(worker.script.names) == 1
        worker.script.answer(0)
        other.script.answer(1)
        assert [answer.status for answer in await asyncio.gather(*answers)] == [200] * 3


async def test_a_worker_that_joins_takes_who_waits(worker: ScriptedWorker) -> None:
    async with ScriptedWorker(Holding()) as other, router_over(worker, scheduler=limits()) as router:
        answers = [ask(router, name) for name in "ab"]
        await began(worker.script, 1)
        await waiting(router, 1)
        router.fleet.add_worker(other.url)
        await began(other.script, 1)
        worker.script.answer(0)
        other.script.answer(0)
        assert [answer.status for answer in await asyncio.gather(*answers)] == [200] * 2


async def test_nobody_waits_for_workers_that_are_gone(worker: ScriptedWorker) -> None:
    async with router_over(worker, scheduler=limits()) as router:
        answers = [ask(router, name) for name in "ab"]
        await began(worker.script, 1)
        await waiting(router, 1)
        router.fleet.drain(worker.url)
        done, _ = await asyncio.wait(answers, return_when=asyncio.FIRST_COMPLETED, timeout=5)
        assert [task.result().status for task in done] == [503]
        worker.script.answer(0)
        assert sorted(answer.status for answer in await asyncio.gather(*answers)) == [200, 503]


async def test_a_request_that_failed_elsewhere_waits_like_any_other(worker: ScriptedWorker) -> None:
    """It was with a worker that broke off; the only other one is busy."""

    async def broken(_request: Request, connection: Connection) -> None:
        await connection.reset()

    async with ScriptedWorker(broken) as other, router_over(worker, scheduler=limits()) as router:
        first = ask(router, "first")
        await began(worker.script, 1)
        router.fleet.add_worker(other.url)
        await eventually(lambda: router.fleet.get(other.url).routable, "the other is there", 5)
        second = ask(router, "second")
        await waiting(router, 1)
        assert len(other.requests) == 1
        worker.script.answer(0)
        await began(worker.script, 2)
        worker.script.answer(1)
        assert [(await first).status, (await second).status] == [200, 200]


def once(first: bytes, then: Holding) -> Callable[[Request, Connection], Awaitable[None]]:
    """A script that answers its first request with `first`."""

    async def script(request: Request, connection: Connection) -> None:
        nonlocal first
        answer, first = first, b""
        await (connection.send(answer) if answer else then(request, connection))

    return script


BOOM = response(b"boom", status=b"500 No")


async def test_who_may_go_to_one_worker_only_holds_up_nobody_who_may_go_to_another(worker: ScriptedWorker) -> None:
    idle = Holding()
    async with ScriptedWorker(once(BOOM, idle)) as other, router_over(worker, scheduler=limits()) as router:
        answers = [ask(router, "first")]
        await began(worker.script, 1)
        router.fleet.add_worker(other.url)
        await eventually(lambda: router.fleet.get(other.url).routable, "the other is there", 5)
        answers.append(ask(router, "failed there"))
        await waiting(router, 1)
        answers.append(ask(router, "later"))
        await began(idle, 1)
        assert idle.names == ["later"]
        idle.answer(0)
        worker.script.answer(0)
        await began(worker.script, 2)
        worker.script.answer(1)
        assert [answer.status for answer in await asyncio.gather(*answers)] == [200] * 3


async def test_the_last_answer_of_a_worker_is_kept_by_who_waits_in_vain(worker: ScriptedWorker) -> None:
    options = limits(max_queue=1, queue_timeout=0.3)
    async with ScriptedWorker(once(BOOM, Holding())) as other, router_over(worker, scheduler=options) as router:
        first = ask(router, "first")
        await began(worker.script, 1)
        router.fleet.add_worker(other.url)
        await eventually(lambda: router.fleet.get(other.url).routable, "the other is there", 5)
        answer = await ask(router, "failed there")
        assert (answer.status, answer.body) == (500, b"boom")
        worker.script.answer(0)
        await first


async def test_a_line_that_is_full_for_one_model_turns_nobody_away_whose_worker_is_idle() -> None:
    busy, idle = ScriptedWorker(Holding()), ScriptedWorker(Holding())
    busy.model, idle.model = b"a", b"b"
    async with busy, idle, router_over(busy, idle, scheduler=limits(max_queue=1)) as router:
        of_busy = [ask(router, name, model="a") for name in "12"]
        await waiting(router, 1)
        of_idle = ask(router, "3", model="b")
        await began(idle.script, 1)
        idle.script.answer(0)
        assert (await of_idle).status == 200
        assert (await ask(router, "4", model="a")).status == 429
        busy.script.answer(0)
        await began(busy.script, 2)
        busy.script.answer(1)
        assert [answer.status for answer in await asyncio.gather(*of_busy)] == [200] * 2


@asynccontextmanager
async def answering_at_once(worker: ScriptedWorker) -> AsyncIterator[Callable[[], int]]:
    """Give the worker a script that takes a moment; yields what tells how many it had at most at once."""
    now, most = 0, 0

    async def script(_request: Request, connection: Connection) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.002)
        now -= 1
        await connection.send(response())

    worker.script = script
    yield lambda: most


async def test_no_worker_gets_more_than_its_limit_and_everybody_is_served(worker: ScriptedWorker) -> None:
    async with (
        ScriptedWorker() as other,
        answering_at_once(worker) as most,
        answering_at_once(other) as others_most,
        router_over(worker, other, scheduler=limits(3)) as router,
    ):

        async def client() -> list[int]:
            async with await Client.connect(router.port) as connection:
                return [(await connection.ask(post())).status for _ in range(10)]

        statuses = await asyncio.gather(*(client() for _ in range(30)))
        assert statuses == [[200] * 10] * 30
        assert most() <= 3
        assert others_most() <= 3
        assert router.metrics.queue_length == 0
        assert router.metrics.queue_wait.count > 0


async def test_the_line_shows_in_metrics_and_to_fastdeploys_tools(worker: ScriptedWorker) -> None:
    async with router_over(worker, scheduler=limits()) as router:
        answers = [ask(router, name) for name in "ab"]
        await waiting(router, 1)
        async with await Client.connect(router.port) as client:
            await client.send(b"GET /worker_metrics HTTP/1.1\r\nHost: r\r\n\r\n")
            assert json.loads((await client.read_response()).body)["pending_request_count"] == 1
            await client.send(b"GET /metrics HTTP/1.1\r\nHost: r\r\n\r\n")
            page = (await client.read_response()).body.decode()
        assert "warmroute_queue_length 1.0" in page
        assert 'warmroute_queue_dropped_total{reason="full"} 0.0' in page
        await began(worker.script, 1)
        worker.script.answer(0)
        await began(worker.script, 2)
        worker.script.answer(1)
        await asyncio.gather(*answers)


async def test_without_a_limit_nothing_of_this_is_there(worker: ScriptedWorker) -> None:
    async with running(config(worker.url)) as router:
        assert type(router.scheduler).__name__ == "Scheduler"
        assert type(router.ledger).__name__ == "Ledger"


async def test_a_worker_of_whose_return_nobody_tells_is_noticed(worker: ScriptedWorker) -> None:
    """Pools may change without a word; who waits looks by itself, now and then."""
    async with ScriptedWorker(Holding()) as other, router_over(worker, other, scheduler=limits()) as router:
        member = router.fleet.get(other.url)
        member.drained = True
        router.fleet._roster.pools.invalidate()
        answers = [ask(router, name) for name in "ab"]
        await began(worker.script, 1)
        await waiting(router, 1)
        member.drained = False
        router.fleet._roster.pools.invalidate()
        await began(other.script, 1)
        worker.script.answer(0)
        other.script.answer(0)
        assert [answer.status for answer in await asyncio.gather(*answers)] == [200, 200]
