"""What an engine's answer says of its prompt: the `usage` object of an OpenAI-style body, or of a stream's last event.

Engines write it behind everything that is long, so the end of an answer is enough; it is searched, not parsed.
Quotation marks inside generated text are escaped and so cannot be taken for those of a field.
"""

from __future__ import annotations

import re

USAGE_BYTES = 1024
"""So much of an answer's end is looked at: vLLM, SGLang and FastDeploy need less than half of it."""

_PROMPT = re.compile(rb'"prompt_tokens":\s*(\d{1,9})[,}\s]')
_CACHED = re.compile(rb'"cached_tokens":\s*(\d{1,9})[,}\s]')


def cached_share(end: bytes) -> tuple[int, int] | None:
    """Tokens of the prompt, and how many of them were cached, as the end of an answer tells; None if it does not."""
    at = end.rfind(b'"cached_tokens":')
    if at < 0:
        return None
    cached = _CACHED.match(end, at)
    prompt = _PROMPT.findall(end)
    if cached is None or not prompt:
        return None
    return int(prompt[-1]), int(cached[1])
