"""The synthetic workload: its shape, and that it is the same each time."""

import pytest

from warmroute.simulation.load.synthetic import SyntheticLoad, parse_load


def test_a_conversation_grows_by_what_was_really_answered():
    [session] = SyntheticLoad(sessions=1, turns=3, answer_tokens=5).make()
    first = session.body(0, [])
    third = session.body(2, ["answer one", "answer two"])
    assert [m["role"] for m in third["messages"]] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert third["messages"][:2] == first["messages"]
    assert [m["content"] for m in third["messages"] if m["role"] == "assistant"] == ["answer one", "answer two"]
    assert third["max_tokens"] == 5


def test_lengths_are_as_told():
    """Words end where they end, so a text may be a word too long."""
    load = SyntheticLoad(sessions=20, turns=4, system_tokens=300, user_tokens=100)
    for session in load.make():
        assert 1200 <= len(session.system) + 1 < 1212
        assert all(200 <= len(question) + 1 < 612 for question in session.questions)


def test_the_same_seed_gives_the_same_texts():
    once, again, other = (SyntheticLoad(sessions=5, seed=seed).make() for seed in (1, 1, 2))
    assert once == again != other


def test_tenants_share_a_system_prompt():
    sessions = SyntheticLoad(sessions=50, tenants=3).make()
    assert len({session.system for session in sessions}) == 3


def test_a_shape_is_read_from_text():
    assert parse_load("sessions=5,user-tokens = 7") == SyntheticLoad(sessions=5, user_tokens=7)
    assert parse_load("seed=0,") == SyntheticLoad(seed=0)


@pytest.mark.parametrize(
    ("text", "told"),
    [("session=5", "'session' is none of sessions, turns"), ("turns=0", "at least 1"), ("turns", "whole number")],
)
def test_a_bad_shape_is_told(text, told):
    with pytest.raises(ValueError, match=told):
        parse_load(text)
