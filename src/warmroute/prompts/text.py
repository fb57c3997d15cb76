"""The text of a request for a tokenizer, and the Prompt that comes of its token ids.

The text is FastDeploy's: every `messages[].content` (a string, or the items of type "text") or every string of
`prompt`, trimmed, the empty ones dropped, joined by one space. Roles, tools and images are not part of it; tools are in
the seed of the token fingerprint instead, so that prompts which differ only there do not look alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from warmroute.prompts.body import Kind
from warmroute.prompts.fields import present, read_fields
from warmroute.prompts.fingerprint import fingerprint, pack_token_ids
from warmroute.prompts.ladder import Ladder
from warmroute.prompts.prompt import Prompt


def prompt_text(body: bytes, kind: Kind) -> str:
    """The text to tokenise; "" when there is none, as for token-id prompts (which are exact already).

    For a body that `read_request` has accepted; BadRequest for one that is no JSON object.
    """
    fields = read_fields(body)
    if kind == "chat":
        texts = _message_texts(_value(fields.messages))
    elif kind == "completions":
        texts = _texts(_value(fields.prompt))
    else:
        present_names = (fields.messages, fields.prompt, fields.input, fields.text)
        texts = (text for raw in present_names for text in (*_message_texts(_value(raw)), *_texts(_value(raw))))
    return " ".join(filter(None, (text.strip() for text in texts)))


def with_token_ids(prompt: Prompt, ids: Sequence[int], ladder: Ladder) -> Prompt:
    """The same prompt with its exact length and a fingerprint of its tokens. ValueError for ids that cannot be."""
    return replace(prompt, tokens=len(ids), fingerprint=fingerprint(pack_token_ids(ids), ladder, prompt.seed))


def _value(raw: Raw) -> Any:
    """A field as Python objects; None when it is absent or is no valid UTF-8 (the engine will refuse it)."""
    view = present(raw)
    if view is None:
        return None
    try:
        return msgspec.json.decode(view)
    except (msgspec.DecodeError, RecursionError):
        return None


def _message_texts(messages: Any) -> Iterator[str]:
    for message in messages if isinstance(messages, list) else ():
        content = message.get("content") if isinstance(message, dict) else None
        if isinstance(content, str):
            yield content
        for part in content if isinstance(content, list) else ():
            if isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str):
                yield part["text"]


def _texts(prompt: Any) -> Iterator[str]:
    if isinstance(prompt, str):
        yield prompt
    for text in prompt if isinstance(prompt, list) else ():
        if isinstance(text, str):
            yield text
