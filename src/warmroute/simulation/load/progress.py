"""Tells how far a load run is: a bar on a terminal, now and then a line elsewhere."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from warmroute.simulation.load.records import Record


class LoadProgress:
    """Counts records. Use it as a context manager; `update` takes the record of each request that ended."""

    def __init__(self, console: Console, label: str, planned: int) -> None:
        self._console = console
        self._label = label
        self._planned = planned
        self._done = 0
        self._failed = 0
        self._bar: Progress | None = None
        self._task = TaskID(0)

    def __enter__(self) -> LoadProgress:
        if self._console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[failed]}"),
                TimeElapsedColumn(),
                console=self._console,
            )
            self._task = self._bar.add_task(self._label, total=self._planned, failed="")
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, record: Record) -> None:
        """Count one more request."""
        self._done += 1
        self._failed += record.error is not None
        failed = f"{self._failed} failed" if self._failed else ""
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done, failed=failed)
        elif self._done * 4 // self._planned > (self._done - 1) * 4 // self._planned:  # a quarter is full
            self._console.print(f"{self._label}: {self._done} of {self._planned} requests {failed}".rstrip())
