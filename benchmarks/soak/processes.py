"""Real processes of `warmroute`: the router, and engines that are killed and started again on their ports."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from benchmarks.processes import clean_environment, free_port

ENGINE = (
    *("--model", "m", "--max-running", "256", "--cache-tokens", "200000"),
    *("--decode-speed", "10", "--prefill-speed", "100000"),
)


class Process:
    """One `warmroute` command. `start` and `kill` may be called again and again; its output is appended to a log."""

    def __init__(self, log: Path, *arguments: str) -> None:
        self._arguments = arguments
        self._log = log
        self._process: asyncio.subprocess.Process | None = None

    @property
    def is_up(self) -> bool:
        """Whether the process runs; it may not listen yet."""
        return self._process is not None and self._process.returncode is None

    @property
    def pid(self) -> int:
        """Of the process that was started last."""
        assert self._process is not None
        return self._process.pid

    async def start(self) -> None:
        """Start it; returns before it is ready."""
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "warmroute", *self._arguments, stdout=log, stderr=log, env=clean_environment()
            )

    async def kill(self) -> None:
        """End it with SIGKILL."""
        await self.end(signal.SIGKILL)

    async def end(self, number: signal.Signals = signal.SIGTERM, seconds: float = 60.0) -> int:
        """Send a signal and wait for the exit code; -9 if that takes longer than so many seconds."""
        assert self._process is not None
        if self._process.returncode is None:
            self._process.send_signal(number)
            try:
                await asyncio.wait_for(self._process.wait(), seconds)
            except TimeoutError:
                self._process.kill()
        return await self._process.wait()

    def rss_bytes(self) -> int:
        """Resident memory (proc(5), /proc/PID/statm, field 2)."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def cpu_seconds(self) -> float:
        """User and system time so far (proc(5), /proc/PID/stat, fields 14 and 15)."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def log(self) -> str:
        """All that it has written."""
        return self._log.read_text(errors="replace")


def make_engines(count: int, directory: Path) -> dict[str, Process]:
    """Engines by their id as workers, not started."""
    ports = [free_port() for _ in range(count)]
    return {
        f"127.0.0.1:{port}": Process(directory / f"engine-{port}.log", "engine", "--port", str(port), *ENGINE)
        for port in ports
    }


def make_router(engines: list[str], index_bytes: int, directory: Path) -> tuple[Process, int]:
    """A router for these workers, and its port; not started."""
    port = free_port()
    flags = [f"--worker=http://{engine}" for engine in engines]
    flags += [f"--index-max-bytes={index_bytes}", "--health-check-interval-secs=1"]
    return Process(directory / "router.log", "serve", "--host=127.0.0.1", f"--port={port}", *flags), port
