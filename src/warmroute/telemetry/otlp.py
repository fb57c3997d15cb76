"""Traces over OTLP, by the OpenTelemetry SDK (the extra `warmroute[otel]`): a span of each request, and spans below it.

Names of attributes follow OpenTelemetry's conventions for HTTP and generative AI where they have one. Spans are sent by
a thread of the SDK, in batches; what a collector does not take in time is dropped.
"""

from __future__ import annotations

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from warmroute.telemetry.request_trace import Ending, RequestTrace

_BATCH_MILLISECONDS = 1000
_TIMEOUT_SECONDS = 3
_PATH = "/v1/traces"


class OtlpTrace(RequestTrace):
    """A trace with its span."""

    __slots__ = ("span",)
    span: Span


class OtlpTracer:
    """Sends spans to a collector. Makes a thread, and no state that another router in this process would see."""

    def __init__(self, endpoint: str, sample_ratio: float, version: str) -> None:
        """`endpoint` is the collector's address, with or without its path; a `sample_ratio` of 1 is every request
        whose client has not decided that.
        """
        self.sample_ratio = sample_ratio
        url = endpoint if endpoint.rstrip("/").count("/") > 2 else endpoint.rstrip("/") + _PATH
        self._provider = TracerProvider(
            sampler=ALWAYS_ON,  # whoever begins a trace has decided
            resource=Resource.create({"service.name": "warmroute", "service.version": version}),
            shutdown_on_exit=False,
        )
        self._provider.add_span_processor(
            BatchSpanProcessor(
                OTLPSpanExporter(endpoint=url, timeout=_TIMEOUT_SECONDS), schedule_delay_millis=_BATCH_MILLISECONDS
            )
        )
        self._tracer = self._provider.get_tracer("warmroute", version)
        self._context = TraceContextTextMapPropagator()

    def begin(self, path: str, request_id: str, parent: str, received: int, other: object | None) -> OtlpTrace:
        """Open the span of a request."""
        trace = OtlpTrace(received, other)
        trace.span = self._tracer.start_span(
            f"POST {path}",
            context=self._context.extract({"traceparent": parent}) if parent else None,
            kind=SpanKind.SERVER,
            start_time=received,
            attributes={"http.request.method": "POST", "url.path": path, "warmroute.request_id": request_id},
        )
        return trace

    def traceparent(self, trace: RequestTrace) -> str:
        """The request's span, in the form of W3C Trace Context."""
        carrier: dict[str, str] = {}
        if isinstance(trace, OtlpTrace):
            self._context.inject(carrier, context=set_span_in_context(trace.span))
        return carrier.get("traceparent", "")

    def end(self, trace: RequestTrace, ending: Ending, model: str | None, prompt_tokens: int) -> None:
        """Close the span, and make those below it."""
        if not isinstance(trace, OtlpTrace):
            return
        span = trace.span
        self._below(trace, ending)
        span.set_attribute("http.response.status_code", ending.status)
        span.set_attribute("warmroute.outcome", ending.outcome)
        span.set_attribute("gen_ai.usage.input_tokens", prompt_tokens)
        if model is not None:
            span.set_attribute("gen_ai.request.model", model)
        if ending.status >= 500:
            span.set_status(Status(StatusCode.ERROR, ending.outcome))
        span.add_event("end", timestamp=ending.time)
        span.end(ending.time)

    def close(self) -> None:
        """Send what is left and end the thread."""
        self._provider.shutdown()

    def _below(self, trace: OtlpTrace, ending: Ending) -> None:
        context = set_span_in_context(trace.span)
        start = self._tracer.start_span
        start("receive", context, start_time=trace.received).end(trace.read)
        last = len(trace.choices) - 1
        before = trace.read
        for index, chosen in enumerate(trace.choices):
            attributes: dict[str, str | int] = {
                "server.address": chosen.worker,
                "warmroute.role": chosen.role,
                "warmroute.policy": chosen.policy,
                "warmroute.worker": chosen.worker,
                "warmroute.candidates": chosen.candidates,
                "warmroute.matched_tokens": chosen.matched_tokens,
            }
            # Of an attempt that failed, the end is the next choice: then nothing was waited for in between.
            start("select", context, attributes={**attributes}, start_time=before).end(chosen.time)
            attempt = start("attempt", context, SpanKind.CLIENT, {**attributes}, start_time=chosen.time)
            over = trace.attempt_end(index, ending.time)
            if index == last and ending.first_byte:
                attempt.add_event("first token", timestamp=ending.first_byte)
            elif over != ending.time:
                attempt.set_status(Status(StatusCode.ERROR, "another worker was chosen"))
            attempt.end(over)
            before = over if over != ending.time else chosen.time
