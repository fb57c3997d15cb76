"""The tokens of a prompt as its engine sees them, for the exact index: made here or asked of an engine.

Always with a deadline; without tokens a prompt keeps its bytes, and the approximate index decides.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import msgspec
from msgspec.structs import replace

from warmroute.fleet.client import REQUEST_ERRORS
from warmroute.gateway.tokenizer_state import TokenizerState
from warmroute.prompts.body import Kind
from warmroute.prompts.chat_template import ChatTemplate
from warmroute.prompts.engine_input import Chat, EngineInput, Ids, Text
from warmroute.prompts.fields import Fields
from warmroute.prompts.fingerprint import pack_token_ids
from warmroute.prompts.known_bodies import KnownBodies, engine_input
from warmroute.prompts.known_words import KnownWords
from warmroute.prompts.ladder import Ladder
from warmroute.prompts.prompt import Prompt
from warmroute.prompts.token_blocks import TokenBlocks
from warmroute.prompts.token_cache import TokenCache
from warmroute.prompts.tokenizer import LocalTokenizer, TokenizerError

_LONGEST_BODY = 4 * 1024 * 1024
"""Bytes of a body that is tokenised."""
_INLINE_CHARACTERS = 2048
"""About the length at which encoding takes as long as the hop to a thread and back."""
_THREADS = 2
_CACHE_BYTES = 128 * 1024 * 1024
_BODIES_BYTES = 96 * 1024 * 1024

Ask = Callable[[str, str, bytes, float], Awaitable[tuple[int, bytes]]]


class BlockSource(Protocol):
    """Where the tokens come from."""

    async def blocks(self, given: EngineInput, prompt: Prompt, body: bytes, deadline: float) -> TokenBlocks:
        """The tokens of a chat or a text. TokenizerError when there are none, TimeoutError after `deadline` seconds.

        The source keeps the deadline, and only while it waits: a timer costs as much as encoding a short turn.
        """

    def close(self) -> None:
        """Give back what it holds."""


class ExactTokens:
    """Gives prompts their blocks, while the source works."""

    def __init__(self, source: BlockSource, timeout_seconds: float) -> None:
        self._source = source
        self._state = TokenizerState(timeout_seconds)
        self._bodies = KnownBodies(_BODIES_BYTES)

    def read(self, body: bytes, kind: Kind, ladder: Ladder, fields: Fields | None = None) -> Prompt:
        """As `read_request`; of a conversation only what is new is read."""
        return self._bodies.read(body, kind, ladder, fields)

    async def refine(self, prompt: Prompt, body: bytes, kind: Kind, ladder: Ladder) -> Prompt:
        """The prompt with its blocks and its exact length; as it is where the engine's tokens cannot be told."""
        if len(body) > _LONGEST_BODY:
            return prompt
        given = engine_input(body, kind, prompt)
        prompt.known = None  # it holds the body
        if given is None:
            return prompt
        try:
            if isinstance(given.prompt, Ids):
                blocks = TokenBlocks(pack_token_ids(given.prompt.ids), given.salt, prompt.tokens)
            else:
                blocks = await self._source.blocks(given, prompt, body, self._state.deadline)
                self._state.worked()
        except (TokenizerError, TimeoutError, ValueError) as error:
            self._state.failed(error)
            return prompt
        return replace(prompt, tokens=blocks.tokens, blocks=blocks) if blocks.tokens else prompt

    def close(self) -> None:
        """Give back what the source holds."""
        self._source.close()


class LocalBlocks:
    """A tokenizer and a chat template in this process. Of a conversation only what is new is encoded."""

    def __init__(self, tokenizer: LocalTokenizer, template: ChatTemplate) -> None:
        self._tokenizer = tokenizer
        self._words = KnownWords(tokenizer)
        self._template = template
        # Of what gets nothing put before it, as chats do, and of texts that get the tokenizer's prefix.
        self._bare = TokenCache(tokenizer, _CACHE_BYTES)
        self._prefixed = TokenCache(tokenizer, _CACHE_BYTES // 4)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="tokenizer")

    async def blocks(self, given: EngineInput, prompt: Prompt, _body: bytes, deadline: float) -> TokenBlocks:
        """Render and encode. TokenizerError when the template refuses the messages, or for text that is no Unicode."""
        asked = given.prompt
        if isinstance(asked, Chat):
            pieces, prefix = self._template.pieces(asked), None
        else:
            assert isinstance(asked, Text)  # noqa: S101 - ids need no tokenizer
            pieces, prefix = [asked.text], self._prefix(asked)
        cache = self._bare if prefix is None else self._prefixed
        work = cache.plan(pieces, prompt.fingerprint)
        if sum(map(len, work.parts)) <= _INLINE_CHARACTERS:
            ids = self._words.encode_parts(work.parts)
        else:
            loop = asyncio.get_running_loop()
            async with asyncio.timeout(deadline):
                ids = await loop.run_in_executor(self._threads, self._tokenizer.encode_parts, work.parts)
        return cache.finish(work, ids, given.salt, prompt.tokens, prefix)

    def _prefix(self, text: Text) -> array[int] | None:
        if not text.add_special_tokens:
            return None
        if self._tokenizer.prefix is None:
            raise TokenizerError("the tokenizer adds special tokens that are not at the beginning alone")
        return array("I", self._tokenizer.prefix) if self._tokenizer.prefix else None

    def close(self) -> None:
        """End the threads; what they are encoding is dropped when it is done."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class _Answer(msgspec.Struct):
    tokens: list[int]


class EngineBlocks:
    """The `/tokenize` of an engine (vLLM, SGLang), which takes the body of a request as it is.

    `engine` gives the URL of one that serves a model, None if there is none; `ask` sends it JSON: URL, path, body and
    seconds to status and answer.
    """

    def __init__(self, engine: Callable[[str | None], str | None], ask: Ask) -> None:
        self._engine = engine
        self._ask = ask
        self._decoder = msgspec.json.Decoder(_Answer)

    async def blocks(self, given: EngineInput, prompt: Prompt, body: bytes, deadline: float) -> TokenBlocks:
        """Ask. TokenizerError for any answer without tokens, ValueError for tokens that cannot be."""
        url = self._engine(prompt.model)
        if url is None:
            raise TokenizerError("no engine that could tokenise")
        async with asyncio.timeout(deadline):
            tokens = await self._tokens(url, body, deadline)
        return TokenBlocks(pack_token_ids(tokens), given.salt, prompt.tokens)

    async def _tokens(self, url: str, body: bytes, seconds: float) -> list[int]:
        try:
            status, answer = await self._ask(url, "/tokenize", body, seconds)
            if status != 200:
                raise TokenizerError(f"{url}/tokenize answered {status}")
            return self._decoder.decode(answer).tokens
        except (*REQUEST_ERRORS, msgspec.MsgspecError) as error:
            raise TokenizerError(f"{type(error).__name__}: {error}") from error

    def close(self) -> None:
        """The session is somebody else's."""
