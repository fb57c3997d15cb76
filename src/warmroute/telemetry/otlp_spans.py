"""The messages of OTLP for traces of requests (opentelemetry-proto, trace/v1/trace.proto). Pure functions.

Names of attributes follow OpenTelemetry's conventions for HTTP and generative AI where they have one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from random import Random
from typing import NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

from warmroute.telemetry.request_trace import Ending, RequestTrace

_SAMPLED = 0x01
_KNOWS_ORIGIN = 0x100
_FROM_ELSEWHERE = 0x200
"""Flags of a span: the first of W3C Trace Context, the others say whether its parent is in another process."""
TRACES_AT_ONCE = 8
"""They keep the event loop from running for 0.2 to 0.3 ms. To let it in after each costs several times their work."""


class Finished(NamedTuple):
    """A trace that is over. `ids` are those of the trace, its span and the span above (0: none)."""

    trace: RequestTrace
    ids: tuple[int, int, int]
    path: str
    request_id: str
    ending: Ending
    model: str | None
    prompt_tokens: int


def resource(attributes: Mapping[str, str]) -> Resource:
    """What the spans are of."""
    return Resource(attributes=[_told(key, value) for key, value in attributes.items()])


def export_request(
    finished: Iterable[Finished], of: Resource, version: str, rng: Random, pause: Callable[[], None]
) -> bytes:
    """The message with all spans of these traces. `rng` makes ids; `pause` is called after every TRACES_AT_ONCE."""
    spans: list[Span] = []
    for number, one in enumerate(finished, 1):
        spans += spans_of(one, rng)
        if not number % TRACES_AT_ONCE:
            pause()
    scope = ScopeSpans(scope=InstrumentationScope(name="warmroute", version=version), spans=spans)
    message = ExportTraceServiceRequest(resource_spans=[ResourceSpans(resource=of, scope_spans=[scope])])
    return bytes(message.SerializeToString())


def spans_of(finished: Finished, rng: Random) -> list[Span]:
    """The span of a request, and those below it."""
    trace, ending = finished.trace, finished.ending
    trace_id, span_id, parent_id = (
        finished.ids[0].to_bytes(16, "big"),
        finished.ids[1].to_bytes(8, "big"),
        finished.ids[2].to_bytes(8, "big") if finished.ids[2] else b"",
    )

    def below(name: str, start: int, end: int, attributes: list[KeyValue], **more: object) -> Span:
        return Span(
            trace_id=trace_id,
            span_id=rng.randbytes(8),
            parent_span_id=span_id,
            name=name,
            flags=_SAMPLED | _KNOWS_ORIGIN,
            start_time_unix_nano=start,
            end_time_unix_nano=end,
            attributes=attributes,
            **more,  # type: ignore[arg-type]
        )

    spans = [
        _request(finished, trace_id, span_id, parent_id),
        below("receive", trace.received, trace.read, [], kind=Span.SPAN_KIND_INTERNAL),
    ]
    last = len(trace.choices) - 1
    before = trace.read
    for index, chosen in enumerate(trace.choices):
        place = [_told("warmroute.role", chosen.role), _told("warmroute.worker", chosen.worker)]
        why = [_told("warmroute.policy", chosen.policy), _told("warmroute.candidates", chosen.candidates)]
        why.append(_number("warmroute.matched_tokens", chosen.matched_tokens))
        # Of an attempt that failed, the end is the next choice: then nothing was waited for in between.
        spans.append(below("select", before, chosen.time, place + why, kind=Span.SPAN_KIND_INTERNAL))
        over = trace.attempt_end(index, ending.time)
        place.append(_told("server.address", chosen.worker))
        attempt = below("attempt", chosen.time, over, place, kind=Span.SPAN_KIND_CLIENT)
        if index == last and ending.first_byte:
            attempt.events.append(Span.Event(name="first token", time_unix_nano=ending.first_byte))
        elif over != ending.time:
            attempt.status.CopyFrom(Status(code=Status.STATUS_CODE_ERROR, message="another worker was chosen"))
        spans.append(attempt)
        before = over if over != ending.time else chosen.time
    return spans


def _request(finished: Finished, trace_id: bytes, span_id: bytes, parent_id: bytes) -> Span:
    ending = finished.ending
    attributes = [
        _told("http.request.method", "POST"),
        _told("url.path", finished.path),
        _text("warmroute.request_id", finished.request_id),
        _told("http.response.status_code", ending.status),
        _told("warmroute.outcome", ending.outcome),
        _number("gen_ai.usage.input_tokens", finished.prompt_tokens),
    ]
    if finished.model is not None:
        attributes.append(_told("gen_ai.request.model", finished.model))
    span = Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_span_id=parent_id,
        name=f"POST {finished.path}",
        kind=Span.SPAN_KIND_SERVER,
        flags=_SAMPLED | _KNOWS_ORIGIN | (_FROM_ELSEWHERE if parent_id else 0),
        start_time_unix_nano=finished.trace.received,
        end_time_unix_nano=ending.time,
        attributes=attributes,
        events=[Span.Event(name="end", time_unix_nano=ending.time)],
    )
    if ending.status >= 500:
        span.status.CopyFrom(Status(code=Status.STATUS_CODE_ERROR, message=ending.outcome))
    return span


@lru_cache(maxsize=1024)
def _told(key: str, value: str | int) -> KeyValue:
    """An attribute that many spans share. A message copies what it is given, so one object does for all."""
    return _number(key, value) if isinstance(value, int) else _text(key, value)


def _text(key: str, value: str) -> KeyValue:
    # A request id, model or path may have bytes that came as latin-1; all of them are valid UTF-8 once encoded.
    return KeyValue(key=key, value=AnyValue(string_value=value))


def _number(key: str, value: int) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(int_value=value))
