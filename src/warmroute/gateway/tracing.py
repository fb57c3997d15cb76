"""Traces of exchanges, begun when a request has been read. A router without a tracer pays an attribute test."""

from __future__ import annotations

import re
from random import Random
from time import perf_counter, time_ns

from msgspec.structs import replace

from warmroute.gateway.exchange import Exchange
from warmroute.gateway.headers import RequestHead
from warmroute.gateway.targets import shown_path
from warmroute.prompts.prompt import Prompt
from warmroute.telemetry.request_trace import Ending, RequestTrace, Tracer

_NOT_SAMPLED = re.compile(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f][02468ace].*")
_TRACEPARENT_LINE = re.compile(rb"^traceparent:[^\r\n]*\r\n", re.IGNORECASE | re.MULTILINE)


def is_traced(head: RequestHead, sample_ratio: float, rng: Random) -> bool:
    """Whether the client, or else chance, has decided that a request is traced. If not, nothing is made, and its
    traceparent goes to the worker as it came.
    """
    if head.traceparent:
        return _NOT_SAMPLED.fullmatch(head.traceparent) is None
    return rng.random() < sample_ratio


def begin_trace(exchange: Exchange, prompt: Prompt, tracer: Tracer, began: float) -> RequestTrace:
    """Open the trace of a request that was complete at `began` (by `perf_counter`); workers get it as their parent."""
    head = exchange.head
    parent = head.traceparent.decode("latin-1")
    received = time_ns() - int((perf_counter() - began) * 1e9)
    trace = tracer.begin(
        shown_path(exchange.target), exchange.request_id.decode("latin-1"), parent, received, prompt.witness
    )
    prompt.witness = trace
    line = b"traceparent: %b\r\n" % tracer.traceparent(trace).encode("ascii")
    forwarded = _TRACEPARENT_LINE.sub(b"", head.forwarded) if parent else head.forwarded
    exchange.head = replace(head, forwarded=forwarded + line)
    return trace


def end_trace(
    exchange: Exchange, trace: RequestTrace, tracer: Tracer, loop_time: float, status: int, outcome: str
) -> None:
    """Close the trace of an exchange that is over."""
    now = time_ns()
    first = exchange.first_byte_at
    ending = Ending(now, now - int((loop_time - first) * 1e9) if first else 0, status, outcome)
    lease = exchange.lease
    model, tokens = (None, 0) if lease is None else (lease.prompt.model, lease.prompt.tokens)
    tracer.end(trace, ending, model, tokens)
