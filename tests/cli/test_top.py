"""`warmroute top` in a real terminal (tmux), over a real router."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from tests.support.router import router_over
from tests.support.scripted_worker import ScriptedWorker

from warmroute.cli import main

needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="no tmux (apt-get install tmux)")


class Terminal:
    """One tmux server with one window that runs a shell."""

    def __init__(self, directory: Path) -> None:
        self._tmux = ["tmux", "-f", "/dev/null", "-S", str(directory / "tmux")]

    async def do(self, *words: str) -> str:
        process = await asyncio.create_subprocess_exec(*self._tmux, *words, stdout=asyncio.subprocess.PIPE)
        out, _ = await process.communicate()
        assert process.returncode == 0, words
        return out.decode()

    async def type(self, *keys: str) -> None:
        await self.do("send-keys", "-t", "t", *keys)

    async def shows(self, condition: Callable[[str], bool], what: str) -> str:
        text = ""
        for _ in range(300):
            text = await self.do("capture-pane", "-p", "-t", "t")
            if condition(text):
                return text
            await asyncio.sleep(0.05)
        pytest.fail(f"{what} is not shown:\n{text}")


@pytest.fixture
async def terminal(tmp_path: Path) -> AsyncIterator[Terminal]:
    terminal = Terminal(tmp_path)
    await terminal.do("new-session", "-d", "-x", "100", "-y", "24", "-s", "t", "env PS1='$ ' COLUMNS=80 LINES=24 sh")
    yield terminal
    await terminal.do("kill-server")


@needs_tmux
async def test_it_shows_resizes_drains_and_quits_cleanly(terminal: Terminal):
    async with ScriptedWorker() as one, ScriptedWorker() as other, router_over(one, other) as router:
        ids = sorted(f"127.0.0.1:{worker.port}" for worker in (one, other))
        await terminal.type(f"{sys.executable} -m warmroute top http://127.0.0.1:{router.port}; echo code=$?", "Enter")
        await terminal.shows(lambda text: all(name in text for name in ("SERVING", "workers 2/2", *ids)), "the fleet")
        await terminal.type("Down")
        await terminal.type("d")
        await terminal.shows(lambda text: f"{ids[1]} gets no new requests" in text, "what was done")
        await terminal.shows(lambda text: "workers 1/2" in text, "the new state")
        assert router.fleet.get(ids[1]).state == "draining"
        await terminal.do("resize-window", "-t", "t", "-x", "44", "-y", "12")
        await terminal.shows(lambda text: "TTFT" in text and "engine" not in text, "the narrow form")
        await terminal.type("s")
        await terminal.shows(lambda text: "run *" in text, "the new order")
        await terminal.type("q")
        text = await terminal.shows(lambda text: "code=0" in text, "the exit code")
        assert "SERVING" not in text
        await terminal.type("echo ok", "Enter")  # the terminal echoes again
        await terminal.shows(lambda text: "echo ok\nok" in text, "an echo")


@needs_tmux
async def test_it_tells_when_the_router_is_gone_and_ctrl_c_ends_it(terminal: Terminal):
    async with ScriptedWorker() as worker:
        async with router_over(worker) as router:
            await terminal.type(
                f"{sys.executable} -m warmroute top http://127.0.0.1:{router.port}; echo code=$?", "Enter"
            )
            await terminal.shows(lambda text: "SERVING" in text, "the fleet")
        await terminal.shows(lambda text: "NO ANSWER" in text and "workers 1/1" in text, "the trouble")
        await terminal.type("C-c")
        await terminal.shows(lambda text: "code=0" in text, "the exit code")


def test_without_a_terminal_it_says_what_to_use(capsys):
    assert main(["top"]) == 2
    assert "`warmroute status` is for scripts" in capsys.readouterr().err
