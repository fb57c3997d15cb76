"""An EngineModel from what was measured at a real engine: least squares of relative errors, no coefficient below 0.

Measure at an engine that does nothing else: times to first token of prompts of several lengths, with nothing and with
much of them cached, and the time per answer token at several batch sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from warmroute.replay.model import EngineModel


class FirstToken(NamedTuple):
    """A time to first token, in seconds, of a prompt of which `cached` tokens were there already."""

    uncached: int
    cached: int
    seconds: float


class Decoding(NamedTuple):
    """Seconds per answer token of each of `batch` requests that decode together."""

    batch: int
    seconds: float


def calibrated(first_tokens: Sequence[FirstToken], decoding: Sequence[Decoding], limits: EngineModel) -> EngineModel:
    """The model that fits the measurements, with the `step_tokens` and `max_running` of `limits`.

    The context term is not fitted (0): it takes long answers behind long prompts to be seen. Raises ValueError when
    there are too few measurements.
    """
    if len(first_tokens) < 3 or not decoding:
        raise ValueError("three times to first token and one time per token are the least")
    rows = [[1.0, float(row.batch)] for row in decoding]
    step, request = fit(rows, [row.seconds for row in decoding])
    rows, rest = [], []
    for row in first_tokens:
        steps = -(-row.uncached // limits.step_tokens)
        rows.append([1.0, float(row.uncached), row.uncached * (row.cached + row.uncached / 2)])
        rest.append(max(row.seconds - steps * step, 1e-6))
    overhead, prefill_token, attention = fit(rows, rest)
    return replace(
        limits,
        step=step,
        request=request,
        context=0.0,
        overhead=overhead,
        prefill_token=prefill_token,
        attention=attention,
    )


def fit(rows: Sequence[Sequence[float]], values: Sequence[float]) -> list[float]:
    """Coefficients of at least 0 that bring `rows` nearest to `values`, by relative error."""
    used = list(range(len(rows[0])))
    while used:
        weighted = [[row[column] / value for column in used] for row, value in zip(rows, values, strict=True)]
        solved = _least_squares(weighted)
        if min(solved) >= 0:
            break
        used.remove(used[solved.index(min(solved))])
    found = dict(zip(used, solved, strict=True)) if used else {}
    return [found.get(column, 0.0) for column in range(len(rows[0]))]


def _least_squares(rows: Sequence[Sequence[float]]) -> list[float]:
    """The solution of the normal equations for values of 1; a column that says nothing of its own gets 0."""
    size = len(rows[0])
    # Columns differ by orders of magnitude: each is scaled to its largest entry.
    scale = [max(abs(row[column]) for row in rows) or 1.0 for column in range(size)]
    scaled = [[row[column] / scale[column] for column in range(size)] for row in rows]
    matrix = [
        [sum(row[i] * row[j] for row in scaled) for j in range(size)] + [sum(row[i] for row in scaled)]
        for i in range(size)
    ]
    for pivot in range(size):
        best = max(range(pivot, size), key=lambda at: abs(matrix[at][pivot]))
        matrix[pivot], matrix[best] = matrix[best], matrix[pivot]
        if abs(matrix[pivot][pivot]) < 1e-12:
            matrix[pivot] = [float(pivot == at) for at in range(size)] + [0.0]
            continue
        for at in range(size):
            if at != pivot:
                factor = matrix[at][pivot] / matrix[pivot][pivot]
                matrix[at] = [a - factor * b for a, b in zip(matrix[at], matrix[pivot], strict=True)]
    return [matrix[at][size] / matrix[at][at] / scale[at] for at in range(size)]
