"""Child processes on a core of their own, and what /proc says they used."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Cores:
    """Who runs where. The router has its core for itself; load and mock workers share one where there are only two."""

    load: int
    mocks: int
    router: int

    @classmethod
    def of_machine(cls) -> Cores:
        """Spread over the cores that this process may use."""
        usable = sorted(os.sched_getaffinity(0))
        return cls(load=usable[0], mocks=usable[2] if len(usable) > 2 else usable[0], router=usable[1 % len(usable)])


class Child:
    """A process started by the harness, on one core or (None) on any. Leave its `with` block to end it."""

    def __init__(self, argv: Sequence[str], core: int | None, *, log: Path | None = None) -> None:
        out = subprocess.PIPE if log is None else log.open("wb")
        self._log = log
        self._popen = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=None if log is None else subprocess.STDOUT,
            env=clean_environment(),
            # Threads and children inherit the core.
            preexec_fn=None if core is None else lambda: os.sched_setaffinity(0, {core}),
        )
        if not isinstance(out, int):
            out.close()

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self._popen.terminate()
        try:
            self._popen.wait(5)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
        if self._popen.stdout:
            self._popen.stdout.close()

    @property
    def pids(self) -> list[int]:
        """The process and all that descend from it."""
        found = [self._popen.pid]
        for pid in found:
            for task in Path(f"/proc/{pid}/task").glob("*/children"):
                found += map(int, task.read_text().split())
        return found

    def read_line(self) -> str:
        """One line of its output, which must not go to a log."""
        assert self._popen.stdout is not None
        return self._popen.stdout.readline().decode()

    def cpu_seconds(self) -> float:
        """User and system time of all threads, finished ones included, to the nanosecond (clock_getcpuclockid(3)).

        /proc/PID/stat tells the same in ticks of 10 ms, too coarse for a short run.
        """
        return sum(time.clock_gettime(~pid << 3 | 2) for pid in self.pids)

    def rss_bytes(self) -> int:
        """Resident memory (proc(5), /proc/PID/statm, field 2)."""
        pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in self.pids)
        return pages * os.sysconf("SC_PAGE_SIZE")

    def wait_until(self, ready: Callable[[], bool], seconds: float = 60.0) -> None:
        """Poll `ready`; raises RuntimeError with the end of the log if the process ends or the time is over."""
        deadline = time.monotonic() + seconds
        while not ready():
            if self._popen.poll() is not None or time.monotonic() > deadline:
                tail = self._log.read_text(errors="replace")[-2000:] if self._log else ""
                raise RuntimeError(f"{self._popen.args!r} is not ready (exit code {self._popen.returncode})\n{tail}")
            time.sleep(0.1)


def clean_environment() -> dict[str, str]:
    """Variables for a child: our own, without the router settings that the user's shell may have."""
    return {name: value for name, value in os.environ.items() if not name.startswith("WARMROUTE_")}


def free_port() -> int:
    """A loopback port that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def fetch(url: str) -> bytes | None:
    """Body of a GET with status 200, else None."""
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            body: bytes = answer.read()
            return body
    except (OSError, urllib.error.URLError):
        return None
