"""What was read before is taken over, and whatever that was, the outcome is that of the whole body."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warmroute.prompts.body import Kind, read_request
from warmroute.prompts.engine_input import EARLIER, Chat, EngineInput, read_engine_input
from warmroute.prompts.fields import BadRequest, read_handover_fields
from warmroute.prompts.known_bodies import KnownBodies, engine_input
from warmroute.prompts.ladder import Ladder
from warmroute.prompts.prompt import Prompt

LADDER = Ladder.default()
TOOLS = [{"type": "function", "function": {"name": "f" * 400}}]


def outcome(read: Callable[[bytes, Kind, Ladder], Prompt], body: bytes) -> Prompt | tuple[str, str | None]:
    try:
        return read(body, "chat", LADDER)
    except BadRequest as error:
        return str(error), error.param


def read(known: KnownBodies, body: bytes) -> EngineInput | None:
    """None as well for a body that is refused, if it is refused as the same body is without all knowledge."""
    prompt = outcome(known.read, body)
    if isinstance(prompt, Prompt):
        given = engine_input(body, "chat", prompt)
        prompt.known = None
    else:
        given = None
    assert prompt == outcome(read_request, body)
    return given


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
    known = KnownBodies(1 << 24)
    messages = [say(sign) for sign in "abcdef"]
    before = read(known, encode(messages, tools=tools, tools_first=tools_first, indent=indent))
    for sign in "gh":
        messages.append(say(sign))
        body = encode(messages, tools=tools, tools_first=tools_first, indent=indent)
        after = read(known, body)
        assert after == read_engine_input(body, "chat")
        assert all(one is other for one, other in zip(messages_of(before), messages_of(after), strict=False))
        before = after


@pytest.mark.parametrize("tools", [None, [{"type": "function", "function": {"name": "f" * 3000}}]])
@pytest.mark.parametrize("parted", range(1, 120, 7))
def test_nothing_is_taken_over_from_where_two_conversations_part(parted: int, tools: list[Any] | None):
    known = KnownBodies(1 << 24)
    one = [say("a"), *(say("b", 100) for _ in range(120))]
    other = [*one[:parted], *(say("c", 100) for _ in range(120))]
    read(known, encode(one, tools=tools))
    assert messages_of(read(known, encode(other, tools=tools))) == other


def test_another_head_of_the_same_length():
    known = KnownBodies(1 << 24)
    messages = json.dumps([say(sign) for sign in "abcdef"]).encode()
    for told, meant in ((b"true ", True), (b"false", False)):
        given = read(known, b'{"add_generation_prompt":%b,"messages":%b}' % (told, messages))
        assert given is not None
        assert isinstance(given.prompt, Chat)
        assert given.prompt.add_generation_prompt is meant


def test_what_else_a_body_says_is_read_anew():
    known = KnownBodies(1 << 24)
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
        b'{"messages":%b,"messages":["EARLIER",{"role":"user","content":"other"}]}',
        b'{"m\\u0065ssages":["EARLIER",{"role":"user","content":"other"}],"x":{"messages":%b}}',
        b'{"m\\u0065ssages":["EARLIER"],"messages":%b}',
    ],
)
def test_messages_that_are_not_those_that_count(body: bytes):
    """Of duplicate keys the last one counts, and only those of the body itself."""
    known = KnownBodies(1 << 24)
    first = b'{"messages":%b}' % json.dumps([say(sign) for sign in "abcde"]).encode()
    assert read(known, first) == read_engine_input(first, "chat")
    for signs in ("abcdef", "abcdefg"):
        text = body.replace(b"EARLIER", EARLIER.encode()).replace(
            b"%b", json.dumps([say(sign) for sign in signs]).encode()
        )
        assert read(known, text) == read_engine_input(text, "chat")


def test_messages_of_another_place_are_not_those_that_count():
    """The first of two equal keys has a string where messages of the last one would end."""
    known = KnownBodies(1 << 24)
    one, two = (json.dumps([say("a", size)]).encode() for size in (40_000, 30_000))
    head = b'{"echo":true,"messages":'
    read(known, head + one + b',"messages":%b}' % two)
    assert read(known, head + one[: len(two) - 1] + b"]}") is None


def test_a_comma_after_no_message():
    """The tools are whole blocks: behind them the fingerprint could go on."""
    known = KnownBodies(1 << 24)
    body = encode([], tools=[{"name": "f" * (20 * 1024 - len('[{"name": ""}]'))}])
    read(known, body)
    assert read(known, body.replace(b'"messages": []', b'"messages": [,{"role":"user","content":"a"}]')) is None


@pytest.mark.parametrize("message", range(12))
def test_a_comma_that_is_missing_among_known_messages(message: int):
    known = KnownBodies(1 << 24)
    body = encode([say(sign, 2000) for sign in "abcdefghijklm"])
    read(known, body)
    places = [place for place in range(len(body)) if body.startswith(b"}, {", place)]
    assert read(known, body[: places[message] + 1] + b" " + body[places[message] + 2 :]) is None


@pytest.mark.parametrize("size", range(0, 9000, 500))
def test_more_tools_than_messages(size: int):
    """The last whole block of what is known may begin in the tools."""
    known = KnownBodies(1 << 24)
    tools = [{"type": "function", "function": {"name": "f" * 70_000}}]
    messages = [say("a", size)]
    for sign in "bcd":
        read(known, encode(messages, tools=tools))
        messages.append(say(sign, 3000))


def test_who_has_the_fields_already_is_told_the_same():
    known = KnownBodies(1 << 24)
    messages = [say(sign) for sign in "abcdef"]
    inputs: list[EngineInput | None] = []
    for sign in "gh":
        messages.append(say(sign))
        body = encode(messages)
        prompt = known.read(body, "chat", LADDER, read_handover_fields(body))
        inputs.append(engine_input(body, "chat", prompt))
        prompt.known = None
        assert prompt == read_request(body, "chat", LADDER)
        assert inputs[-1] == read_engine_input(body, "chat")
    before, after = map(messages_of, inputs)
    assert all(one is other for one, other in zip(before, after, strict=False))


def test_messages_that_are_too_many_or_no_text():
    """Their bodies are read as quickly, and the messages by themselves."""
    known = KnownBodies(1 << 24)
    for first in ([{}] * 20_000, [say("a", 20_000), {"role": "user", "content": [{"type": "image_url"}]}]):
        for added in (0, 1, 2):
            body = encode(first + [say("b")] * added)
            assert read(known, body) == read_engine_input(body, "chat")


@pytest.mark.parametrize("hostile", ["[]", '{"a":1}', '"ab"', "1.5"])
@pytest.mark.parametrize("turns", [1, 3])
def test_messages_of_many_small_values_take_no_more_memory_than_is_counted(hostile: str, turns: int):
    """Of an empty array, Python makes 27 times the bytes that it has as JSON."""
    known = KnownBodies(1 << 19)
    tracemalloc.start()
    try:
        for number in range(8):
            messages = [say(chr(ord("a") + number), 20_000)]
            for _ in range(turns):
                calls = json.loads(f"[{','.join([hostile] * 5_000)}]")
                messages.append({"role": "assistant", "content": "", "tool_calls": calls})
                read(known, encode(messages))
        del messages, calls
        assert tracemalloc.get_traced_memory()[0] < 1.5 * known.size_bytes
    finally:
        tracemalloc.stop()


def test_tool_calls_are_known():
    known = KnownBodies(1 << 24)
    call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"path": "/a/b", "line": 12}'}}
    turn = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "done"},
    ]
    messages = [say("a"), *turn * 100]
    before = messages_of(read(known, encode(messages)))
    after = messages_of(read(known, encode(messages + turn)))
    assert all(one is other for one, other in zip(before, after, strict=False))


def test_it_is_bounded():
    known = KnownBodies(100_000)
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
    known = KnownBodies(max_bytes)
    messages: list[Any] = [say("s", 9000)]
    for added, kept, tools, tools_first, indent in changes:
        messages = messages[: max(1, len(messages) - kept)] + added
        body = encode(messages, tools=tools, tools_first=tools_first, indent=indent)
        assert read(known, body) == read_engine_input(body, "chat")


NASTY = st.sampled_from(
    [
        b",",
        b"]",
        b"}",
        b"[",
        b'"',
        b"0",
        b".5",
        b"e5",
        b" ",
        b"\\",
        b"\x00",
        b"\xff",
        b"null",
        b"],",
        b'"x"',
        b'],"messages":[',
        b'{"messages":[',
        b'],"model":1,"x":[',
        b'],"tools":[{"role":"x"},1,',
        b'],"stream":[',
        b'"\\ud83d"',
        b'"%b",' % EARLIER.encode(),
        b'],"messages":["%b",' % EARLIER.encode(),
    ]
)
FIRST = [say("s", 9000), 12, "text", None, say("a", 9000), {"role": "user", "content": 1}, 7]


@given(
    st.lists(MESSAGES, max_size=2),
    st.lists(st.tuples(NASTY, st.integers(0, 300), st.integers(0, 3)), max_size=3),
    st.integers(0, 7),
    st.sampled_from([None, TOOLS]),
    st.booleans(),
)
@settings(deadline=None)
def test_a_body_is_refused_as_if_nothing_were_known(
    added: list[Any], edits: list[tuple[bytes, int, int]], kept: int, tools: list[Any] | None, tools_first: bool
):
    """Bytes are inserted or lost anywhere near the end of what is known, or of the body."""
    known = KnownBodies(1 << 24)
    body = encode(FIRST[:kept] or FIRST, tools=tools, tools_first=tools_first)
    read(known, body)
    place = body.rindex(b"]") if tools is None or tools_first else body.rindex(b', "tools"') - 1
    body = encode([*(FIRST[:kept] or FIRST), *added], tools=tools, tools_first=tools_first)
    for inserted, after, lost in edits:
        at = min(len(body), max(0, place - 8 + after))
        body = body[:at] + inserted + body[at + lost :]
        read(known, body)
    read(known, body)
