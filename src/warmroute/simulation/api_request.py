"""Reads what a client asks of the simulated engine. Pure: bytes in, a checked request or an `ApiError` out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import msgspec
from xxhash import xxh3_64_intdigest

from warmroute.simulation.api_errors import ApiError
from warmroute.simulation.job import FinishReason
from warmroute.simulation.tokens import MAX_TOKEN_ID, TOKEN_BYTES, encode_chat, encode_text, pack_ids

Kind = Literal["chat", "completions", "generate"]
"""`generate` is SGLang's own form of a completion."""

NATURAL_LENGTH = 128
"""Tokens of an answer whose request does not limit it."""


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """A request for an answer, checked. One packed prompt for each choice of the answer.

    `spoken`, `receives` and `keeps_kv` are those of its jobs.
    """

    kind: Kind
    model: str
    prompts: list[bytes]
    max_tokens: int
    finishes_with: FinishReason
    stream: bool
    include_usage: bool
    salt: int
    request_id: str | None
    spoken: int = 0
    receives: bool = False
    keeps_kv: bool = False


def read_object(body: bytes) -> dict[str, Any]:
    """The JSON object in `body`. Raises ApiError."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ApiError(f"The body is not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise ApiError("The body must be a JSON object.")
    return value


def read_generation(fields: dict[str, Any], kind: Kind, model: str, context_tokens: int) -> GenerationRequest:
    """A generation request for an engine that serves `model` and holds `context_tokens`. Raises ApiError."""
    check_model(fields, model)
    prompts = [_chat_prompt(fields)] if kind == "chat" else read_prompts(fields.get("prompt"), "prompt")
    max_tokens = _max_tokens(fields)
    room = room_for_answer(prompts, max_tokens, context_tokens)
    if typed(fields, "n", int, "an integer") not in (None, 1):
        raise ApiError("The simulated engine gives one answer a prompt: n must be 1.", param="n")
    options = typed(fields, "stream_options", dict, "an object") or {}
    salt = typed(fields, "cache_salt", str, "a string")
    return GenerationRequest(
        kind=kind,
        model=model,
        prompts=prompts,
        max_tokens=max_tokens or min(NATURAL_LENGTH, room),
        finishes_with="length" if max_tokens else "stop",
        stream=bool(typed(fields, "stream", bool, "a boolean")),
        include_usage=options.get("include_usage") is True,
        salt=xxh3_64_intdigest(salt.encode("utf-8")) if salt else 0,
        request_id=typed(fields, "request_id", str, "a string"),
    )


def room_for_answer(prompts: list[bytes], max_tokens: int | None, context_tokens: int) -> int:
    """How many tokens the longest prompt leaves for its answer. Raises ApiError when they are too few."""
    longest = max(len(prompt) // TOKEN_BYTES for prompt in prompts)
    room = context_tokens - longest
    if room < (max_tokens or 1):
        raise ApiError(
            f"The maximum context length is {context_tokens} tokens, but the prompt has {longest} "
            f"and the answer asks for {max_tokens or 1}."
        )
    return room


def check_model(fields: dict[str, Any], served: str) -> None:
    """Refuse a model that is not served. Like FastDeploy, the engine always answers to `default`."""
    model = typed(fields, "model", str, "a string")
    if model not in (None, served, "default"):
        raise ApiError(f"The model `{model}` does not exist.", param="model", status=404, kind="NotFoundError")


def read_prompts(value: object, param: str) -> list[bytes]:
    """Packed prompts of a string, a list of strings, a list of token ids, or a list of such lists."""
    if isinstance(value, str) and value:
        return [encode_text(value)]
    if isinstance(value, list) and value:
        if all(isinstance(item, str) and item for item in value):
            return [encode_text(item) for item in value]
        if _are_token_ids(value):
            return [pack_ids(value)]
        if all(isinstance(item, list) and item and _are_token_ids(item) for item in value):
            return [pack_ids(item) for item in value]
    raise ApiError(
        f"`{param}` must be a non-empty string, a list of strings, a list of token ids, or a list of such lists.",
        param=param,
    )


def _are_token_ids(items: list[Any]) -> bool:
    return all(type(item) is int and 0 <= item <= MAX_TOKEN_ID for item in items)


def read_messages(fields: dict[str, Any]) -> list[dict[str, Any]]:
    """The messages of a chat. Raises ApiError unless they are a non-empty list of messages."""
    messages = fields.get("messages")
    if not isinstance(messages, list) or not messages:
        raise ApiError("`messages` must be a non-empty list.", param="messages")
    for index, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise ApiError("Every message must be an object with a role.", param=f"messages[{index}]")
        if not isinstance(message.get("content"), str | list | None):
            raise ApiError("`content` must be a string, a list of parts, or null.", param=f"messages[{index}].content")
    return messages


def _chat_prompt(fields: dict[str, Any]) -> bytes:
    try:
        return encode_chat(read_messages(fields), fields.get("tools"))
    except RecursionError:  # the decoder goes a little deeper than the encoder
        raise ApiError("The body is nested too deeply.") from None


def _max_tokens(fields: dict[str, Any]) -> int | None:
    for name in ("max_completion_tokens", "max_tokens"):
        value = typed(fields, name, int, "an integer")
        if value is not None:
            if value < 1:
                raise ApiError(f"`{name}` must be at least 1, got {value}.", param=name)
            return int(value)
    return None


def typed(fields: dict[str, Any], name: str, kind: type, words: str) -> Any:
    """A member, None when it is missing. Raises ApiError, with the expected type in `words`, when it is of another."""
    value = fields.get(name)
    if value is not None and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
        raise ApiError(f"`{name}` must be {words}.", param=name)
    return value
