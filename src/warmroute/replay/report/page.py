"""Results as one HTML page that needs nothing else: tables and plots, also in the dark and on paper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from itertools import groupby

from warmroute.replay.report.series import Points, first_token_distribution, hit_share, over_rate, waiting_tokens
from warmroute.replay.report.svg import Axis, line_plot
from warmroute.replay.report.table import COLUMNS, title_of
from warmroute.replay.result import Result

_STYLE = """
:root { color-scheme: light dark; --line: light-dark(#ddd, #444); }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 1180px; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .6rem; text-align: right; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; }
.scroll { overflow-x: auto; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(340px, 1fr)); gap: 1rem; margin-top: 1rem; }
figure { margin: 0; } figcaption { font-weight: 600; }
svg { width: 100%; height: auto; } svg text { font-size: 11px; fill: currentColor; }
.grid { stroke: var(--line); } polyline { fill: none; stroke-width: 1.8; }
.legend { margin: 0; font-size: 13px; } .legend span { margin-right: 1rem; white-space: nowrap; }
.legend i { display: inline-block; width: 1.4rem; margin-right: .35rem; vertical-align: middle; }
"""

_SECONDS = Axis("seconds since the start")
_WAIT = Axis("seconds to the first token", logarithmic=True)

_PLOTS: Sequence[tuple[str, Callable[[Result], Points], Axis, Axis]] = (
    ("Time to first token", first_token_distribution, _WAIT, Axis("share of requests", percent=True)),
    ("Load of the busiest worker", waiting_tokens, _SECONDS, Axis("uncached tokens that wait")),
    ("Prompt tokens out of a cache", hit_share, _SECONDS, Axis("share", percent=True)),
)


def page(results: Sequence[Result]) -> str:
    """The whole page."""
    sections: list[str] = []
    for trace, group in groupby(results, key=lambda result: result.trace):
        of_trace = list(group)
        sections.append(f"<h2>{escape(trace)}</h2>{_sweep(of_trace)}")
        for _, cell in groupby(of_trace, key=lambda result: result.rate):
            sections.append(_cell(list(cell)))
    return (
        '<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content="width=device-width">'
        f"<title>warmroute replay</title><style>{_STYLE}</style><h1>warmroute replay</h1>{''.join(sections)}</html>\n"
    )


def _sweep(results: Sequence[Result]) -> str:
    policies = list(dict.fromkeys(result.policy for result in results))
    if len({result.rate for result in results}) < 2:
        return ""
    plots = [
        line_plot(
            f"Time to first token over rate, {quantile}",
            {name: over_rate([r for r in results if r.policy == name], quantile) for name in policies},
            Axis("rate, times as fast as recorded", from_zero=False),
            Axis("seconds", logarithmic=True),
        )
        for quantile in ("mean", "p99")
    ]
    return f"<div class=plots>{''.join(plots)}</div>"


def _cell(results: Sequence[Result]) -> str:
    plots = [
        line_plot(title, {result.policy: points(result) for result in results}, x, y) for title, points, x, y in _PLOTS
    ]
    return f"<h3>{escape(title_of(results[0]))}</h3>{_table(results)}<div class=plots>{''.join(plots)}</div>"


def _table(results: Sequence[Result]) -> str:
    head = "".join(f"<th>{escape(heading)}</th>" for heading in ("policy", *(heading for heading, _ in COLUMNS)))
    rows = (
        f"<tr><td>{escape(result.policy)}</td>{''.join(f'<td>{escape(show(result))}</td>' for _, show in COLUMNS)}</tr>"
        for result in results
    )
    return f"<div class=scroll><table><tr>{head}</tr>{''.join(rows)}</table></div>"
