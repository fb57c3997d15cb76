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
from warmroute.prompts.fields import BRACKET, MISSING, QUOTE, present, read_fields
from warmroute.prompts.fingerprint import fingerprint, pack_token_ids
from warmroute.prompts.ladder import Ladder
from warmroute.prompts.prompt import Prompt


class _Message(msgspec.Struct, gc=False, frozen=True):
    content: Raw = MISSING


class _Part(msgspec.Struct, gc=False, frozen=True):
    type: Any = None
    text: Any = None


# Only what is needed becomes an object: as plain Python data, a MB of empty messages takes several times as long.
_messages = msgspec.json.Decoder(list[_Message])
_parts = msgspec.json.Decoder(list[_Part])
_string = msgspec.json.Decoder(str)
_strings = msgspec.json.Decoder(list[str])


def prompt_text(body: bytes, kind: Kind) -> str:
    """The text to tokenise: of the messages of a chat, else of the prompt.

    "" when there is none, as for token-id prompts (which are exact already), and for what engines refuse (messages that
    are no objects, strings and other types mixed).

    For a body that `read_request` has accepted; BadRequest for one that is no JSON object.
    """
    fields = read_fields(body)
    try:
        texts = list(_message_texts(fields.messages) if kind == "chat" else _prompt_texts(fields.prompt))
    except (msgspec.DecodeError, RecursionError):
        return ""  # Not valid UTF-8, or of another shape: the engine will refuse it.
    return " ".join(filter(None, (text.strip() for text in texts)))


def with_token_ids(prompt: Prompt, ids: Sequence[int], ladder: Ladder) -> Prompt:
    """The same prompt with its exact length and a fingerprint of its tokens. ValueError for ids that cannot be."""
    return replace(prompt, tokens=len(ids), fingerprint=fingerprint(pack_token_ids(ids), ladder, prompt.seed))


def _message_texts(messages: Raw) -> Iterator[str]:
    view = present(messages)
    for message in () if view is None or view[0] != BRACKET else _messages.decode(view):
        content = present(message.content)
        if content is None:
            continue
        if content[0] == QUOTE:
            yield _string.decode(content)
        elif content[0] == BRACKET:
            for part in _parts.decode(content):
                if part.type == "text" and isinstance(part.text, str):
                    yield part.text


def _prompt_texts(prompt: Raw) -> Iterator[str]:
    view = present(prompt)
    if view is None:
        return
    if view[0] == QUOTE:
        yield _string.decode(view)
    elif view[0] == BRACKET and bytes(view[1:64]).lstrip()[:1] == b'"':
        yield from _strings.decode(view)
