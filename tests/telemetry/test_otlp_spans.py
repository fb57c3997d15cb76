"""Spans and their messages, without a collector."""

from random import Random

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from warmroute.telemetry.otlp_spans import TRACES_AT_ONCE, Finished, export_request, resource, spans_of
from warmroute.telemetry.request_trace import Chosen, Ending, RequestTrace


def finished(choices, *, parent=0, status=200, first_byte=0):
    trace = RequestTrace(100, None)
    trace.read = 110
    trace.choices += choices
    return Finished(trace, (7, 8, parent), "/v1/completions", "r", Ending(1000, first_byte, status, "served"), "m", 5)


def chosen(time, role="mixed", worker="a:1"):
    return Chosen(time, role, "cache_aware", worker, 2, 3)


def named(spans, name):
    return [span for span in spans if span.name == name]


def test_a_failed_attempt_ends_where_the_next_choice_begins():
    spans = spans_of(finished([chosen(200), chosen(500, worker="b:1")], first_byte=600), Random(1))
    first, second = named(spans, "attempt")
    assert (first.start_time_unix_nano, first.end_time_unix_nano, first.status.code) == (200, 500, 2)
    assert (second.start_time_unix_nano, second.end_time_unix_nano, second.status.code) == (500, 1000, 0)
    assert [(event.name, event.time_unix_nano) for event in second.events] == [("first token", 600)]
    selects = named(spans, "select")
    assert [(span.start_time_unix_nano, span.end_time_unix_nano) for span in selects] == [(110, 200), (500, 500)]


def test_a_parent_of_the_client_is_marked_as_remote_and_all_others_are_in_this_process():
    root, *below = spans_of(finished([chosen(200)], parent=9), Random(1))
    assert (root.parent_span_id, root.flags) == ((9).to_bytes(8, "big"), 0x301)
    assert {span.parent_span_id for span in below} == {root.span_id}
    assert {span.flags for span in below} == {0x101}
    (alone, *_) = spans_of(finished([]), Random(1))
    assert (alone.parent_span_id, alone.flags) == (b"", 0x101)


def test_an_error_of_the_router_marks_the_request():
    (root, *_) = spans_of(finished([], status=503), Random(1))
    assert root.status.code == 2
    assert spans_of(finished([], status=404), Random(1))[0].status.code == 0


def test_a_message_holds_all_and_says_whose_they_are():
    both = [finished([chosen(200)]), finished([])]
    data = export_request(both, resource({"service.name": "w"}), "1.2", Random(1), lambda: None)
    (of,) = ExportTraceServiceRequest.FromString(data).resource_spans
    assert [(a.key, a.value.string_value) for a in of.resource.attributes] == [("service.name", "w")]
    (scope,) = of.scope_spans
    assert (scope.scope.name, scope.scope.version, len(scope.spans)) == ("warmroute", "1.2", 6)


def test_the_event_loop_may_run_after_some_traces_and_not_after_each():
    pauses = []
    export_request([finished([])] * (2 * TRACES_AT_ONCE + 1), resource({}), "1", Random(1), lambda: pauses.append(1))
    assert len(pauses) == 2
