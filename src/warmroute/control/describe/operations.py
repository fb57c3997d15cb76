"""Every operation of the control side: what it is for, what it takes, what it answers. A table, and nothing else.

A test compares it with the routes that there are; another one sends what it allows and checks what comes back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import BaseModel

from warmroute.control import admin_models, decision_models
from warmroute.control.describe import bodies

TEXT = "text/plain"
EVENTS = "text/event-stream"

Content = type[BaseModel] | str
"""JSON of this class, or a media type."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path. `takes` are the alternatives for its JSON body, `answers` what it sends by status.

    `query` are schemas by name. `is_list`: the body of 200 is a list of its class. `changes`: it is let in like all
    that changes something.
    """

    method: str
    path: str
    tag: str
    summary: str
    answers: Mapping[int, Content]
    takes: tuple[type[BaseModel], ...] = ()
    notes: str = ""
    query: Mapping[str, dict[str, object]] = field(default_factory=dict)
    is_list: bool = False
    example: object = None

    @property
    def changes(self) -> bool:
        """Whether it is for operators and engines only."""
        return self.method not in ("GET", "HEAD")


_PROBLEM = bodies.ControlProblem
_FEW = {404: _PROBLEM}
_BODY = {400: _PROBLEM, 413: _PROBLEM}
_REGISTRATION = {"role": "mixed", "host_ip": "10.0.0.7", "port": 8000, "metrics_port": 8001}

OPERATIONS = (
    Operation("GET", "/workers", "workers", "All workers", {200: bodies.Workers}),
    Operation(
        "POST",
        "/workers",
        "workers",
        "Add a worker",
        {200: bodies.ChangedWorker, **_BODY},
        (bodies.NewWorker,),
        "It takes requests from its first passed probe on.",
        example={"url": "http://10.0.0.7:8000", "role": "mixed"},
    ),
    Operation("GET", "/workers/{worker}", "workers", "One worker", {200: bodies.WorkerEntry, **_FEW}),
    Operation(
        "DELETE",
        "/workers/{worker}",
        "workers",
        "Drain a worker, then remove it for good",
        {200: bodies.Draining, **_FEW},
        notes="Answered at once; the worker goes when its last request has ended.",
    ),
    Operation(
        "POST",
        "/workers/{worker}/drain",
        "workers",
        "Send no new requests to a worker",
        {200: bodies.Draining, **_FEW},
        notes="Holds until `undrain`, whatever heartbeats say.",
    ),
    Operation("POST", "/workers/{worker}/undrain", "workers", "End a drain", {200: bodies.ChangedWorker, **_FEW}),
    Operation(
        "POST",
        "/deregister",
        "workers",
        "Drain a worker, then remove it until it comes back",
        {200: bodies.Draining, **_FEW, **_BODY},
        (bodies.NamedByUrl, bodies.NamedByAddress),
        example={"url": "http://10.0.0.7:8000"},
    ),
    Operation(
        "POST",
        "/register",
        "engines",
        "An engine makes itself known, and repeats that as its heartbeat",
        {200: bodies.Done, **_BODY, 503: _PROBLEM},
        (bodies.Registration,),
        "A known worker is answered at once, a new one after its health probes; 503 if it does not pass them.",
        example=_REGISTRATION,
    ),
    Operation("GET", "/registered", "engines", "The healthy workers by role", {200: bodies.Registered}),
    Operation("GET", "/registered_number", "engines", "How many there are", {200: bodies.RegisteredNumber}),
    Operation(
        "GET",
        "/decode_instances",
        "engines",
        "Decode workers that a FastDeploy prefill engine may connect with",
        {200: bodies.DecodeInstance},
        query={"version": {"type": "string", "description": "Only those that told this version of the model."}},
        is_list=True,
    ),
    Operation(
        "POST",
        "/v1/abort_requests",
        "engines",
        "Tell every worker to abort requests",
        {200: bodies.AbortReply, 400: bodies.BadAbort, 413: bodies.Problem, 502: bodies.AbortReply},
        (bodies.AbortSome, bodies.AbortAll),
        example={"req_ids": ["chatcmpl-1"]},
    ),
    Operation("GET", "/v1/models", "engines", "What all workers together serve", {200: bodies.Models}),
    Operation("GET", "/health", "health", "The router is up", {200: bodies.Health}),
    Operation("HEAD", "/health", "health", "The same without a body", {200: TEXT}),
    Operation(
        "GET",
        "/ready",
        "health",
        "A worker, or a pair of them, can serve",
        {200: bodies.Readiness, 503: bodies.Readiness},
    ),
    Operation("HEAD", "/ready", "health", "The same without a body", {200: TEXT, 503: TEXT}),
    Operation(
        "GET",
        "/health_generate",
        "health",
        "Probe every worker now",
        {200: bodies.ProbeReport, 503: bodies.ProbeReport},
    ),
    Operation("GET", "/worker_metrics", "health", "What the engines last told", {200: bodies.EngineMetrics}),
    Operation("GET", "/metrics", "watching", "Prometheus metrics", {200: TEXT}),
    Operation("GET", "/admin/state", "watching", "The router at this moment", {200: admin_models.RouterState}),
    Operation("GET", "/admin/history", "watching", "The last 15 minutes", {200: admin_models.RouterHistory}),
    Operation(
        "GET",
        "/admin/decisions",
        "watching",
        "Why requests went where they went",
        {200: decision_models.Decisions, 400: bodies.Problem},
        notes="The last that were explained, newest first: those whose request asked for it, or all with `--explain`.",
        query={"limit": {"type": "integer", "minimum": 1, "default": 50}},
    ),
    Operation(
        "GET",
        "/admin/events",
        "watching",
        "The router as it changes",
        {200: EVENTS, 503: bodies.Problem},
        notes="Server-sent events: `state` every second with the body of /admin/state, `sample` for each new entry of "
        "/admin/history.",
    ),
)
