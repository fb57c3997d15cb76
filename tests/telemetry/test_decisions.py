import json

from warmroute.scheduling.worker import Worker
from warmroute.telemetry.decisions import MOST_ROWS, Choice, Decision, DecisionLog, Row


def workers(count: int) -> list[Worker]:
    return [Worker(f"w{number}:1", f"http://w{number}:1") for number in range(count)]


def decision(number: int = 0) -> Decision:
    return Decision(f"r{number}", 1000.0, "m", 400)


def test_what_the_policy_saw_is_kept_whatever_becomes_of_the_rows():
    first, second = workers(2)
    first.candidate.matched_tokens = 256
    second.load.running_requests, second.load.pending_prefill_tokens = 3, 70
    made = decision()
    made.chose("mixed", "cache_aware", [second.candidate, first.candidate], first.candidate, [845.0, 144.0])
    first.candidate.matched_tokens = second.load.running_requests = 0
    rows = (Row("w0:1", 256, 0, 0, 144.0), Row("w1:1", 0, 70, 3, 845.0))
    assert made.choices == [Choice("mixed", "cache_aware", "w0:1", 2, rows)]


def test_the_chosen_one_comes_first_then_the_best_and_the_worst_are_left_out():
    fleet = workers(100)
    made = decision()
    made.chose("mixed", "p", [w.candidate for w in fleet], fleet[50].candidate, [float(100 - n) for n in range(100)])
    (choice,) = made.choices
    assert (choice.worker, choice.candidates, len(choice.rows)) == ("w50:1", 100, MOST_ROWS)
    assert [row.worker for row in choice.rows[:3]] == ["w50:1", "w99:1", "w98:1"]


def test_a_policy_without_scores_has_its_candidates_by_what_they_match():
    fleet = workers(3)
    for worker, tokens in zip(fleet, (0, 8, 16), strict=True):
        worker.candidate.matched_tokens = tokens
    made = decision()
    made.chose("mixed", "random", [w.candidate for w in fleet], fleet[0].candidate, ())
    assert [row.worker for row in made.choices[0].rows] == ["w0:1", "w2:1", "w1:1"]
    assert {row.score for row in made.choices[0].rows} == {None}


def test_the_header_is_one_short_line_of_json():
    fleet = workers(64)
    made = Decision("r\u2028", 1000.0, "m\r\nx: y", 400)
    for _ in range(5):
        made.chose("mixed", "p", [w.candidate for w in fleet], fleet[0].candidate, [1.23456789e-3] * 64)
    value = made.header()
    assert value.isascii()
    assert b"\n" not in value
    assert len(value) < 4096
    told = json.loads(value)
    assert (told["prompt_tokens"], told["choices_made"], len(told["choices"])) == (400, 5, 2)
    first = told["choices"][0]["rows"][0]
    assert first == {"worker": "w0:1", "matched": 0, "pending": 0, "running": 0, "score": 0.001235}


def test_only_the_last_ones_are_kept_and_the_newest_comes_first():
    log = DecisionLog(3)
    for number in range(5):
        log.add(decision(number))
    assert [made.request_id for made in log.newest(10)] == ["r4", "r3", "r2"]
    assert [made.request_id for made in log.newest(1)] == ["r4"]
