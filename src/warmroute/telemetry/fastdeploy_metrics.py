"""The metric names of FastDeploy's Go router, for dashboards that know them.

They mean what they mean there: a "cache hit" is a request whose session went to the same worker as the time before
(the prefill worker, of a pair), and says nothing of a KV cache. The http_* families tell of inference requests.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from math import ceil

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from warmroute.scheduling.worker import Worker
from warmroute.telemetry.endings import Batch, Endings

MOST_SESSIONS = 10_000
_RECENT = 1024

_ANSWERED = ("served", "error")
"""Outcomes that are a worker's answer."""
_QUANTILES = (0.95, 0.99)


class FastDeployMetrics(Collector):
    """Counts requests under FastDeploy's names. Bounded: by the known paths, by the workers of today, by sessions."""

    def __init__(self, endings: Endings) -> None:
        """Whatever is put down in `endings` is counted."""
        self._endings = endings
        endings.read_by(self._count)
        self._requests: Counter[tuple[str, int]] = Counter()
        self._served: Counter[tuple[_Urls, int]] = Counter()
        self._durations: dict[str, _Durations] = {}
        # By the hash of its name, for a client may give names of any length.
        self._sessions: OrderedDict[int, str] = OrderedDict()
        self.cache_hits = 0
        self.cache_requests = 0

    def _count(self, batch: Batch) -> None:
        path_of = {target: _path(target) for target in set(batch.targets)}
        for (target, status, outcome, _, _, worker, prefill), count in batch.counts.items():
            self._requests[path_of[target], status] += count
            if worker is not None and outcome in _ANSWERED:
                self._served[_urls(worker, prefill), status] += count
        paths = set(path_of.values())
        for path in paths:
            durations = self._durations.setdefault(path, _Durations())
            if len(paths) == 1:
                durations.add(batch.seconds)
            else:
                rows = zip(batch.seconds, batch.targets, strict=True)
                durations.add([took for took, target in rows if path_of[target] == path])

    def session_placed(self, session: str, worker: str) -> None:
        """A request of a session was placed."""
        self.cache_requests += 1
        key = hash(session)
        self.cache_hits += self._sessions.pop(key, None) == worker
        self._sessions[key] = worker
        if len(self._sessions) > MOST_SESSIONS:
            self._sessions.popitem(last=False)

    def keep_workers(self, urls: Iterable[str]) -> None:
        """Drop the counts of workers that are gone."""
        self._endings.settle()
        known = {"", *urls}
        for key in [key for key in self._served if not known.issuperset(key[0])]:
            del self._served[key]

    def collect(self) -> Iterator[Metric]:
        """Yield the families."""
        self._endings.settle()
        http = CounterMetricFamily(
            "http_requests", "Inference requests that are over.", labels=("method", "endpoint", "status_code")
        )
        for (path, status), count in sorted(self._requests.items()):
            http.add_metric(("POST", path, str(status)), count)
        yield http
        # The client library has no summary with quantiles; its samples are added by hand.
        seconds = Metric("http_request_duration_seconds", "How long inference requests took.", "summary")
        for path, durations in sorted(self._durations.items()):
            labels = {"method": "POST", "endpoint": path}
            for quantile, value in zip(_QUANTILES, durations.quantiles(_QUANTILES), strict=True):
                seconds.add_sample("http_request_duration_seconds", {**labels, "quantile": str(quantile)}, value)
            seconds.add_sample("http_request_duration_seconds_sum", labels, durations.sum)
            seconds.add_sample("http_request_duration_seconds_count", labels, durations.count)
        yield seconds
        served = CounterMetricFamily(
            "inference_requests",
            "Inference requests that a worker has answered.",
            labels=("mixed_worker", "prefill_worker", "decode_worker", "status_code"),
        )
        for ((mixed, prefill, decode), status), count in sorted(self._served.items()):
            served.add_metric((mixed, prefill, decode, str(status)), count)
        yield served
        yield CounterMetricFamily(
            "router_cache_hit", "Requests that went to the worker that their session had before.", self.cache_hits
        )
        yield CounterMetricFamily("router_cache_request", "Requests that name a session.", self.cache_requests)


_Urls = tuple[str, str, str]
"""Of the mixed, prefill and decode worker, empty where there was none of that role."""


def _urls(worker: Worker, prefill: Worker | None) -> _Urls:
    if prefill is not None:
        return "", prefill.url, worker.url
    return (worker.url, "", "") if worker.role == "mixed" else ("", "", worker.url)


def _path(target: bytes) -> str:
    """Without the query, which may hold a key and has no bound."""
    return target.partition(b"?")[0].decode("latin-1")


class _Durations:
    """All are counted; quantiles are of the last _RECENT."""

    __slots__ = ("_recent", "count", "sum")

    def __init__(self) -> None:
        self.count = 0
        self.sum = 0.0
        self._recent: deque[float] = deque(maxlen=_RECENT)

    def add(self, values: Sequence[float]) -> None:
        self.count += len(values)
        self.sum += sum(values)
        self._recent += values

    def quantiles(self, shares: Iterable[float]) -> list[float]:
        ordered = sorted(self._recent)
        return [ordered[ceil(share * len(ordered)) - 1] for share in shares]
