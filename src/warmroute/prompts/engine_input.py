"""What an engine makes tokens of: read from a body as vLLM and SGLang read it, or nothing where that is not certain.

Text parts of a message are joined by a line end, and the arguments of tool calls are read as JSON, as vLLM does before
it renders its chat template. Images and the like, prompts as embeddings, batches, and options that change how a prompt
is tokenised are left to the approximate index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from warmroute.prompts.body import Kind

Json: TypeAlias = object

_UNCERTAIN = (
    "chat_template",
    "continue_final_message",
    "documents",
    "echo",
    "mm_processor_kwargs",
    "prompt_embeds",
    "suffix",
    "truncate_prompt_tokens",
)
"""With any of these (unless null or false) the tokens depend on more than is done here."""
_KEPT = ("name", "tool_call_id", "reasoning", "reasoning_content")

EARLIER = "the messages that a router has read before"
"""What stands in the place of messages that need not be read again."""

_decoder = msgspec.json.Decoder()


@dataclass(frozen=True, slots=True)
class Chat:
    """Messages for a chat template, with what it is rendered with beside them."""

    messages: list[dict[str, Json]]
    tools: list[Json] | None = None
    add_generation_prompt: bool = True
    options: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Text:
    """A text as it stands."""

    text: str
    add_special_tokens: bool = True


@dataclass(frozen=True, slots=True)
class Ids:
    """Tokens that the client has made itself."""

    ids: list[int]


@dataclass(frozen=True, slots=True)
class EngineInput:
    """One prompt, and the cache salt that it is to be kept apart by."""

    prompt: Chat | Text | Ids
    salt: str | None = None


def read_engine_input(body: bytes, kind: Kind, earlier: Sequence[dict[str, Json]] | None = None) -> EngineInput | None:
    """What the engine will tokenise; None where that cannot be told.

    `earlier` are messages of a chat that were read before: the body has EARLIER in their place.
    """
    try:
        fields = _decoder.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    if not isinstance(fields, dict) or any(fields.get(name) for name in _UNCERTAIN):
        return None
    prompt = _chat(fields, earlier) if kind == "chat" else _completion(fields) if kind == "completions" else None
    salt = fields.get("cache_salt")
    if prompt is None or not (salt is None or isinstance(salt, str)):
        return None
    return EngineInput(prompt, salt or None)


def _completion(fields: dict[str, Json]) -> Text | Ids | None:
    prompt = fields.get("prompt")
    if isinstance(prompt, str):
        return Text(prompt, fields.get("add_special_tokens") is not False)
    if isinstance(prompt, list) and prompt and all(type(one) is int for one in prompt):
        return Ids(prompt)
    return None


def _chat(fields: dict[str, Json], earlier: Sequence[dict[str, Json]] | None) -> Chat | None:
    messages, tools = fields.get("messages"), fields.get("tools")
    if not isinstance(messages, list) or not messages or fields.get("add_special_tokens"):
        return None
    if earlier is not None and messages.pop(0) != EARLIER:
        return None
    read = [_message(message) for message in messages]
    options: dict[str, Json] = {}
    if isinstance(effort := fields.get("reasoning_effort"), str):
        options["reasoning_effort"] = effort
    more = fields.get("chat_template_kwargs")
    if isinstance(more, dict):
        options |= more
    whole = [message for message in read if message is not None]
    if len(whole) < len(read) or not (tools is None or isinstance(tools, list)):
        return None
    if earlier is not None:
        whole = [*earlier, *whole]
    return Chat(whole, tools or None, fields.get("add_generation_prompt") is not False, options)


def _message(message: Json) -> dict[str, Json] | None:
    if not isinstance(message, dict):
        return None
    if len(message) == 2 and "role" in message and isinstance(message.get("content"), str):
        return message  # as almost all are
    content = _content(message.get("content"))
    if content is None:
        return None
    read: dict[str, Json] = {"role": message.get("role"), "content": content}
    read |= {name: message[name] for name in _KEPT if message.get(name) is not None}
    calls = message.get("tool_calls")
    if isinstance(calls, list) and calls:
        read["tool_calls"] = [_tool_call(call) for call in calls]
    return read


def _content(content: Json) -> str | None:
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        return None
    texts = [part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None for part in content]
    whole = [text for text in texts if isinstance(text, str)]
    return "\n".join(whole) if len(whole) == len(texts) else None


def _tool_call(call: Json) -> Json:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(call, dict) or not isinstance(function, dict) or not isinstance(function.get("arguments"), str):
        return call
    try:
        arguments = _decoder.decode(function["arguments"] or "{}")
    except (msgspec.DecodeError, RecursionError):
        return call
    return {**call, "function": {**function, "arguments": arguments}}
