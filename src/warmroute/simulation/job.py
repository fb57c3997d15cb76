"""One prompt on its way through a simulated engine."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Literal

from xxhash import xxh3_64_intdigest

from warmroute.simulation.kv_cache import Hold
from warmroute.simulation.tokens import TOKEN_BYTES, answer_words

FinishReason = Literal["stop", "length", "abort", "pd_reschedule"]


class Job:
    """The core writes it; the owner reads `words` and `finish_reason`.

    `salt` separates prefixes that must not share (0: none). `spoken` answer tokens exist already: they are in `words`
    from the start, count against `max_tokens`, and are computed together with the prompt.

    A job that `receives` does not compute its prompt: once admitted it is `receiving` until its owner says that the KV
    cache has come. One that `keeps_kv` goes on to occupy its blocks after its end, until its owner lets them go.

    `notify` is called when words were added, the job ended, or began to receive.
    """

    __slots__ = (
        "_next_words",
        "blocks",
        "cached_tokens",
        "context",
        "finish_reason",
        "finishes_with",
        "hold",
        "keeps_kv",
        "max_tokens",
        "notify",
        "prompt",
        "receives",
        "receiving",
        "salt",
        "spoken",
        "words",
    )

    def __init__(
        self,
        prompt: bytes,
        max_tokens: int,
        *,
        finishes_with: FinishReason = "length",
        salt: int = 0,
        spoken: int = 0,
        receives: bool = False,
        keeps_kv: bool = False,
        notify: Callable[[], None] = lambda: None,
    ) -> None:
        self.prompt = prompt
        self.max_tokens = max_tokens
        self.finishes_with = finishes_with
        self.salt = salt
        self.spoken = spoken
        self.receives = receives
        self.receiving = False
        self.keeps_kv = keeps_kv
        self.notify = notify
        self.blocks: list[int] = []
        self.hold: Hold | None = None
        self.cached_tokens = 0
        self.finish_reason: FinishReason | None = None
        self._next_words = answer_words(xxh3_64_intdigest(prompt))
        self.words: list[str] = list(islice(self._next_words, spoken))
        self.context = prompt + "".join(self.words).encode("ascii")
        """What has to be in the KV cache before the next token can be generated."""

    @property
    def prompt_tokens(self) -> int:
        """Length of the prompt."""
        return len(self.prompt) // TOKEN_BYTES

    @property
    def context_tokens(self) -> int:
        """Length of `context`."""
        return len(self.context) // TOKEN_BYTES

    @property
    def context_hash(self) -> int:
        """Stands for the content of the KV cache of `context`."""
        return xxh3_64_intdigest(self.context, seed=self.salt)

    def add_word(self) -> None:
        """Generate one more token."""
        self.words.extend(islice(self._next_words, 1))
