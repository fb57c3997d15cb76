"""What `warmroute top` draws: a pure function of what the router told, what the user chose and the screen's size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from warmroute.cli.figures import age, count, rate, seconds, share, sparkline
from warmroute.cli.router_view import Sample, State, Worker

HEAD_LINES = 7
"""Lines above the first worker."""
KEYS = "q quit   up/down select   s sort   d drain or undrain"
SORTS: dict[str, Callable[[Worker], tuple[object, ...]]] = {
    "name": lambda worker: (),  # as the router tells them
    "running": lambda worker: (-worker.running, worker.id),
    "pending": lambda worker: (-worker.pending_prefill_tokens, worker.id),
    "TTFT": lambda worker: (-(worker.ttft_seconds or 0.0), worker.id),
    "hits": lambda worker: (worker.hit_share is None, worker.hit_share, worker.id),
}
_STYLES = {
    "healthy": "green",
    "stuck": "bold red",
    "unhealthy": "bold red",
    "gone": "bold red",
    "draining": "yellow",
    "paused": "yellow",
}


@dataclass
class View:
    """What the user has chosen, and what was learned last. `trouble` is why there is nothing newer."""

    url: str
    state: State | None = None
    samples: list[Sample] = field(default_factory=list)
    trouble: str = ""
    message: str = ""
    sort: str = "name"
    selected: int = 0

    def workers(self) -> list[Worker]:
        """The rows in the order in which they are shown."""
        return sorted(self.state.workers, key=SORTS[self.sort]) if self.state else []

    def chosen(self) -> Worker | None:
        """The row under the cursor."""
        workers = self.workers()
        return workers[min(self.selected, len(workers) - 1)] if workers else None

    def move(self, rows: int) -> None:
        """Put the cursor so many rows further down."""
        last = len(self.workers()) - 1
        self.selected = max(0, min(last, min(self.selected, last) + rows))

    def next_sort(self) -> None:
        """Order the rows by the next of the criteria; the cursor stays on its worker."""
        chosen = self.chosen()
        names = list(SORTS)
        self.sort = names[(names.index(self.sort) + 1) % len(names)]
        if chosen is not None:
            self.selected = self.workers().index(chosen)


def draw(view: View, width: int, height: int) -> RenderableType:
    """The whole screen."""
    footer = Text(view.message or KEYS, style="" if view.message else "dim", no_wrap=True, overflow="ellipsis")
    if view.state is None:
        return Group(Text(f"Warmroute at {view.url}"), Text(view.trouble or "connecting", style="yellow"), footer)
    lines = [_title(view, view.state), _glance(view.state), *_graphs(view.samples, width)]
    rows = max(1, height - HEAD_LINES - 1)
    return Group(*lines, _table(view, rows, width), footer)


def _title(view: View, state: State) -> Text:
    title = Text(no_wrap=True, overflow="ellipsis")
    if view.trouble:
        title.append(" NO ANSWER ", style="bold white on red")
    elif state.can_serve:
        title.append(" SERVING ", style="bold black on green")
    else:
        title.append(" CANNOT SERVE ", style="bold white on red")
    title.append(
        f" warmroute {state.version}  {view.url}  {state.mode}  {state.policy}  up {age(state.uptime_seconds)}"
    )
    return title


def _glance(state: State) -> Text:
    totals = state.totals
    parts = [
        ("workers", f"{totals.routable}/{totals.workers}"),
        ("req/s", rate(totals.requests_per_second)),
        ("running", count(totals.running)),
        ("TTFT p50", seconds(totals.ttft_p50_seconds)),
        ("p99", seconds(totals.ttft_p99_seconds)),
        ("hits", share(totals.hit_share)),
        ("waiting tokens", count(totals.pending_prefill_tokens)),
    ]
    if totals.errors_per_second:
        parts.insert(2, ("errors/s", rate(totals.errors_per_second)))
    if totals.queued:
        parts.insert(3, ("queued", count(totals.queued)))
    line = Text(no_wrap=True, overflow="ellipsis")
    for name, value in parts:
        line.append(f"{name} ", style="dim").append(value, style="bold red" if name == "errors/s" else "bold").append(
            "  "
        )
    return line


def _graphs(samples: list[Sample], width: int) -> list[Text]:
    graphs = [
        ("requests/s", sparkline([sample.requests_per_second for sample in samples], width - 12), "cyan"),
        ("TTFT p50", sparkline([sample.ttft_p50_seconds for sample in samples], width - 12), "yellow"),
        ("hits", sparkline([sample.hit_share for sample in samples], width - 12, top=1.0), "yellow"),
    ]
    return [
        Text.assemble((f"{name:<12}", "dim"), (bars, style), no_wrap=True, overflow="crop")
        for name, bars, style in graphs
    ]


def _table(view: View, rows: int, width: int) -> Table:
    """As many rows as there is room for, the chosen one among them. Narrow screens show fewer columns."""
    workers = view.workers()
    table = Table(box=None, expand=True, pad_edge=False, header_style="dim", show_edge=False)
    columns = [column for column in _COLUMNS if width >= column.from_width]
    for column in columns:
        mark = " *" if column.sort == view.sort else ""
        table.add_column(
            column.title + mark, justify="left" if column.is_text else "right", no_wrap=True, overflow="ellipsis"
        )
    chosen = view.chosen()
    at = workers.index(chosen) if chosen is not None else 0
    first = max(0, min(at - rows // 2, len(workers) - rows))
    for worker in workers[first : first + rows]:
        cells = [column.cell(worker) for column in columns]
        table.add_row(*cells, style="reverse" if worker is chosen else "")
    return table


@dataclass(frozen=True)
class _Column:
    title: str
    cell: Callable[[Worker], RenderableType]
    from_width: int = 0
    sort: str = ""
    is_text: bool = False


def _condition(worker: Worker) -> Text:
    return Text(worker.condition, style=_STYLES.get(worker.condition, "bold red" if "open" in worker.condition else ""))


_COLUMNS = (
    _Column("worker", lambda worker: worker.id, sort="name", is_text=True),
    _Column("state", _condition, is_text=True),
    _Column("run", lambda worker: count(worker.running), sort="running"),
    _Column("pending", lambda worker: count(worker.pending_prefill_tokens), 58, sort="pending"),
    _Column("hits", lambda worker: share(worker.hit_share), sort="hits"),
    _Column("TTFT", lambda worker: seconds(worker.ttft_seconds), sort="TTFT"),
    _Column("req/s 1m", lambda worker: rate(worker.requests_per_second), 70),
    _Column("role", lambda worker: worker.role, 90, is_text=True),
    _Column("engine", lambda worker: worker.dialect or "?", 90, is_text=True),
)
