"""Traces over OTLP (HTTP, protobuf): a span of each traced request, and spans below it.

The event loop only puts a finished trace into a bounded queue; `otlp_spans.py` makes the messages in a thread, which
sends them in batches. The OpenTelemetry SDK would do all of it as well, at several times the CPU time.
Of OpenTelemetry's variables OTEL_EXPORTER_OTLP_HEADERS, OTEL_EXPORTER_OTLP_TRACES_HEADERS and OTEL_RESOURCE_ATTRIBUTES
are followed.
"""

from __future__ import annotations

import logging
import re
import ssl
import threading
import time
from collections import deque
from collections.abc import Mapping
from random import Random
from urllib.error import URLError
from urllib.parse import unquote
from urllib.request import Request, urlopen

from warmroute.telemetry.guard import Guard
from warmroute.telemetry.otlp_spans import Finished, export_request, resource
from warmroute.telemetry.request_trace import Ending, RequestTrace

logger = logging.getLogger(__name__)

BATCH_SECONDS = 5.0
"""How long a trace waits for others at most, as in OpenTelemetry's SDKs: a message costs as much as several traces."""
MOST_WAITING = 4096
"""So many finished traces are kept while the collector is slow; what comes then is dropped."""
_BATCH_TRACES = 128
_TIMEOUT_SECONDS = 3
_PATH = "/v1/traces"
# Of W3C Trace Context: version, trace id, parent id, flags. Ids of zeros only are no ids.
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}(?:-.*)?")


class OtlpTrace(RequestTrace):
    """A trace with the ids of its span; `parent_id` is 0 where the client has none."""

    __slots__ = ("parent_id", "path", "request_id", "span_id", "trace_id")
    path: str
    request_id: str
    trace_id: int
    span_id: int
    parent_id: int


class OtlpTracer:
    """Sends spans to a collector. Has a thread, and no state that another router in this process would see."""

    def __init__(
        self,
        endpoint: str,
        sample_ratio: float,
        version: str,
        environment: Mapping[str, str],
        rng: Random | None = None,
    ) -> None:
        """`endpoint` is the collector's address, with or without its path; a `sample_ratio` of 1 is every request
        whose client has not decided that; `environment` holds OpenTelemetry's variables.
        """
        self.sample_ratio = sample_ratio
        url = endpoint if endpoint.rstrip("/").count("/") > 2 else endpoint.rstrip("/") + _PATH
        self._rng = rng or Random()
        self._waiting: deque[Finished] = deque()
        self._dropped = 0
        self._collector = _Collector(url, environment)
        told = _pairs(environment.get("OTEL_RESOURCE_ATTRIBUTES", ""))
        self._resource = resource({"service.name": "warmroute", **told, "service.version": version})
        self._version = version
        self._stop = threading.Event()
        self._wake = threading.Event()
        """Set when a message is full, and to stop."""
        self._thread = threading.Thread(target=self._run, name="traces", daemon=True)
        self._thread.start()

    def begin(self, path: str, request_id: str, parent: str, received: int, other: object | None) -> OtlpTrace:
        """Open the span of a request."""
        trace = OtlpTrace(received, other)
        trace.path = path
        trace.request_id = request_id
        above = _TRACEPARENT.fullmatch(parent)
        trace.trace_id = int(above[1], 16) if above else self._rng.getrandbits(128) or 1
        trace.parent_id = int(above[2], 16) if above else 0
        trace.span_id = self._rng.getrandbits(64) or 1
        return trace

    def traceparent(self, trace: RequestTrace) -> str:
        """The request's span, in the form of W3C Trace Context."""
        return f"00-{trace.trace_id:032x}-{trace.span_id:016x}-01" if isinstance(trace, OtlpTrace) else ""

    def end(self, trace: RequestTrace, ending: Ending, model: str | None, prompt_tokens: int) -> None:
        """Have the trace sent soon."""
        if not isinstance(trace, OtlpTrace):
            return
        if len(self._waiting) >= MOST_WAITING:
            self._dropped += 1
            return
        ids = trace.trace_id, trace.span_id, trace.parent_id
        self._waiting.append(Finished(trace, ids, trace.path, trace.request_id, ending, model, prompt_tokens))
        if len(self._waiting) == _BATCH_TRACES:
            self._wake.set()

    def close(self) -> None:
        """Send what is left and end the thread."""
        self._stop.set()
        self._wake.set()
        self._thread.join()

    def _run(self) -> None:
        guard = Guard(logger, "the sending of traces")
        while not self._stop.is_set():
            self._wake.wait(BATCH_SECONDS)
            self._wake.clear()
            if not self._stop.is_set():
                with guard:
                    self._send_all()
        with guard:
            self._send_all()

    def _send_all(self) -> None:
        dropped, self._dropped = self._dropped, 0
        if dropped:
            logger.warning("%d traces were dropped: the collector %s is too slow", dropped, self._collector.url)
        while self._waiting:
            batch: list[Finished] = []
            while self._waiting and len(batch) < _BATCH_TRACES:
                batch.append(self._waiting.popleft())
            data = export_request(batch, self._resource, self._version, self._rng, pause=lambda: time.sleep(0))
            if not self._collector.take(data, len(batch)) and self._stop.is_set():
                return


class _Collector:
    """Where messages are sent to. A failure is told once, until something gets through."""

    def __init__(self, url: str, environment: Mapping[str, str]) -> None:
        self.url = url
        prefix = "OTEL_EXPORTER_OTLP_"
        self._headers = {
            **_pairs(environment.get(f"{prefix}HEADERS", "")),
            **_pairs(environment.get(f"{prefix}TRACES_HEADERS", "")),
            "content-type": "application/x-protobuf",
        }
        self._tls = ssl.create_default_context() if url.startswith("https:") else None
        self._trouble = ""

    def take(self, data: bytes, traces: int) -> bool:
        """Post one message. Returns whether it was taken; what was not is lost."""
        trouble = ""
        try:
            request = Request(self.url, data, self._headers)  # noqa: S310  # the configuration takes http and https only
            with urlopen(request, timeout=_TIMEOUT_SECONDS, context=self._tls) as answer:  # noqa: S310
                answer.read()
        except (OSError, URLError) as error:
            trouble = str(getattr(error, "reason", "") or error)
        if trouble and trouble != self._trouble:
            logger.warning(
                "%d traces are lost: %s does not take them (%s); see that the collector is up and takes OTLP over HTTP",
                traces,
                self.url,
                trouble,
            )
        self._trouble = trouble
        return not trouble


def _pairs(text: str) -> dict[str, str]:
    """`key=value,key=value`, percent-encoded, as OpenTelemetry's variables are written."""
    pairs = (item.partition("=") for item in text.split(","))
    return {unquote(key.strip()): unquote(value.strip()) for key, sign, value in pairs if sign and key.strip()}
