"""Line plots as SVG text, with axes that are linear or logarithmic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

from warmroute.replay.report.series import Points

_WIDTH, _HEIGHT = 560, 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 10, 12, 40
# Okabe and Ito's colours, which colour-blind readers can tell apart, then the same as dashes.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d1f")
_FEW_TICKS = 6


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis: what it shows, and whether it is logarithmic. Limits come from the points."""

    label: str
    logarithmic: bool = False
    percent: bool = False
    from_zero: bool = True


@dataclass(frozen=True, slots=True)
class _Scale:
    low: float
    high: float
    axis: Axis

    def share(self, value: float) -> float:
        """Where a value lies between the limits, from 0 to 1."""
        if self.axis.logarithmic:
            return (log10(max(value, self.low)) - log10(self.low)) / (log10(self.high) - log10(self.low))
        return (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        if self.axis.logarithmic:
            first, last = floor(log10(self.low)), ceil(log10(self.high))
            every = max(1, (last - first) // _FEW_TICKS)
            factors = (1, 2, 5) if last - first <= 2 else (1,)
            values = [factor * 10.0**power for power in range(first, last + 1, every) for factor in factors]
            return [value for value in values if self.low <= value <= self.high]
        span = self.high - self.low
        step = 10.0 ** floor(log10(span / 4))
        step *= next(factor for factor in (1, 2, 5, 10) if span / (step * factor) <= _FEW_TICKS)
        return [step * at for at in range(ceil(self.low / step), floor(self.high / step * (1 + 1e-9)) + 1)]

    def text(self, value: float) -> str:
        if self.axis.percent:
            return f"{value * 100:g}%"
        return f"{value / 1000:g}k" if value >= 10_000 else f"{value:g}"


def line_plot(title: str, lines: Mapping[str, Points], x: Axis, y: Axis) -> str:
    """One plot with a line for each entry; those without points are left out."""
    lines = {name: points for name, points in lines.items() if points}
    points = [point for line in lines.values() for point in line]
    if not points:
        return ""
    across, up = _scale([point[0] for point in points], x), _scale([point[1] for point in points], y)
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}">',
        *_grid(across, up),
        *(_line(at, name, line, across, up) for at, (name, line) in enumerate(lines.items())),
        "</svg>",
    ]
    legend = "".join(f'<span><i style="{_stroke_style(at)}"></i>{escape(name)}</span>' for at, name in enumerate(lines))
    return f"<figure><figcaption>{escape(title)}</figcaption>{''.join(parts)}<p class=legend>{legend}</p></figure>"


def _scale(values: Sequence[float], axis: Axis) -> _Scale:
    high = max(values)
    if axis.logarithmic:
        low = max(min((value for value in values if value > 0), default=1e-3), 1e-4)
        scale = _Scale(low, max(high, low * 1.01), axis)
        return scale if len(scale.ticks()) > 1 else _wider(scale)
    low = min(0.0, *values) if axis.from_zero else min(values)
    return _Scale(low, high if high > low else low + 1.0, axis)


def _wider(scale: _Scale) -> _Scale:
    """From a tick to a tick: between two of them a logarithmic axis would tell no value, and noise would fill it."""
    powers = range(floor(log10(scale.low)) - 1, ceil(log10(scale.high)) + 2)
    values = [factor * 10.0**power for power in powers for factor in (1, 2, 5)]
    low = max(value for value in values if value <= scale.low)
    return _Scale(low, min(value for value in values if value >= scale.high), scale.axis)


def _place(across: _Scale, up: _Scale, point: tuple[float, float]) -> tuple[float, float]:
    width, height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    return _LEFT + width * across.share(point[0]), _TOP + height * (1 - up.share(point[1]))


def _grid(across: _Scale, up: _Scale) -> list[str]:
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    parts = []
    for value in up.ticks():
        _, at = _place(across, up, (across.low, value))
        parts.append(f'<line class=grid x1="{_LEFT}" x2="{right}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{at + 4:.1f}" text-anchor=end>{up.text(value)}</text>')
    for value in across.ticks():
        at, _ = _place(across, up, (value, up.low))
        parts.append(f'<line class=grid x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{bottom}"/>')
        parts.append(f'<text x="{at:.1f}" y="{bottom + 16}" text-anchor=middle>{across.text(value)}</text>')
    middle = (_LEFT + right) / 2
    parts.append(f'<text x="{middle}" y="{_HEIGHT - 6}" text-anchor=middle>{escape(across.axis.label)}</text>')
    turned = f'transform="translate(12 {(_TOP + bottom) / 2}) rotate(-90)"'
    parts.append(f"<text {turned} text-anchor=middle>{escape(up.axis.label)}</text>")
    return parts


def _line(at: int, name: str, line: Points, across: _Scale, up: _Scale) -> str:
    path = " ".join("{:.1f},{:.1f}".format(*_place(across, up, point)) for point in line)
    dash = f' stroke-dasharray="{_dash(at)}"' if _dash(at) else ""
    return f'<polyline stroke="{_colour(at)}"{dash} points="{path}"><title>{escape(name)}</title></polyline>'


def _colour(at: int) -> str:
    return _COLOURS[at % len(_COLOURS)]


def _dash(at: int) -> str:
    return ("", "6 3", "2 3")[at // len(_COLOURS) % 3]


def _stroke_style(at: int) -> str:
    return f"border-top: 3px {'dashed' if _dash(at) else 'solid'} {_colour(at)}"
