"""Messages that were read before are taken over, and whatever was read before, the outcome is that of the body."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warmroute.prompts.body import read_request
from warmroute.prompts.engine_input import Chat, EngineInput, read_engine_input
from warmroute.prompts.known_messages import KnownMessages
from warmroute.prompts.ladder import Ladder

LADDER = Ladder.default()
TOOLS = [{"type": "function", "function": {"name": "f" * 400}}]


def read(known: KnownMessages, body: bytes) -> EngineInput | None:
    return known.read(body, "chat", read_request(body, "chat", LADDER).fingerprint, LADDER)


def encode(messages: list[Any], *, tools_first: bool = True, indent: int | None = None, **more: Any) -> bytes:
    tools = more.pop("tools", None)
    body: dict[str, Any] = {"model": "m"}
    if tools is not None and tools_first:
        body["tools"] = tools
    body |= {"messages": messages, **more}
    if tools is not None:
        body["tools"] = tools
    return json.dumps(body, indent=indent).encode()


def say(sign: str, size: int = 4000) -> dict[str, str]:
    return {"role": "user", "content": sign * size}


def messages_of(given: EngineInput | None) -> list[dict[str, Any]]:
    assert given is not None
    assert isinstance(given.prompt, Chat)
    return given.prompt.messages


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("tools", [None, TOOLS])
@pytest.mark.parametrize("tools_first", [True, False])
def test_of_a_grown_conversation_only_what_is_new_is_read(
    indent: int | None, tools: list[Any] | None, tools_first: bool
):
    known = KnownMessages(1 << 24)
    messages = [say(sign) for sign in "abcdef"]
    before = read(known, encode(messages, tools=tools, tools_first=tools_first, indent=indent))
    for sign in "gh":
        messages.append(say(sign))
        body = encode(messages, tools=tools, tools_first=tools_first, indent=indent)
        after = read(known, body)
        assert after == read_engine_input(body, "chat")
        taken_over = [one is other for one, other in zip(messages_of(before), messages_of(after), strict=False)]
        # Of the last one too little is known: its end may lie behind the last whole block.
        assert all(taken_over[:-1])
        before = after


@pytest.mark.parametrize("tools", [None, [{"type": "function", "function": {"name": "f" * 3000}}]])
@pytest.mark.parametrize("parted", range(1, 120, 7))
def test_nothing_is_taken_over_from_where_two_conversations_part(parted: int, tools: list[Any] | None):
    known = KnownMessages(1 << 24)
    one = [say("a"), *(say("b", 100) for _ in range(120))]
    other = [*one[:parted], *(say("c", 100) for _ in range(120))]
    read(known, encode(one, tools=tools))
    assert messages_of(read(known, encode(other, tools=tools))) == other


def test_another_head_of_the_same_length():
    known = KnownMessages(1 << 24)
    messages = json.dumps([say(sign) for sign in "abcdef"]).encode()
    for told, meant in ((b"true ", True), (b"false", False)):
        given = read(known, b'{"add_generation_prompt":%b,"messages":%b}' % (told, messages))
        assert given is not None
        assert isinstance(given.prompt, Chat)
        assert given.prompt.add_generation_prompt is meant


def test_what_else_a_body_says_is_read_anew():
    known = KnownMessages(1 << 24)
    messages = [say(sign) for sign in "abcdef"]
    read(known, encode(messages))
    given = read(known, encode(messages, cache_salt="s", add_generation_prompt=False))
    assert given == EngineInput(Chat(messages, add_generation_prompt=False), "s")
    assert read(known, encode(messages, echo=True)) is None


@pytest.mark.parametrize(
    "body",
    [
        b'{"messages":%b,"messages":[]}',
        b'{"messages":%b,"messages":[{"role":"user","content":"other"}]}',
        b'{"x":{"messages":%b},"messages":%b}',
        b'{"x":{"messages":%b},"messages":[{"role":"user","content":"other"}]}',
        b'{"m\\u0065ssages":%b}',
        b'{"x":"\\"messages\\":","messages":%b}',
    ],
)
def test_messages_that_are_not_those_that_count(body: bytes):
    """Of duplicate keys the last one counts, and only those of the body itself."""
    known = KnownMessages(1 << 24)
    first = b'{"messages":%b}' % json.dumps([say(sign) for sign in "abcde"]).encode()
    assert read(known, first) == read_engine_input(first, "chat")
    for signs in ("abcdef", "abcdefg"):
        text = body.replace(b"%b", json.dumps([say(sign) for sign in signs]).encode())
        assert read(known, text) == read_engine_input(text, "chat")


def test_it_is_bounded():
    known = KnownMessages(100_000)
    for number in range(20):
        read(known, encode([say(f"{number} "), say("x"), say("y")]))
        assert known.size_bytes <= 100_000
    assert known.size_bytes > 50_000


MESSAGES = st.sampled_from(
    [
        say("a"),
        say("b", 300),
        say("é", 5000),
        {"role": "user", "content": [{"type": "text", "text": "c" * 9000}]},
        {"role": "assistant", "content": None, "tool_calls": [{"function": {"arguments": '{"q": [1]}'}}]},
        {"role": "user", "content": [{"type": "image_url"}]},
        "no message",
        0,
    ]
)


@given(
    st.lists(
        st.tuples(
            st.lists(MESSAGES, max_size=6),
            st.integers(0, 6),
            st.sampled_from([None, [], TOOLS]),
            st.booleans(),
            st.sampled_from([None, 1]),
        ),
        max_size=7,
    ),
    st.sampled_from([50_000, 1 << 24]),
)
@settings(deadline=None)
def test_whatever_was_read_before_the_outcome_is_that_of_the_body(changes: list[Any], max_bytes: int):
    known = KnownMessages(max_bytes)
    messages: list[Any] = [say("s", 9000)]
    for added, kept, tools, tools_first, indent in changes:
        messages = messages[: max(1, len(messages) - kept)] + added
        body = encode(messages, tools=tools, tools_first=tools_first, indent=indent)
        assert read(known, body) == read_engine_input(body, "chat")
