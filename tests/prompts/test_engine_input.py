"""What an engine makes tokens of, and what is not certain enough to be told."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmroute.prompts.engine_input import Chat, EngineInput, Ids, Text, read_engine_input

USER = {"role": "user", "content": "hi"}


def read(kind: str, **body: Any) -> EngineInput | None:
    return read_engine_input(json.dumps(body).encode(), kind)  # type: ignore[arg-type]


def chat(**body: Any) -> Chat:
    given = read("chat", **{"messages": [USER], **body})
    assert given is not None
    assert isinstance(given.prompt, Chat)
    return given.prompt


def test_completions():
    assert read("completions", prompt="text") == EngineInput(Text("text"))
    assert read("completions", prompt="text", add_special_tokens=False) == EngineInput(Text("text", False))
    assert read("completions", prompt=[1, 2], cache_salt="s") == EngineInput(Ids([1, 2]), "s")


def test_a_chat():
    assert chat() == Chat([USER])
    tools = [{"type": "function", "function": {"name": "f"}}]
    assert chat(tools=tools, add_generation_prompt=False, stream=True) == Chat([USER], tools, False)
    assert chat(tools=[], chat_template_kwargs={"thinking": False}, reasoning_effort="low").options == {
        "thinking": False,
        "reasoning_effort": "low",
    }


def test_text_parts_are_joined_by_line_ends():
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    assert chat(messages=[{"role": "user", "content": parts}]).messages[0]["content"] == "one\ntwo"
    assert chat(messages=[{"role": "assistant", "content": None}]).messages[0]["content"] == ""


def test_what_else_a_message_says_is_kept():
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": [1]}'}}
    broken = {"id": "2", "type": "function", "function": {"name": "g", "arguments": "{"}}
    message = {"role": "assistant", "tool_calls": [call, broken], "reasoning": "hm", "unknown": 1}
    answer = {"role": "tool", "tool_call_id": "1", "content": "ok"}
    read_message, read_answer = chat(messages=[message, answer]).messages
    assert read_message == {
        "role": "assistant",
        "content": "",
        "reasoning": "hm",
        "tool_calls": [{**call, "function": {"name": "f", "arguments": {"a": [1]}}}, broken],
    }
    assert read_answer == answer


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("chat", {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u"}}]}]}),
        ("chat", {"messages": [{"role": "user", "content": 7}]}),
        ("chat", {"messages": ["hi"]}),
        ("chat", {"messages": []}),
        ("chat", {"messages": None}),
        ("chat", {"messages": [USER], "chat_template": "{{ x }}"}),
        ("chat", {"messages": [USER], "continue_final_message": True}),
        ("chat", {"messages": [USER], "documents": [{"text": "t"}]}),
        ("chat", {"messages": [USER], "add_special_tokens": True}),
        ("chat", {"messages": [USER], "tools": "none"}),
        ("chat", {"messages": [USER], "cache_salt": 3}),
        ("completions", {"prompt": ["a", "b"]}),
        ("completions", {"prompt": [[1, 2]]}),
        ("completions", {"prompt": []}),
        ("completions", {"prompt": [True]}),
        ("completions", {"prompt": "a", "truncate_prompt_tokens": 5}),
        ("completions", {"prompt": "a", "suffix": "b"}),
        ("completions", {}),
        ("other", {"prompt": "a"}),
    ],
)
def test_what_cannot_be_told(kind: str, body: dict[str, Any]):
    assert read(kind, **body) is None


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"prompt":"\xff"}', b'{"prompt":' + b"[" * 5000])
def test_what_is_no_body(body: bytes):
    assert read_engine_input(body, "completions") is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["role", "content", "type", "text", "tool_calls", "function"]), inner)
    ),
    max_leaves=10,
)


@given(JSON, JSON)
def test_any_shape_is_read_or_left(messages: Any, tools: Any):
    given_chat = read("chat", messages=messages, tools=tools)
    assert given_chat is None or isinstance(given_chat.prompt, Chat)
