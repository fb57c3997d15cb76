"""Traces as a collector gets them: a real OTLP receiver on loopback, a router, scripted workers."""

from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tests.support.http_client import CHAT, ask, post
from tests.support.router import config, eventually, running
from tests.support.scripted_worker import LAST_CHUNK, SSE_HEAD, answering, chunk, response, then_closing

from warmroute.config.tree import TelemetryConfig
from warmroute.telemetry import otlp

pytestmark = pytest.mark.asyncio(loop_scope="module")

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
FIELD = (b"traceparent", f"00-{TRACE}-{PARENT}-01".encode())


class Collector:
    """Takes OTLP over HTTP and keeps the spans."""

    def __init__(self):
        self.spans = []
        self.services = set()
        self.resource = {}
        self.headers = {}

    async def take(self, request: web.Request) -> web.Response:
        assert request.content_type == "application/x-protobuf"
        self.headers = request.headers
        export = ExportTraceServiceRequest.FromString(await request.read())
        for of_resource in export.resource_spans:
            self.resource = {a.key: a.value.string_value for a in of_resource.resource.attributes}
            self.services |= {a.value.string_value for a in of_resource.resource.attributes if a.key == "service.name"}
            self.spans += [span for scope in of_resource.scope_spans for span in scope.spans]
        return web.Response(content_type="application/x-protobuf")

    def named(self, name):
        return sorted((span for span in self.spans if span.name == name), key=lambda span: span.start_time_unix_nano)


@asynccontextmanager
async def collector():
    taken = Collector()
    app = web.Application()
    app.router.add_post("/v1/traces", taken.take)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield taken, f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def traced(endpoint, *workers, **options):
    settings = config(*(worker.url for worker in workers), scheduler={"policy": "round_robin"})
    telemetry = TelemetryConfig(otlp_endpoint=endpoint, **{"otlp_sample_ratio": 1.0, **options})
    return settings.model_copy(update={"telemetry": telemetry})


def attributes(span):
    return {a.key: a.value.string_value or a.value.int_value for a in span.attributes}


async def test_a_request_is_a_span_below_its_clients_with_all_that_happened_below_it(lone_worker):
    lone_worker.script = answering(SSE_HEAD + chunk(b"data: 1\n\n") + chunk(b"data: [DONE]\n\n") + LAST_CHUNK)
    async with collector() as (taken, endpoint):
        async with running(traced(endpoint, lone_worker)) as router:
            await ask(router.port, post(CHAT, headers=[FIELD, (b"x-request-id", b"mine")]))
        (root,) = taken.named("POST /v1/chat/completions")
        assert (root.trace_id.hex(), root.parent_span_id.hex()) == (TRACE, PARENT)
        told = attributes(root)
        assert (told["warmroute.request_id"], told["warmroute.outcome"]) == ("mine", "served")
        assert told["http.response.status_code"] == 200
        assert [event.name for event in root.events] == ["end"]
        below = [span for span in taken.spans if span.parent_span_id == root.span_id]
        assert sorted(span.name for span in below) == ["attempt", "receive", "select"]
        (attempt,) = taken.named("attempt")
        assert attributes(attempt)["warmroute.worker"] == f"127.0.0.1:{lone_worker.port}"
        (first,) = attempt.events
        assert first.name == "first token"
        assert attempt.start_time_unix_nano <= attempt.end_time_unix_nano <= root.end_time_unix_nano
        for span in taken.spans:
            assert root.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano
        assert taken.services == {"warmroute"}
    (request,) = lone_worker.requests
    assert request.values(b"traceparent") == [f"00-{TRACE}-{root.span_id.hex()}-01".encode()]


async def test_each_attempt_is_a_span_and_the_failed_one_says_so(pair):
    broken, sound = pair
    broken.script, sound.script = then_closing(b""), answering(response(b"{}"))
    async with collector() as (taken, endpoint):
        async with running(traced(endpoint, broken, sound)) as router:
            for _ in range(2):  # in turn: at least one of them begins with the broken one
                await ask(router.port, post())
    failed = [span for span in taken.named("attempt") if span.status.code == 2]
    assert {attributes(span)["warmroute.worker"] for span in failed} == {f"127.0.0.1:{broken.port}"}
    attempt = failed[0]
    siblings = [span for span in taken.named("attempt") if span.parent_span_id == attempt.parent_span_id]
    assert len(siblings) == 2
    assert attempt.end_time_unix_nano <= max(span.end_time_unix_nano for span in siblings)


async def test_what_the_client_does_not_want_sampled_is_not_sent_but_passed_on(lone_worker):
    lone_worker.script = answering(response(b"{}"))
    async with collector() as (taken, endpoint):
        async with running(traced(endpoint, lone_worker)) as router:
            await ask(router.port, post(headers=[(FIELD[0], FIELD[1][:-1] + b"0")]))
    assert taken.spans == []
    (request,) = lone_worker.requests
    assert request.values(b"traceparent") == [FIELD[1][:-1] + b"0"]


async def test_of_what_no_client_has_decided_a_share_is_traced(lone_worker):
    lone_worker.script = answering(response(b"{}"))
    async with collector() as (taken, endpoint):
        async with running(traced(endpoint, lone_worker, otlp_sample_ratio=0.5)) as router:
            for _ in range(40):
                await ask(router.port, post())
            await ask(router.port, post(headers=[FIELD]))
    roots = [span for span in taken.spans if span.name.startswith("POST")]
    assert 5 < len(roots) < 36
    assert TRACE in {span.trace_id.hex() for span in roots}
    assert sum(bool(request.values(b"traceparent")) for request in lone_worker.requests) == len(roots)


async def test_a_message_that_is_full_waits_for_nobody(lone_worker, monkeypatch):
    monkeypatch.setattr(otlp, "BATCH_SECONDS", 3600.0)
    monkeypatch.setattr(otlp, "_BATCH_TRACES", 8)
    lone_worker.script = answering(response(b"{}"))
    async with collector() as (taken, endpoint), running(traced(endpoint, lone_worker)) as router:
        for _ in range(8):
            await ask(router.port, post())
        await eventually(lambda: len(taken.named("receive")) == 8, "they are sent")


async def test_a_collector_that_is_not_there_harms_no_request(lone_worker, unused_tcp_port):
    lone_worker.script = answering(response(b"{}"))
    async with running(traced(f"http://127.0.0.1:{unused_tcp_port}", lone_worker)) as router:
        assert (await ask(router.port, post())).status == 200


async def test_explaining_and_tracing_go_together(lone_worker):
    lone_worker.script = answering(response(b"{}"))
    async with collector() as (taken, endpoint):
        async with running(traced(endpoint, lone_worker, explain=True)) as router:
            answer = await ask(router.port, post())
    assert b'"choices_made":1' in answer.value(b"x-warmroute-decision")
    assert len(taken.named("attempt")) == 1


async def test_a_collector_may_want_a_key_and_the_service_may_have_more_to_tell(lone_worker, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20abc, x-tenant=t")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=canary,service.name=front")
    lone_worker.script = answering(response(b"{}"))
    async with collector() as (taken, endpoint):
        async with running(traced(endpoint, lone_worker)) as router:
            await ask(router.port, post())
    assert (taken.headers["authorization"], taken.headers["x-tenant"]) == ("Bearer abc", "t")
    assert taken.resource["deployment.environment.name"] == "canary"
    assert taken.resource["service.name"] == "front"


async def test_that_the_collector_is_away_is_told_once(lone_worker, unused_tcp_port, caplog):
    lone_worker.script = answering(response(b"{}"))
    with caplog.at_level("WARNING", "warmroute.telemetry.otlp"):
        async with running(traced(f"http://127.0.0.1:{unused_tcp_port}", lone_worker)) as router:
            await ask(router.port, post())
    (record,) = [record for record in caplog.records if record.name == "warmroute.telemetry.otlp"]
    assert "does not take them" in record.getMessage()
