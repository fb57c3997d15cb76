"""What the plots show, as points: made from the requests of a result, nothing is kept during a replay for them."""

from __future__ import annotations

from collections.abc import Sequence

from warmroute.replay.result import Result

Points = list[tuple[float, float]]
_SAMPLES = 160
_WINDOWS = 40
_QUANTILES = 200


def first_token_distribution(result: Result) -> Points:
    """Seconds to the first token, and the share of requests that waited no longer."""
    waits = sorted(r.first_token - r.arrival for r in result.served)
    last = len(waits) - 1
    if last < 0:
        return []
    steps = min(_QUANTILES, last) or 1
    return [(waits[last * at // steps], (last * at // steps + 1) / len(waits)) for at in range(steps + 1)]


def waiting_tokens(result: Result) -> Points:
    """Seconds since the start, and the uncached tokens that wait on the worker where most do."""
    changes: list[tuple[float, int, int]] = []
    for request in result.served:
        tokens = request.prompt_tokens - request.cached_tokens
        changes.append((request.arrival, request.worker, tokens))
        changes.append((request.first_token, request.worker, -tokens))
    changes.sort()
    if not changes:
        return []
    waiting = [0] * len(result.workers)
    origin, end = changes[0][0], changes[-1][0]
    step = (end - origin) / _SAMPLES or 1.0
    points: Points = []
    at, peak = 1, 0
    for moment, worker, tokens in changes:
        while moment >= origin + at * step:
            points.append((at * step, float(peak)))
            at += 1
            peak = max(waiting)
        waiting[worker] += tokens
        peak = max(peak, waiting[worker])
    return points


def hit_share(result: Result) -> Points:
    """Seconds since the start, and the cached share of the prompts that came in a window before."""
    served = sorted(result.served, key=lambda request: request.arrival)
    if not served:
        return []
    origin = served[0].arrival
    width = (served[-1].arrival - origin) / _WINDOWS or 1.0
    cached, prompts = [0] * (_WINDOWS + 1), [0] * (_WINDOWS + 1)
    for request in served:
        window = int((request.arrival - origin) / width)
        cached[window] += request.cached_tokens
        prompts[window] += request.prompt_tokens
    return [((at + 1) * width, cached[at] / prompts[at]) for at in range(_WINDOWS) if prompts[at]]


def over_rate(results: Sequence[Result], quantile: str) -> Points:
    """Rates, and a figure of the seconds to the first token, of one policy on one trace."""
    return [
        (result.rate, getattr(result.first_token, quantile))
        for result in sorted(results, key=lambda result: result.rate)
        if result.first_token is not None
    ]
