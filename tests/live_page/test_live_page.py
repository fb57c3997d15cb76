"""The live page in a real browser: what it shows, what can be done on it, and whether all can use it."""

from __future__ import annotations

import json
import re
import time

import pytest
from tests.live_page.checks import CUT_OFF, TOO_FAINT
from tests.live_page.conftest import async_api
from tests.support.http_client import COMPLETIONS, ask, post
from tests.support.router import config, router_over, running
from tests.support.scripted_worker import ScriptedWorker

from warmroute.control.admin_models import HistorySample, PrefixFlow, RouterState, Totals, WorkerView

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(120)]
expect = async_api.expect
PATIENT = 15_000


def worker_id(worker: ScriptedWorker) -> str:
    return f"127.0.0.1:{worker.port}"


def card(page, worker):
    return page.locator(f'.card[data-worker="{worker_id(worker)}"]')


def figure(place, label: str):
    return place.locator("dl > div", has=place.page.get_by_text(label, exact=True)).locator("dd")


def events_of(*workers: WorkerView, **changes) -> str:
    """A stream that tells of these workers once."""
    flows = [PrefixFlow(prefix=f"{n:06x}", tokens={one.id: 100 + n for one in workers}) for n in range(3) if workers]
    totals = Totals(
        workers=len(workers),
        routable=sum(one.can_be_chosen for one in workers),
        running=7,
        queued=4,
        pending_prefill_tokens=12_345,
        requests_per_second=3.25,
        errors_per_second=0.5,
        hit_share=0.815,
        ttft_p50_seconds=0.042,
        ttft_p99_seconds=1.5,
    )
    state = RouterState(
        version="9.9.9",
        time=time.time(),
        uptime_seconds=7260,
        mode="mixed",
        policies={"mixed": "cache_aware"},
        can_serve=bool(workers),
        totals=totals,
        workers=list(workers),
        flows=flows,
    )
    return f"event: state\ndata: {state.model_copy(update=changes).model_dump_json()}\n\n"


def a_worker(number: int, **changes) -> WorkerView:
    values = {
        "id": f"10.0.0.{number}:8000",
        "url": f"http://10.0.0.{number}:8000",
        "role": "mixed",
        "state": "healthy",
        "breaker": "closed",
        "stuck": False,
        "can_be_chosen": True,
        "running": number,
        "pending_prefill_tokens": 1200,
        "requests_per_second": 1.0,
        "hit_share": 0.5,
        "ttft_seconds": 0.1,
        "known_prefix_tokens": 10,
        "cache_tokens": 100,
        "dialect": "vllm",
        "models": ["m"],
        "source": "static",
    }
    return WorkerView.model_validate(values | changes)


async def test_a_fleet_is_shown_as_it_is_and_as_it_becomes(open_page):
    async with ScriptedWorker() as one, ScriptedWorker() as other, router_over(one, other) as router:
        page = await open_page(router.port)
        await expect(page.locator("#health")).to_have_text("Serving")
        await expect(page.locator("#g-workers")).to_have_text("2 / 2")
        await expect(page.locator(".card")).to_have_count(2)
        for _ in range(3):
            await ask(router.port, post(COMPLETIONS, {"model": "m", "prompt": "same words " * 200}))
        (served,) = [worker for worker in (one, other) if worker.requests]
        await expect(figure(card(page, served), "Hits")).to_contain_text("%", timeout=PATIENT)
        await expect(figure(card(page, served), "TTFT")).to_contain_text("ms")
        await expect(page.locator("#flow-picture svg")).to_have_attribute(
            "aria-label",
            f"Prompts that begin with {(await flow_name(page))}: 512 tokens on {worker_id(served)}",
            timeout=PATIENT,
        )
        router.fleet.add_worker("http://127.0.0.1:9")
        await expect(page.locator(".card")).to_have_count(3)
        await expect(page.get_by_role("status")).to_have_text("127.0.0.1:9 is starting")
        await page.get_by_role("radio", name="Not serving 1").check()
        await expect(page.locator(".card:visible")).to_have_count(1)


async def flow_name(page) -> str:
    text = await page.locator("#flow-picture .name").first.text_content(timeout=PATIENT)
    return text.removeprefix("prefix ")


async def test_a_worker_is_drained_and_undrained_with_the_keyboard(open_page):
    async with ScriptedWorker() as worker, router_over(worker) as router:
        page = await open_page(router.port)
        button = card(page, worker).get_by_role("button")
        await page.get_by_role("link", name="Skip to the workers").press("Enter")
        await page.keyboard.press("Tab")
        await expect(page.get_by_role("radio", name="All 1")).to_be_focused()
        await page.keyboard.press("Tab")
        await expect(button).to_be_focused()
        await expect(button).to_have_accessible_name(f"Drain {worker_id(worker)}")
        await page.keyboard.press("Enter")
        await expect(card(page, worker).locator(".badge")).to_have_text("draining")
        assert router.fleet.get(worker_id(worker)).state == "draining"
        await expect(page.locator("#health")).to_have_text("Cannot serve")
        await expect(button).to_have_accessible_name(f"Undrain {worker_id(worker)}")
        await expect(button).to_be_focused()
        await page.keyboard.press("Space")
        await expect(card(page, worker).locator(".badge")).to_have_text("healthy")


async def test_what_cannot_be_done_is_told(open_page):
    async with ScriptedWorker() as worker, router_over(worker) as router:
        page = await open_page(router.port, events_of(a_worker(1)))
        await page.get_by_role("button", name="Drain 10.0.0.1:8000").click()
        await expect(page.locator("#trouble-text")).to_contain_text("10.0.0.1:8000")
        await page.get_by_role("button", name="Dismiss").click()
        await expect(page.locator("#trouble")).to_be_hidden()


async def test_a_router_that_is_away_is_told_of_and_found_again(open_page):
    settings = config()
    async with running(settings) as router:
        page = await open_page(router.port)
        await expect(page.locator("#lost")).to_be_hidden()
    await expect(page.locator("#lost")).to_be_visible(timeout=PATIENT)
    await expect(page.locator("#health")).to_have_text("No connection")
    await expect(page.get_by_role("status")).to_have_text("The router does not answer")
    async with running(settings):
        await expect(page.locator("#lost")).to_be_hidden(timeout=2 * PATIENT)
        await expect(page.get_by_role("status")).to_have_text("The router answers again")


async def test_without_workers_the_page_says_what_to_do(open_page):
    async with running(config()) as router:
        page = await open_page(router.port)
        await expect(page.locator("#no-workers")).to_be_visible()
        await expect(page.locator("#add-command")).to_contain_text(f"curl http://127.0.0.1:{router.port}/workers -d")
        await expect(page.locator("#health")).to_have_text("Cannot serve")


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        ("cache_aware", "holds 512 of 550; score 38, next 550"),
        ("least_delay", re.compile(r"holds 512 of 550; score 0\.00\d+, next 0\.\d*[1-9]")),  # in seconds
    ],
)
async def test_explained_decisions_are_shown_with_their_reasons(open_page, policy, reason):
    settings = {"scheduler": {"policy": policy}}
    async with ScriptedWorker() as one, ScriptedWorker() as other, router_over(one, other, **settings) as router:
        page = await open_page(router.port)
        await expect(page.locator("#no-decisions")).to_contain_text("x-warmroute-explain: 1")
        body = {"model": "m", "prompt": "same words " * 200}
        for _ in range(2):
            await ask(router.port, post(COMPLETIONS, body, [(b"x-warmroute-explain", b"1")]))
        (served,) = [worker for worker in (one, other) if worker.requests]
        rows = page.locator("#decisions-rows tr")
        await expect(rows).to_have_count(2, timeout=PATIENT)
        await expect(rows.first).to_contain_text(worker_id(served))
        await expect(rows.first).to_contain_text(reason)
        await expect(rows.first).to_contain_text("served")
        await expect(page.locator("#no-decisions")).to_be_hidden()


async def test_figures_have_three_digits_and_a_unit(open_page):
    async with running(config()) as router:
        page = await open_page(router.port, events_of(a_worker(1, hit_share=None, ttft_seconds=None), a_worker(2)))
        for name, text in {
            "g-workers": "2 / 2",
            "g-rate": "3.3",
            "g-rate-note": "0.5 errors / s",
            "g-running-note": "on 2 workers, 4 wait for a place",
            "g-ttft": "42 ms",
            "g-ttft-note": "p99 1.50 s",
            "g-hit": "82 %",
            "g-pending": "12.3k",
            "about": "9.9.9 · mixed · cache_aware · up 2 h 1 min",
        }.items():
            await expect(page.locator(f"#{name}")).to_have_text(text)
        assert await page.locator(".card dd").all_text_contents() == [
            "1",
            "1.20k",
            "\u2013",
            "\u2013",
            "2",
            "1.20k",
            "50 %",
            "100 ms",
        ]


async def test_charts_say_in_words_what_they_draw(open_page):
    samples = [
        HistorySample(
            time=time.time() - 10 + 5 * n,
            requests_per_second=4.0 + n,
            errors_per_second=0.0,
            ttft_p50_seconds=0.1 if n else None,
            ttft_p99_seconds=0.2 if n else None,
            hit_share=0.5,
            running=1,
        )
        for n in range(2)
    ]
    told = "".join(f"event: sample\ndata: {json.dumps(sample.model_dump())}\n\n" for sample in samples)
    async with running(config()) as router:
        page = await open_page(router.port, events_of() + told)
        chart = page.locator("#chart-rate svg")
        await expect(chart).to_have_attribute(
            "aria-label",
            "Requests per second, last 15 minutes. ended: now 5.0, lowest 4.0, highest 5.0. "
            "of them errors: now 0.0, lowest 0.0, highest 0.0.",
        )
        await expect(page.locator("#chart-ttft .key")).to_have_text(["p50 100 ms", "p99 200 ms"])
        assert await page.locator("#chart-rate path.trace").count() == 1


MANY = [
    *[a_worker(n) for n in range(1, 58)],
    a_worker(60, state="unhealthy", can_be_chosen=False),
    a_worker(61, breaker="open", can_be_chosen=False),
    a_worker(62, breaker="half_open"),
    a_worker(59, stuck=True, can_be_chosen=False),
    a_worker(63, state="draining", can_be_chosen=False),
    a_worker(64, state="starting", can_be_chosen=False, dialect=None, hit_share=None, ttft_seconds=None),
    a_worker(65, state="paused", can_be_chosen=False),
]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1400])
async def test_nothing_is_cut_off_and_all_text_can_be_read(open_page, scheme, width):
    async with running(config()) as router:
        page = await open_page(
            router.port, events_of(*MANY), color_scheme=scheme, viewport={"width": width, "height": 900}
        )
        await expect(page.locator(".card")).to_have_count(64)
        assert await page.evaluate("document.documentElement.scrollWidth") == width
        assert await page.evaluate(CUT_OFF) == []
        assert await page.evaluate(TOO_FAINT) == []
        await expect(card_of(page, 61)).to_contain_text("breaker open")
        await expect(card_of(page, 59)).to_contain_text("stuck")
        assert await page.locator("#flow-picture .end.to").count() <= 12


def card_of(page, number: int):
    return page.locator(f'.card[data-worker="10.0.0.{number}:8000"]')


async def test_the_page_has_landmarks_and_one_quiet_voice(open_page):
    async with running(config()) as router:
        page = await open_page(router.port, events_of(*MANY))
        await expect(page.get_by_role("banner")).to_have_count(1)
        await expect(page.get_by_role("main")).to_have_count(1)
        await expect(page.get_by_role("heading", level=1)).to_have_text("Warmroute")
        for name in ("Fleet at a glance", "The last 15 minutes", "Workers", "Where prompts go", "Last decisions"):
            await expect(page.get_by_role("region", name=name)).to_have_count(1)
        assert await page.locator("[aria-live], [role=status], [role=alert]").count() == 1
        await expect(
            page.locator("img:not([alt]), svg:not([aria-label]), button:not([type]):not([value])")
        ).to_have_count(0)


async def test_keys_are_asked_for_and_stay_in_the_tab(open_page):
    async with ScriptedWorker() as worker, router_over(worker) as router:
        page = await open_page(router.port)
        seen = []

        async def guarded(route):
            key = await route.request.header_value("authorization")
            seen.append(key)
            if key != "Bearer secret":
                await route.fulfill(status=401, json={"code": 401, "msg": "an admin key is needed"})
            else:
                await route.continue_()

        await page.route("**/drain", guarded)
        button = card(page, worker).get_by_role("button")
        await button.click()
        await page.get_by_label("Key", exact=True).fill("secret")
        await page.keyboard.press("Enter")
        await expect(card(page, worker).locator(".badge")).to_have_text("draining")
        assert seen == [None, "Bearer secret"]
        assert await page.evaluate("[localStorage.length, document.cookie]") == [0, ""]


async def test_the_description_of_the_control_side_works_without_any_other_host(open_page):
    async with running(config()) as router:
        page = await open_page(router.port)
        await page.get_by_role("link", name="Control endpoints").click()
        await expect(page.get_by_role("heading", name="workers")).to_be_visible(timeout=PATIENT)
        await page.get_by_role("button", name="GET /admin/state").first.click()
        await page.get_by_role("button", name="Execute").click()
        await expect(page.locator(".live-responses-table .response-col_status").last).to_contain_text("200")


async def test_the_files_of_the_page_say_what_they_are_and_others_are_not_there():
    async with running(config()) as router:
        for path, kind in {"ui": b"text/html", "ui/main.js": b"text/javascript", "ui/style.css": b"text/css"}.items():
            answer = await ask(router.port, b"GET /%b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" % path.encode())
            assert answer.status == 200
            assert answer.value(b"content-type").startswith(kind)
            assert b"default-src 'none'" in answer.value(b"content-security-policy")
        for path in (b"ui/nothing.js", b"ui/..%2fapp.py", b"ui/%2e%2e/app.py"):
            answer = await ask(router.port, b"GET /%b HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" % path)
            assert answer.status == 404
