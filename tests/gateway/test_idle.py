"""Which connections are reused and closed, against a plain model."""

from hypothesis import given
from hypothesis import strategies as st

from warmroute.gateway.upstream.idle import IdleConnections

steps = st.lists(
    st.tuples(st.sampled_from(["put", "take", "expire", "remove", "clear"]), st.floats(0, 5), st.integers(0, 9)),
    max_size=40,
)


@given(steps, st.floats(0.1, 6), st.integers(1, 4))
def test_every_connection_is_in_use_idle_or_given_up_exactly_once(steps, timeout, limit):
    idle: IdleConnections[int] = IdleConnections(timeout, limit)
    model: list[tuple[int, float]] = []
    now, serial = 0.0, 0
    for action, passed, pick in steps:
        now += passed
        if action == "put":
            serial += 1
            model.append((serial, now))
            surplus = model.pop(0)[0] if len(model) > limit else None
            assert idle.put(serial, now) == surplus
        elif action == "take":
            fresh = [entry for entry in model if now - entry[1] < timeout]
            assert idle.take(now) == (fresh[-1][0] if fresh else None)
            model = model[:-1] if fresh else model
        elif action == "expire":
            assert idle.expire(now) == [number for number, since in model if now - since >= timeout]
            model = [entry for entry in model if now - entry[1] < timeout]
        elif action == "remove" and model:
            gone = model.pop(pick % len(model))
            idle.remove(gone[0])
        elif action == "clear":
            assert idle.clear() == [number for number, _ in model]
            model = []
        assert len(idle) == len(model) <= limit
        assert idle.oldest == (model[0][1] if model else None)


def test_a_timeout_of_zero_keeps_nothing():
    idle: IdleConnections[str] = IdleConnections(0, 5)
    assert idle.put("a", 0) == "a"
    assert idle.take(0) is None
