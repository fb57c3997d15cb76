from warmroute.scheduling.worker import Worker
from warmroute.telemetry.decisions import Decision
from warmroute.telemetry.request_trace import RequestTrace


def test_an_attempt_ends_with_the_next_choice_for_its_role_else_with_the_request():
    trace = RequestTrace(0, None)
    prefill, decode, mixed = (Worker(f"{n}:1", f"http://{n}:1").candidate for n in "pdm")
    for role, candidate in (("prefill", prefill), ("decode", decode), ("prefill", mixed), ("decode", decode)):
        trace.chose(role, "p", [candidate], candidate, ())
    times = [chosen.time for chosen in trace.choices]
    assert times == sorted(times)
    ended = times[-1] + 10
    assert [trace.attempt_end(index, ended) for index in range(4)] == [times[2], times[3], ended, ended]


def test_what_it_hears_the_witness_before_it_hears_too():
    decision = Decision("r", 0.0, None, 1)
    trace = RequestTrace(0, decision)
    candidate = Worker("a:1", "http://a:1").candidate
    trace.chose("mixed", "p", [candidate], candidate, (3.0,))
    assert [choice.worker for choice in decision.choices] == ["a:1"]
    assert decision.choices[0].rows[0].score == 3.0
