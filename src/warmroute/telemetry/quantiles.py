"""Quantiles of a histogram with fixed buckets: as good as the buckets are narrow."""

from __future__ import annotations

from collections.abc import Sequence


def quantile(share: float, bounds: Sequence[float], counts: Sequence[int]) -> float | None:
    """The value that `share` (0 to 1) of the observations do not exceed, or None without observations.

    `counts` has one bucket for each upper bound and one for what is above all of them. Inside a bucket observations
    are taken to lie evenly, as Prometheus' histogram_quantile does; above the last bound, that bound is told.
    """
    total = sum(counts)
    if not total:
        return None
    rank = share * total
    seen = 0
    lower = 0.0
    for bound, count in zip(bounds, counts, strict=False):
        if count and seen + count >= rank:
            return lower + (bound - lower) * max(0.0, rank - seen) / count
        seen += count
        lower = bound
    return bounds[-1]
