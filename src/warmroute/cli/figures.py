"""Numbers as people read them: three digits and a unit, a dash for none."""

from __future__ import annotations

from collections.abc import Sequence

NONE = "-"
_BARS = " ▁▂▃▄▅▆▇█"


def count(value: float) -> str:
    """`1234` is 1.23k."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return _digits(value / size) + unit
    return str(int(value)) if value == int(value) else _digits(value)


def rate(value: float) -> str:
    """Per second, with one digit after the point."""
    return count(value) if value >= 1000 else f"{value:.0f}" if value >= 100 else f"{value:.1f}"


def share(value: float | None) -> str:
    """`0.5` is 50 %."""
    return NONE if value is None else f"{value * 100:.0f} %"


def seconds(value: float | None) -> str:
    """Milliseconds below one second."""
    if value is None:
        return NONE
    return f"{max(1, round(value * 1000))} ms" if value < 1 else f"{_digits(value)} s"


def age(value: float) -> str:
    """How long something has been up."""
    minutes = int(value // 60)
    if minutes < 1:
        return f"{int(value)} s"
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min" if minutes < 48 * 60 else f"{minutes // 1440} days"


def sparkline(values: Sequence[float | None], width: int, top: float | None = None) -> str:
    """The newest `width` values as bars, the newest on the right; `top` is the full height (default: the largest)."""
    newest = values[-width:] if width > 0 else ()
    highest = top or max((value for value in newest if value is not None), default=0.0)
    bars = [" " if value is None else _bar(value, highest) for value in newest]
    return "".join(bars).rjust(max(0, width))


def _bar(value: float, top: float) -> str:
    if not top or value <= 0:
        return _BARS[1]
    return _BARS[min(8, 1 + int(7.999 * value / top))]


def _digits(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
