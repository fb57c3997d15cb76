"""What the usage of an answer says of the cache, read from the answer's last bytes alone.

OpenAI's names, which vLLM, SGLang and FastDeploy use: `usage.prompt_tokens` and
`usage.prompt_tokens_details.cached_tokens` in completions and chat, `input_tokens` and `input_tokens_details` in
responses. Of an event stream the last usage counts. Text that a model wrote is inside JSON strings, where the quotes of
these names are escaped, so it is never taken for usage.
"""

from __future__ import annotations

import re
from typing import NamedTuple

CACHED_TOKENS = b'"cached_tokens"'
"""What is worth looking for before anything is parsed."""

_LONGEST_NUMBER = 9
_PROMPT = re.compile(rb'"(?:prompt|input)_tokens"\s*:\s*(\d{1,%d})\b' % _LONGEST_NUMBER)
_OUTPUT = re.compile(rb'"(?:completion|output)_tokens"\s*:\s*(\d{1,%d})\b' % _LONGEST_NUMBER)
_CACHED = re.compile(CACHED_TOKENS + rb"\s*:\s*(\d{1,%d})\b" % _LONGEST_NUMBER)


class Usage(NamedTuple):
    """Tokens of a prompt, and how many of them the engine had in its cache."""

    prompt_tokens: int
    cached_tokens: int


def read_usage(tail: bytes) -> Usage | None:
    """The last usage in the end of an answer; None if it is cut off, has no such numbers, or they cannot be."""
    start = tail.rfind(b'"usage"')
    if start < 0:
        return None
    prompt, cached = _PROMPT.search(tail, start), _CACHED.search(tail, start)
    if prompt is None or cached is None:
        return None
    usage = Usage(int(prompt[1]), int(cached[1]))
    return usage if 0 < usage.prompt_tokens >= usage.cached_tokens else None


def read_output_tokens(tail: bytes) -> int | None:
    """The tokens of the answer, by the last usage in its end; None if there is none."""
    start = tail.rfind(b'"usage"')
    written = None if start < 0 else _OUTPUT.search(tail, start)
    return None if written is None else int(written[1])
