"""The tokens of a prompt as the engine sees them: made here, asked for, or done without."""

from __future__ import annotations

import asyncio
import json
import logging
from array import array
from collections.abc import Sequence
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from warmroute.gateway.exact_tokens import EngineBlocks, ExactTokens, LocalBlocks
from warmroute.prompts.body import read_request
from warmroute.prompts.chat_template import ChatTemplate
from warmroute.prompts.engine_input import EngineInput
from warmroute.prompts.fingerprint import pack_token_ids
from warmroute.prompts.ladder import Ladder
from warmroute.prompts.prompt import Prompt
from warmroute.prompts.token_blocks import TokenBlocks
from warmroute.prompts.tokenizer import LocalTokenizer

LADDER = Ladder.default()
TEMPLATE = "{% for m in messages %}<|im|>{{ m.role }}\n{{ m.content }}\n{% endfor %}<|im|>assistant"


@pytest.fixture
def tokenizer(tmp_path: Path) -> LocalTokenizer:
    """A token for each byte; special ones are <|im|> (256) and a beginning (257)."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE({one: number for number, one in enumerate(alphabet)}, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.add_special_tokens(["<|im|>", "<|begin|>"])
    made.post_processor = processors.TemplateProcessing(single="<|begin|> $A", special_tokens=[("<|begin|>", 257)])
    made.save(str(tmp_path / "tokenizer.json"))
    return LocalTokenizer(tmp_path / "tokenizer.json")


async def refine(tokens: ExactTokens, kind: str, **body: Any) -> tuple[Prompt, Prompt]:
    raw = json.dumps(body).encode()
    prompt = read_request(raw, kind, LADDER)  # type: ignore[arg-type]
    return prompt, await tokens.refine(prompt, raw, kind, LADDER)  # type: ignore[arg-type]


def packed_of(prompt: Prompt) -> bytes:
    assert prompt.blocks is not None
    return prompt.blocks.packed


@pytest.mark.parametrize("size", [10, 5000])
async def test_a_conversation_is_rendered_and_encoded(tokenizer: LocalTokenizer, size: int):
    """Short texts at once, long ones in a thread."""
    tokens = ExactTokens(LocalBlocks(tokenizer, ChatTemplate(TEMPLATE)), 5)
    messages = [{"role": "system", "content": "s" * size}]
    for turn in range(3):
        messages.append({"role": "user", "content": f"question {turn} " * size})
        before, refined = await refine(tokens, "chat", model="m", messages=messages, cache_salt="salt")
        text = "".join(f"<|im|>{m['role']}\n{m['content']}\n" for m in messages) + "<|im|>assistant"
        assert packed_of(refined) == pack_token_ids(tokenizer.encode(text))
        assert refined.tokens == len(packed_of(refined)) // 4
        assert refined.fingerprint == before.fingerprint, "for workers whose events are not known"
        assert refined.blocks is not None
        assert refined.blocks.estimated_tokens == before.tokens
        assert list(refined.blocks.keys(16)) == list(TokenBlocks(packed_of(refined), "salt").keys(16))
        messages.append({"role": "assistant", "content": "answer " * size})
    tokens.close()


async def test_a_text_gets_what_the_engine_puts_before_it(tokenizer: LocalTokenizer):
    tokens = ExactTokens(LocalBlocks(tokenizer, ChatTemplate(TEMPLATE)), 5)
    _, with_special = await refine(tokens, "completions", prompt="abc")
    _, without = await refine(tokens, "completions", prompt="abc", add_special_tokens=False)
    assert packed_of(with_special) == pack_token_ids([257, *tokenizer.encode("abc")])
    assert packed_of(without) == pack_token_ids(tokenizer.encode("abc"))
    tokens.close()


async def test_a_text_that_grows_is_not_taken_for_one_with_other_special_tokens(tokenizer: LocalTokenizer):
    tokens = ExactTokens(LocalBlocks(tokenizer, ChatTemplate(TEMPLATE)), 5)
    text = "<|im|>word"
    for turn in range(4):
        text += " word" * 200 + "<|im|>word"
        bare = tokenizer.encode(text)
        _, refined = await refine(tokens, "completions", prompt=text, add_special_tokens=bool(turn % 2))
        assert packed_of(refined) == pack_token_ids([257, *bare] if turn % 2 else bare)
    tokens.close()


async def test_token_ids_need_no_tokenizer():
    class Never:
        async def blocks(self, given: EngineInput, prompt: Prompt, body: bytes, deadline: float) -> TokenBlocks:
            raise AssertionError

        def close(self) -> None: ...

    _, refined = await refine(ExactTokens(Never(), 5), "completions", prompt=[5, 6, 7])
    assert packed_of(refined) == pack_token_ids([5, 6, 7])


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
        {"messages": [{"role": "user", "content": "x"}], "documents": [{}]},
        {"messages": []},
    ],
)
async def test_what_cannot_be_told_stays_as_it_is(tokenizer: LocalTokenizer, body: dict[str, Any]):
    tokens = ExactTokens(LocalBlocks(tokenizer, ChatTemplate(TEMPLATE)), 5)
    prompt, refined = await refine(tokens, "chat", **body)
    assert refined is prompt
    tokens.close()


class Asked:
    """An engine's answers, and what it was asked."""

    def __init__(self, *answers: tuple[int, bytes] | Exception) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, str, bytes]] = []

    async def __call__(self, url: str, path: str, body: bytes, seconds: float) -> tuple[int, bytes]:
        self.asked.append((url, path, body))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_an_engine_is_asked_with_the_body_as_it_is():
    asked = Asked((200, b'{"count":2,"max_model_len":9,"tokens":[4,5]}'))
    tokens = ExactTokens(EngineBlocks(lambda model: f"http://{model}", asked), 5)
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "stream": True}
    _, refined = await refine(tokens, "chat", **body)
    assert packed_of(refined) == pack_token_ids([4, 5])
    assert asked.asked == [("http://m", "/tokenize", json.dumps(body).encode())]


async def test_an_engine_that_fails_is_done_without_and_told_of_once(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    good = (200, b'{"tokens":[4]}')
    failures = [(404, b""), (200, b"{}"), (200, b'{"tokens":[-1]}'), OSError("gone"), TimeoutError()]
    tokens = ExactTokens(EngineBlocks(lambda _: "http://e", Asked(*failures, good)), 5)
    for _ in failures:
        prompt, refined = await refine(tokens, "completions", prompt="abc")
        assert refined is prompt
    _, refined = await refine(tokens, "completions", prompt="abc")
    assert refined.tokens == 1
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


async def test_no_engine_and_a_late_one():
    tokens = ExactTokens(EngineBlocks(lambda _: None, Asked()), 5)
    prompt, refined = await refine(tokens, "completions", prompt="abc")
    assert refined is prompt

    async def never(url: str, path: str, body: bytes, seconds: float) -> tuple[int, bytes]:
        await asyncio.Event().wait()
        raise AssertionError

    tokens = ExactTokens(EngineBlocks(lambda _: "http://e", never), 0.01)
    prompt, refined = await refine(tokens, "completions", prompt="abc")
    assert refined is prompt


async def test_what_takes_a_thread_too_long_is_done_without(tokenizer: LocalTokenizer, monkeypatch: pytest.MonkeyPatch):
    over = Event()

    def stuck(parts: Sequence[str]) -> list[array[int]]:
        over.wait(60)
        return []

    monkeypatch.setattr(tokenizer, "encode_parts", stuck)
    tokens = ExactTokens(LocalBlocks(tokenizer, ChatTemplate(TEMPLATE)), 0.01)
    prompt, refined = await refine(tokens, "completions", prompt="a" * 10_000)
    over.set()
    assert refined is prompt
    tokens.close()
