"""Tells how far a replay is: a bar on a terminal, nothing elsewhere, where it is over in seconds."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class ReplayProgress:
    """Counts the requests of all runs. Use it as a context manager."""

    def __init__(self, console: Console, planned: int) -> None:
        self._bar = Progress(
            TextColumn("requests"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._task = self._bar.add_task("", total=planned)
        self._before = 0

    def __enter__(self) -> ReplayProgress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def update(self, ended: int) -> None:
        """So many requests of the run under way have ended."""
        self._bar.update(self._task, completed=self._before + ended)

    def next_run(self, ended: int) -> None:
        """A run is over, with so many requests."""
        self._before += ended
