"""Debian's Chromium, driven by Playwright, looking at real routers on loopback. Skipped where either is missing."""

from __future__ import annotations

import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest
import pytest_asyncio

CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
# No sandbox, since tests may run as root; the rest keeps it from calling home.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

if not os.access(CHROMIUM, os.X_OK):
    pytest.skip(f"no browser at {CHROMIUM} (apt-get install chromium)", allow_module_level=True)
async_api = pytest.importorskip("playwright.async_api", reason="the Python package playwright is not installed")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[async_api.Browser]:
    async with async_api.async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        await browser.close()


@pytest_asyncio.fixture(loop_scope="module")
async def open_page(browser: async_api.Browser) -> AsyncIterator[Callable[..., Awaitable[async_api.Page]]]:
    """Open the page of a router; it may not report an error, nor ask any other host for anything."""
    async with AsyncExitStack() as stack:

        async def show(port: int, events: str = "", **options: object) -> async_api.Page:
            """`events` is what the stream says instead of the router's own."""
            context = await browser.new_context(**{"viewport": {"width": 1400, "height": 900}} | options)
            stack.push_async_callback(context.close)
            page = await context.new_page()
            page.troubles = troubles = []
            base = f"http://127.0.0.1:{port}/"
            page.on("pageerror", lambda error: troubles.append(str(error)))
            page.on("request", lambda request: request.url.startswith(base) or troubles.append(request.url))
            if events:
                await page.route(
                    re.compile("/admin/events$"),
                    lambda route: route.fulfill(content_type="text/event-stream", body=events),
                )
                await page.route(re.compile("/admin/history$"), lambda route: route.fulfill(json={"samples": []}))
            await page.goto(base + "ui")
            await page.locator("#about", has_text="up ").wait_for()
            stack.callback(_no_trouble, troubles)
            return page

        yield show


def _no_trouble(troubles: list[str]) -> None:
    assert troubles == []
