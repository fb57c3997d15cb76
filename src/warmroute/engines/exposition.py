"""Samples of a few named families from a page in the Prometheus text format.

An engine's page is about 50 KB, of which the router wants five lines, every second, from every engine. So the page is
not parsed: each wanted name is searched for as bytes at the start of a line, and only those lines are read. Format:
https://prometheus.io/docs/instrumenting/exposition_formats/ (a time stamp or an exemplar after the value is ignored).
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

# Label values may hold any character, braces and escaped quotes included. The quantifiers are possessive: a page that
# never closes its quote costs one pass, not a search.
_SAMPLE_TAIL = re.compile(rb'[ \t]*+(?:\{((?:[^"}\n]|"(?:[^"\\\n]|\\.)*+")*+)\})?+[ \t]*+(\S++)')
_LABEL = re.compile(rb'([A-Za-z_]\w*+)[ \t]*+=[ \t]*+"((?:[^"\\]|\\.)*+)"')
_ESCAPE = re.compile(r"\\(.)")
_AFTER_NAME = (b"{", b" ", b"\t")


@dataclass(frozen=True, slots=True)
class Sample:
    """One line of a page: the labels and a finite value."""

    labels: Mapping[str, str]
    value: float


def samples(page: bytes, name: str) -> list[Sample]:
    """Every sample of exactly this name, in page order. Unreadable lines and values that are not finite are skipped."""
    found = []
    for end in _name_ends(page, name.encode()):
        match = _SAMPLE_TAIL.match(page, end)
        if match is None:
            continue
        try:
            value = float(match[2])
        except ValueError:
            continue
        if math.isfinite(value):
            found.append(Sample(_labels(match[1] or b""), value))
    return found


def total(found: Iterable[Sample]) -> float | None:
    """The sum over all ranks of an engine, never below 0; None when there is no sample, or no finite sum of them."""
    values = [sample.value for sample in found]
    added = sum(values)
    return max(0.0, added) if values and math.isfinite(added) else None


def mean_share(found: Collection[Sample]) -> float:
    """The mean of shares of a whole over all ranks (at least one), within 0 and 1 whatever an engine says."""
    return sum(min(1.0, max(0.0, sample.value)) for sample in found) / len(found)


def count_label(sample: Sample, label: str) -> int | None:
    """A label that holds a whole number above 0, as in `..._info{block_size="16"}`; None for anything else."""
    text = sample.labels.get(label, "")
    return int(text) if text.isascii() and text.isdigit() and 0 < len(text) <= 18 and int(text) > 0 else None


def _name_ends(page: bytes, name: bytes) -> Iterator[int]:
    """Where the name ends on every line that begins with it, and with nothing longer."""
    at = 0 if page.startswith(name) else _next_line(page, name, 0)
    while at >= 0:
        end = at + len(name)
        if page[end : end + 1] in _AFTER_NAME:
            yield end
        at = _next_line(page, name, end)


def _next_line(page: bytes, name: bytes, start: int) -> int:
    found = page.find(b"\n" + name, start)
    return found + 1 if found >= 0 else -1


def _labels(text: bytes) -> dict[str, str]:
    return {match[1].decode("ascii"): _unescape(match[2].decode("utf-8", "replace")) for match in _LABEL.finditer(text)}


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda match: "\n" if match[1] == "n" else match[1], text) if "\\" in text else text
