"""Takes an answer stream apart: chunks of bytes in, and out comes what a load generator wants to know."""

from __future__ import annotations

from typing import Any

import msgspec


class StreamReader:
    """Feed it the body of a streamed answer. It knows when the first token came, the usage, and how the stream ended.

    Events are decoded only until the first token and where they can hold usage or an error, unless `keep_text` is set.
    """

    def __init__(self, *, keep_text: bool) -> None:
        self.started = False
        self.done = False
        self.failed = False
        self.usage: dict[str, Any] = {}
        self.token_events = 0
        self._keep_text = keep_text
        self._texts: list[str] = []
        self._rest = b""

    @property
    def text(self) -> str:
        """The text of the first choice so far (nothing unless `keep_text`)."""
        return "".join(self._texts)

    def feed(self, chunk: bytes) -> None:
        """Take the next piece of the body, cut anywhere."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                self._event(line[5:].strip())
            elif line.startswith(b"event: error"):
                self.failed = True

    def _event(self, data: bytes) -> None:
        if data == b"[DONE]":
            self.done = True
            return
        self.token_events += self.started
        if self.started and not self._keep_text and b'"usage"' not in data and b'"error"' not in data:
            return
        try:
            event = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            event = None
        if not isinstance(event, dict) or event.get("error"):
            self.failed = True
            return
        self.usage = event.get("usage") or self.usage
        text = _event_text(event)
        if text is not None:
            self.token_events += not self.started
            self.started = True
            self._texts.append(text)


def _event_text(event: dict[str, Any]) -> str | None:
    """Text of the first choice; "" for tokens that are not text, None when the event holds no token."""
    choices = event.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return None
    choice = choices[0]
    delta = choice.get("delta") or {}
    text = choice.get("text") or delta.get("content")
    if isinstance(text, str) and text:
        return text
    return "" if delta.get("tool_calls") or delta.get("reasoning_content") or delta.get("reasoning") else None
