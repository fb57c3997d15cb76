"""Exact prompts: asking a tokenizer before the decision, with a deadline, and doing without it when it fails.

A remote tokenizer is FastDeploy's: POST with the text under `text`, `prompt` and `message`; the answer holds
`input_ids`, a list that is not empty. A local one runs here, longer texts in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol
from urllib.parse import urlsplit, urlunsplit

import aiohttp
import msgspec

from warmroute.fleet.client import NO_TIMER, read_answer
from warmroute.gateway.tokenizer_state import TokenizerState
from warmroute.prompts.body import Kind, read_request
from warmroute.prompts.fields import Fields
from warmroute.prompts.ladder import Ladder
from warmroute.prompts.prompt import Prompt
from warmroute.prompts.text import prompt_text, with_token_ids
from warmroute.prompts.tokenizer import LocalTokenizer, TokenizerError

# About the length at which encoding takes as long as the hop to a thread and back.
_INLINE_CHARACTERS = 2048
_THREADS = 2
_LONGEST_BODY = 1024 * 1024
"""Bytes of a body that is tokenised. Far above that, taking it apart holds up every other request."""
_LONGEST_ANSWER = 64 * 1024 * 1024


class Refiner(Protocol):
    """What makes prompts exact."""

    def read(self, body: bytes, kind: Kind, ladder: Ladder, fields: Fields | None = None, /) -> Prompt:
        """As `read_request`."""

    async def refine(self, prompt: Prompt, body: bytes, kind: Kind, ladder: Ladder, /) -> Prompt:
        """The prompt with its tokens, or as it is."""

    def close(self) -> None:
        """Give back what it holds."""


class TokenSource(Protocol):
    """Where token ids come from."""

    async def token_ids(self, text: str) -> Sequence[int]:
        """The ids of a text. TokenizerError when there are none."""

    def close(self) -> None:
        """Give back what it holds."""


class Tokenizing:
    """Makes prompts exact while its source works. A change between working and failing is logged, a request is not."""

    def __init__(self, source: TokenSource, timeout_seconds: float) -> None:
        self._source = source
        self._state = TokenizerState(timeout_seconds)

    def read(self, body: bytes, kind: Kind, ladder: Ladder, fields: Fields | None = None) -> Prompt:
        """As `read_request`."""
        return read_request(body, kind, ladder, fields)

    async def refine(self, prompt: Prompt, body: bytes, kind: Kind, ladder: Ladder) -> Prompt:
        """The prompt with its tokens; as it is when it has no text, is very long, or the tokenizer fails or is late."""
        if len(body) > _LONGEST_BODY:
            return prompt
        text = prompt_text(body, kind)
        if not text:
            return prompt
        try:
            async with asyncio.timeout(self._state.deadline):
                ids = await self._source.token_ids(text)
            refined = with_token_ids(prompt, ids, ladder)
        except (TokenizerError, TimeoutError, ValueError) as error:
            self._state.failed(error)
            return prompt
        self._state.worked()
        return refined

    def close(self) -> None:
        """Give back what the source holds."""
        self._source.close()


class _Answer(msgspec.Struct):
    input_ids: list[int]


class RemoteTokenizer:
    """A tokenizer behind a URL; `http` lends the session."""

    def __init__(self, url: str, http: Callable[[], aiohttp.ClientSession]) -> None:
        self._url = tokenize_url(url)
        self._http = http
        self._decoder = msgspec.json.Decoder(_Answer)

    async def token_ids(self, text: str) -> Sequence[int]:
        """Ask for the ids. TokenizerError for a status from 300 on, another answer, or no ids."""
        question = {"text": text, "prompt": text, "message": text}
        try:
            # The caller keeps the deadline.
            async with self._http().post(self._url, json=question, timeout=NO_TIMER, allow_redirects=False) as response:
                if response.status >= 300:
                    raise TokenizerError(f"the tokenizer answered {response.status}")
                answer = self._decoder.decode(await read_answer(response, _LONGEST_ANSWER))
        except (aiohttp.ClientError, OSError, msgspec.MsgspecError, UnicodeError) as error:
            raise TokenizerError(f"{type(error).__name__}: {error}") from error
        if not answer.input_ids:
            raise TokenizerError("the tokenizer answered no ids")
        return answer.input_ids

    def close(self) -> None:
        """The session is somebody else's."""


class LocalTokens:
    """A tokenizer in this process. Encoding leaves the interpreter lock, so threads do help."""

    def __init__(self, tokenizer: LocalTokenizer) -> None:
        self._tokenizer = tokenizer
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="tokenizer")

    async def token_ids(self, text: str) -> Sequence[int]:
        """Encode a text. TokenizerError when it is not valid Unicode."""
        if len(text) <= _INLINE_CHARACTERS:
            return self._tokenizer.encode(text)
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._tokenizer.encode, text)

    def close(self) -> None:
        """End the threads; what they are encoding is dropped when it is done."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def tokenize_url(url: str) -> str:
    """The URL to post to: `/tokenize` is appended to one without a path."""
    parts = urlsplit(url)
    return url if parts.path not in ("", "/") else urlunsplit(parts._replace(path="/tokenize"))
