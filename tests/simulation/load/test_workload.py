"""What the load generator changes in a body."""

import pytest

from warmroute.simulation.load.workload import Overrides, RecordedBody


@pytest.mark.parametrize(
    ("overrides", "body", "model"),
    [
        (Overrides(), {"model": "a"}, "a"),
        (Overrides(model="b"), {"model": "a"}, "b"),
        (Overrides(default_model="c"), {"model": "a"}, "a"),
        (Overrides(default_model="c"), {}, "c"),
    ],
)
def test_the_model(overrides, body, model):
    assert overrides.apply(body)["model"] == model


def test_streams_are_asked_for_usage_and_only_they():
    assert Overrides().apply({"stream": True, "stream_options": {"x": 1}}) == {
        "stream": True,
        "stream_options": {"x": 1, "include_usage": True},
    }
    assert Overrides(stream=False).apply({"stream": True, "stream_options": {}}) == {"stream": False}
    assert Overrides(stream=True).apply({})["stream_options"] == {"include_usage": True}
    assert Overrides().apply({"prompt": "x"}) == {"prompt": "x"}


def test_a_recorded_body_stays_as_it_was():
    recorded = RecordedBody({"prompt": "x"})
    Overrides(model="m", stream=True).apply(recorded.body(0, []))
    assert recorded.body(0, []) == {"prompt": "x"}
