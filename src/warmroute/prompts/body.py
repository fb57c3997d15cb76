"""From a request body to a Prompt, in one pass; the body itself is never re-encoded.

The fingerprint covers the bytes that decide the KV cache, in the order in which chat templates place them. What changes
the cache without being prompt text (model, salt, template options) is the seed of the chain and counts no tokens; tools
and then messages, or the prompt, are the chain. Equal fingerprints therefore mean equal prefixes, as far as bytes tell;
another order of keys or other white space only costs a match.

What is missing or null, and whatever stands inside `messages` and `prompt`, is the engine's to judge.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec
from msgspec import Raw

from warmroute.prompts.fields import (
    BRACKET,
    MISSING,
    QUOTE,
    BadRequest,
    Fields,
    present,
    read_boolean,
    read_cap,
    read_fields,
    read_id,
    read_session_id,
    read_string,
    wrong_type,
)
from warmroute.prompts.fingerprint import chain_seed, fingerprint, pack_token_ids
from warmroute.prompts.ladder import BYTES_PER_TOKEN, Ladder
from warmroute.prompts.prompt import Prompt

__all__ = ["BadRequest", "Kind", "read_request"]

Kind = Literal["chat", "completions", "other"]
"""The family of an inference path; "other" is whatever is only balanced (embeddings, responses, rerank, ...)."""

_Bytes: TypeAlias = bytes | memoryview
_SPACES = b" \t\n\r"
_LONGEST_BATCH = 8 * 1024 * 1024
_MOST_PROMPTS = 4096
_MOST_TOKEN_IDS = 1024 * 1024
"""How much of a prompt array is taken apart: bytes, prompts of a batch, token ids (a million need about 7 MB of JSON).
A larger one is covered as plain bytes: nothing else runs while a few MB of empty lists become millions of objects."""

_string_list = msgspec.json.Decoder(list[str])
_raw_list = msgspec.json.Decoder(list[Raw])
_id_list = msgspec.json.Decoder(list[int])
_id_lists = msgspec.json.Decoder(list[list[int]])


def read_request(body: bytes, kind: Kind, ladder: Ladder, fields: Fields | None = None) -> Prompt:
    """Read one body. BadRequest for bad JSON, no object, or a wrong type of a field that the router reads.

    Whoever has split the body into its fields already, saves the scan.
    """
    if fields is None:
        fields = read_fields(body)
    # Most fields of most requests are absent, and those cost no call here.
    model = None if fields.model is MISSING else read_string(fields.model, "model")
    stream = fields.stream is not MISSING and read_boolean(fields.stream, "stream")
    max_tokens = None
    if kind != "other":
        if fields.max_tokens is not MISSING:
            max_tokens = read_cap(fields.max_tokens, "max_tokens")
        if fields.max_completion_tokens is not MISSING:
            newer_name = read_cap(fields.max_completion_tokens, "max_completion_tokens")
            max_tokens = max_tokens if newer_name is None else newer_name
    covered, size = _COVERED[kind](fields)
    seed = tools_seed = _seed(fields, kind)
    if fields.tools is not MISSING and present(fields.tools) is not None:
        tools_seed = chain_seed((seed.to_bytes(8, "little"), fields.tools))
    return Prompt(
        -(-size // BYTES_PER_TOKEN),
        fingerprint(covered, ladder, seed),
        model,
        stream,
        max_tokens,
        None if fields.request_id is MISSING else read_id(fields.request_id),
        None if fields.session_id is fields.extra_body is MISSING else read_session_id(fields),
        tools_seed,
    )


def _seed(fields: Fields, kind: Kind) -> int:
    """One hash of what changes the cache but is no prompt text. Paths that are only balanced match nothing of chat."""
    return chain_seed(
        (
            b"other" if kind == "other" else b"",
            fields.model,
            fields.cache_salt,
            fields.chat_template,
            fields.chat_template_kwargs,
            fields.reasoning_effort,
            fields.documents,
        )
    )


def _cover_chat(fields: Fields) -> tuple[_Bytes, int]:
    """Tools, then the messages without what closes their array, so that a grown conversation keeps its prefix."""
    messages = present(fields.messages)
    tools = None if fields.tools is MISSING else present(fields.tools)
    covered: _Bytes = b"" if tools is None else tools
    if messages is not None:
        if messages[0] != BRACKET:
            raise wrong_type("messages", "an array", messages)
        covered = open_ended(messages) if tools is None else b"".join((tools, open_ended(messages)))
    return covered, len(covered)


def _cover_completion(fields: Fields) -> tuple[_Bytes, int]:
    """The prompt: text without its quotes, or packed token ids; of a batch the first, with the size of all."""
    prompt = present(fields.prompt)
    if prompt is None:
        return b"", 0
    if prompt[0] == QUOTE:
        return prompt[1:-1], len(prompt) - 2
    if prompt[0] != BRACKET:
        raise wrong_type("prompt", "a string or an array", prompt)
    try:
        return _cover_batch(prompt)
    except ValueError:
        covered = open_ended(prompt)
        return covered, len(covered)


def _cover_batch(prompt: memoryview) -> tuple[_Bytes, int]:
    """Strings, token ids or lists of token ids. ValueError (msgspec's errors are some) for any other array."""
    if len(prompt) > _LONGEST_BATCH:
        raise ValueError("too long to be taken apart")
    text = bytes(prompt)
    first = text[1:64].lstrip(_SPACES)[:1]
    if first == b'"':
        if text.count(b'"') > 2 * _MOST_PROMPTS:
            raise ValueError("may be too many to be taken apart")
        _string_list.decode(text)  # Fails at the first that is none, before others become objects.
        texts = _raw_list.decode(prompt)
        return memoryview(texts[0])[1:-1], sum(map(len, texts)) - 2 * len(texts)
    if text.count(b",") >= _MOST_TOKEN_IDS or text.count(b"[") > _MOST_PROMPTS:
        raise ValueError("too many to be taken apart")
    if first == b"[":
        batch = [pack_token_ids(ids) for ids in _id_lists.decode(prompt)]
        return batch[0], sum(map(len, batch))
    packed = pack_token_ids(_id_list.decode(prompt))
    return packed, len(packed)


def _cover_other(fields: Fields) -> tuple[_Bytes, int]:
    """Whatever these paths call their prompt, in template order, as raw JSON."""
    candidates = (
        fields.tools,
        fields.system,
        fields.instructions,
        fields.query,
        fields.documents,
        fields.messages,
        fields.prompt,
        fields.input,
        fields.text,
    )
    views = [view for view in map(present, candidates) if view is not None]
    if views:
        views[-1] = open_ended(views[-1])
    covered = b"".join(views)
    return covered, len(covered)


def open_ended(view: memoryview) -> memoryview:
    """A JSON text without the bracket or quote that closes it and the white space before that."""
    if view[-1] not in b']}"':
        return view
    end = len(view) - 1
    while end and view[end - 1] in _SPACES:
        end -= 1
    return view[:end]


_COVERED = {"chat": _cover_chat, "completions": _cover_completion, "other": _cover_other}
