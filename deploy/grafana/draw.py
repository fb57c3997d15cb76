"""Draw the dashboard without Grafana: its own panels and queries, asked of a Prometheus, as one page of plain SVG.

    python deploy/grafana/draw.py http://127.0.0.1:9090 dashboard.html --minutes 15 --panels 1-17

Where there is no Grafana (a test, a page of documentation) this shows what the queries find. It knows the two kinds of
panels that warmroute.json has, its units, and its variables: all routers, and Grafana's rule for the rate interval.
"""

from __future__ import annotations

import argparse
import http.client
import json
import math
import signal
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

DASHBOARD = Path(__file__).with_name("warmroute.json")
COLUMNS = 24
ROW_PIXELS = 26
SCRAPE_SECONDS = 5
POINTS = 180
"""Of a curve, at most."""
COLOURS = ("#2f6fb0", "#d9822b", "#3d9450", "#b8405e", "#7a5ab5", "#8a6d3b", "#2a9d9d", "#777777")

Point = tuple[float, float]
Series = tuple[str, list[Point]]
Place = Callable[[Mapping[str, int]], str]
"""The style that puts a panel where its grid says."""

STYLE = """
body { margin: 0; padding: 10px; background: #f4f5f7; color: #24292f; font: 12px/1.3 "DejaVu Sans", sans-serif; }
main { position: relative; }
section { position: absolute; box-sizing: border-box; background: #fff; border: 1px solid #dfe2e6; border-radius: 4px; }
section { padding: 5px 8px; overflow: hidden; }
h2 { position: absolute; margin: 0; font-size: 13px; line-height: 26px; }
h3 { margin: 0; font-size: 12px; white-space: nowrap; }
.big { font-size: 34px; font-weight: 600; text-align: center; margin-top: 8px; color: #2f6fb0; }
.legend { position: absolute; bottom: 4px; left: 8px; right: 8px; height: 15px; overflow: hidden; white-space: nowrap; }
.legend i { display: inline-block; width: 12px; height: 3px; margin: 0 4px 3px 0; }
.legend span { margin-right: 12px; font-size: 11px; }
svg { display: block; } svg text { font-size: 10px; fill: #57606a; }
"""


def ask(url: str, path: str, **parameters: float | str) -> list[dict[str, Any]]:
    """The result of a query. Raises OSError where no Prometheus answers it."""
    try:
        with urllib.request.urlopen(f"{url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}", timeout=30) as answer:
            found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
    except (http.client.HTTPException, ValueError, LookupError, TypeError) as error:
        raise OSError(f"{type(error).__name__}: {error}") from error
    return found


def expression(query: str, step: float) -> str:
    """A query with its variables filled in; the interval of a rate by Grafana's rule."""
    interval = math.ceil(max(step + SCRAPE_SECONDS, 4 * SCRAPE_SECONDS))
    return query.replace("$__rate_interval", f"{interval}s").replace("$instance", ".*")


def curves(url: str, panel: Mapping[str, Any], start: float, end: float) -> list[Series]:
    """What a panel shows over time, each with its legend. Gaps are gaps."""
    step = max(SCRAPE_SECONDS, (end - start) / POINTS)
    found: list[Series] = []
    for target in panel["targets"]:
        for series in ask(url, "query_range", query=expression(target["expr"], step), start=start, end=end, step=step):
            points = [(float(at), float(value)) for at, value in series["values"] if value not in ("NaN", "+Inf")]
            found.append((legend(target.get("legendFormat", ""), series["metric"]), points))
    return sorted(found)


def legend(form: str, labels: Mapping[str, str]) -> str:
    """`{{label}}` of a legend by the labels."""
    for name, value in labels.items():
        form = form.replace("{{%s}}" % name, value)  # noqa: UP031  # braces in an f-string would be four
    return form


def shown(value: float, unit: str) -> str:
    """A value with its unit, short."""
    if value == 0:
        return "0"
    if unit == "percentunit":
        return f"{value:.0%}" if value >= 0.1 else f"{value:.1%}"
    if unit == "s" and value < 1:
        return f"{value * 1e6:.0f} µs" if value < 0.001 else f"{value * 1000:.3g} ms"
    if unit == "bytes":
        return f"{value / 2**20:.3g} MiB" if value >= 2**20 else f"{value / 1024:.3g} KiB"
    number = f"{value / 1000:.3g} K" if value >= 1000 else f"{value:.3g}"
    return number + {"s": " s", "reqps": " req/s", "ops": " /s"}.get(unit, "")


def ticks(top: float, unit: str) -> list[float]:
    """Values of horizontal lines, from 0 up to a little above `top`, in round steps."""
    scale = 1024.0 ** math.floor(math.log(top, 1024)) if unit == "bytes" and top >= 1 else 1.0
    rough = top / scale / 4
    power = 10.0 ** math.floor(math.log10(rough)) if rough > 0 else 1.0
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough) * scale
    return [number * step for number in range(math.ceil(top / step) + 1)]


def plot(series: Sequence[Series], unit: str, width: int, height: int, start: float, end: float) -> str:
    """The curves of a panel as SVG."""
    top = max((value for _, points in series for _, value in points), default=0.0) or 1.0
    levels = ticks(top, unit)
    left, bottom = 58, height - 16

    def x(at: float) -> float:
        return left + (at - start) / (end - start) * (width - left - 6)

    def y(value: float) -> float:
        return bottom - value / levels[-1] * (bottom - 6)

    parts = [f'<svg width="{width}" height="{height}" role="img">']
    for level in levels:
        parts.append(f'<path d="M{left} {y(level):.1f}H{width - 6}" stroke="#e7eaee"/>')
        parts.append(f'<text x="{left - 5}" y="{y(level) + 3:.1f}" text-anchor="end">{shown(level, unit)}</text>')
    for at in minutes(start, end):
        clock = time.strftime("%H:%M", time.gmtime(at))
        parts.append(f'<text x="{x(at):.1f}" y="{height - 3}" text-anchor="middle">{clock}</text>')
    gap = 2.5 * max(SCRAPE_SECONDS, (end - start) / POINTS)
    for number, (_, points) in enumerate(series):
        line = "".join(
            f"{'M' if not index or at - points[index - 1][0] > gap else 'L'}{x(at):.1f} {y(value):.1f}"
            for index, (at, value) in enumerate(points)
        )
        colour = COLOURS[number % len(COLOURS)]
        parts.append(f'<path d="{line}" fill="none" stroke="{colour}" stroke-width="1.6" stroke-linejoin="round"/>')
    return "".join([*parts, "</svg>"])


def minutes(start: float, end: float) -> Iterator[float]:
    """The marks of the time axis: some five full minutes."""
    step = 60 * max(1, round((end - start) / 60 / 5))
    at = math.ceil(start / step) * step
    while at <= end:
        yield at
        at += step


def section(url: str, panel: Mapping[str, Any], place: Place, span: Point, pixels: int) -> str:
    """One panel."""
    grid = panel["gridPos"]
    title = escape(panel.get("title", ""))
    if panel["type"] == "row":
        return f'<h2 style="{place(grid)}">{title}</h2>'
    unit = panel.get("fieldConfig", {}).get("defaults", {}).get("unit", "short")
    start, end = span
    series = curves(url, panel, start, end)
    if panel["type"] == "stat":
        value = series[0][1][-1][1] if series and series[0][1] else None
        body = f'<div class="big">{"no data" if value is None else shown(value, unit)}</div>'
    else:
        body = plot(series, unit, int(pixels * grid["w"] / COLUMNS) - 24, grid["h"] * ROW_PIXELS - 54, start, end)
        names = [
            f'<span><i style="background:{COLOURS[number % len(COLOURS)]}"></i>{escape(name)}</span>'
            for number, (name, _) in enumerate(series)
        ]
        body += f'<div class="legend">{"".join(names) or "nothing happened"}</div>'
    return f'<section style="{place(grid)}"><h3>{title}</h3>{body}</section>'


def page(url: str, panels: Sequence[Mapping[str, Any]], start: float, end: float, pixels: int) -> str:
    """The whole page, `pixels` wide."""
    first = min(panel["gridPos"]["y"] for panel in panels)
    last = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels)
    column = pixels / COLUMNS

    def place(grid: Mapping[str, int]) -> str:
        top = (grid["y"] - first) * ROW_PIXELS
        return (
            f"left:{grid['x'] * column:.0f}px;top:{top}px;width:{grid['w'] * column - 6:.0f}px;"
            f"height:{grid['h'] * ROW_PIXELS - 6}px"
        )

    drawn = "\n".join(section(url, panel, place, (start, end), pixels) for panel in panels)
    height = (last - first) * ROW_PIXELS
    return (
        f'<!doctype html><meta charset="utf-8"><title>Warmroute</title><style>{STYLE}</style>\n'
        f'<main style="width:{pixels}px;height:{height}px">\n{drawn}\n</main>\n'
    )


def ids(text: str) -> range:
    """The panel ids of `1-17`."""
    low, dash, high = text.partition("-")
    try:
        return range(int(low), int(high if dash else low) + 1)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be like 1-17, not {text!r}") from None


def main() -> None:
    """Command line. Exit code 2 where the page cannot be drawn or written."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", help="a Prometheus that scrapes a router")
    parser.add_argument("output", type=Path, help="where the page is written to")
    parser.add_argument("--minutes", type=float, default=15.0, help="so much of the past (default: 15)")
    parser.add_argument("--end", type=float, default=0.0, metavar="UNIX", help="up to this time (default: now)")
    parser.add_argument("--panels", type=ids, default="1-1000", metavar="A-B", help="ids of the first and the last one")
    parser.add_argument("--width", type=int, default=1180, metavar="PX")
    args = parser.parse_args()
    panels = [panel for panel in json.loads(DASHBOARD.read_text())["panels"] if panel["id"] in args.panels]
    if not panels:
        parser.exit(2, "draw.py: --panels: there is no panel with such an id\n")
    end = args.end or time.time()
    try:
        drawn = page(args.url.rstrip("/"), panels, end - 60 * args.minutes, end, args.width)
    except OSError as error:
        parser.exit(2, f"draw.py: no Prometheus answers at {args.url} ({error}); expected: http://127.0.0.1:9090\n")
    try:
        args.output.write_text(drawn)
    except OSError as error:
        parser.exit(2, f"draw.py: {args.output} cannot be written: {error.strerror}\n")


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing has to be put away, and nobody wants a traceback
    main()
