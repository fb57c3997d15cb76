"""Exact prompts from a tokenizer, and doing without it."""

import asyncio
import logging
from collections.abc import Sequence

import aiohttp
import pytest
from aiohttp import web

from warmroute.gateway.tokenizing import LocalTokens, RemoteTokenizer, Tokenizing, tokenize_url
from warmroute.prompts.body import read_request
from warmroute.prompts.ladder import Ladder
from warmroute.prompts.tokenizer import LocalTokenizer, TokenizerError

LADDER = Ladder.default()
BODY = b'{"messages":[{"content":" a b "},{"content":"c"}]}'


class Scripted:
    """Gives one scripted result after the other."""

    def __init__(self, *results: Sequence[int] | Exception) -> None:
        self.results = list(results)
        self.texts: list[str] = []

    async def token_ids(self, text: str) -> Sequence[int]:
        self.texts.append(text)
        result = self.results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result

    def close(self) -> None:
        self.results.clear()


async def test_a_prompt_gets_exact_tokens():
    source = Scripted(range(200))
    prompt = read_request(BODY, "chat", LADDER)
    refined = await Tokenizing(source, 1).refine(prompt, BODY, "chat", LADDER)
    assert source.texts == ["a b c"]
    assert refined.tokens == 200
    assert len(refined.fingerprint) == 3


async def test_failures_keep_the_prompt_and_are_logged_once(caplog):
    caplog.set_level(logging.INFO)
    source = Scripted(TokenizerError("down"), TokenizerError("down"), ValueError("no token id"), [1], [1])
    tokenizing = Tokenizing(source, 1)
    prompt = read_request(BODY, "chat", LADDER)
    tokens = [(await tokenizing.refine(prompt, BODY, "chat", LADDER)).tokens for _ in range(5)]
    assert tokens == [prompt.tokens] * 3 + [1, 1]
    assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]


async def test_a_prompt_without_text_is_not_asked_for():
    body = b'{"prompt":[1,2,3]}'
    prompt = read_request(body, "completions", LADDER)
    assert await Tokenizing(Scripted(), 1).refine(prompt, body, "completions", LADDER) is prompt


@pytest.mark.parametrize(("characters", "asked"), [(1_000_000, 1), (1_100_000, 0)])
async def test_a_very_long_body_is_not_taken_apart(characters, asked):
    body = b'{"prompt":"%b"}' % (b"x" * characters)
    source = Scripted([1])
    prompt = read_request(body, "completions", LADDER)
    refined = await Tokenizing(source, 1).refine(prompt, body, "completions", LADDER)
    assert len(source.texts) == asked
    assert refined.tokens == (1 if asked else characters // 4)


@pytest.fixture
async def remote():
    """A tokenizer at a URL, its next answer and what it was asked."""
    asked, answers = [], []

    async def tokenize(request: web.Request) -> web.Response:
        asked.append(await request.json())
        status, body = answers.pop(0)
        return web.Response(status=status, body=body)

    async def in_pieces(request: web.Request) -> web.StreamResponse:
        """The answer as it comes over a network: not in one read."""
        response = web.StreamResponse()
        await response.prepare(request)
        for piece in answers.pop(0):
            await response.write(piece)
            await asyncio.sleep(0.02)
        return response

    async def elsewhere(request: web.Request) -> web.Response:
        raise web.HTTPTemporaryRedirect("/tokenize")

    app = web.Application()
    app.router.add_post("/tokenize", tokenize)
    app.router.add_post("/in-pieces", in_pieces)
    app.router.add_post("/elsewhere", elsewhere)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(sock_read=0.01)) as session:
        host, port = runner.addresses[0]

        def at(path: str = "") -> RemoteTokenizer:
            return RemoteTokenizer(f"http://{host}:{port}{path}", lambda: session)

        yield at, answers, asked
    await runner.cleanup()


async def test_a_remote_tokenizer(remote):
    at, answers, asked = remote
    answers.append((200, b'{"input_ids":[3,1,2],"count":3}'))
    assert list(await at().token_ids("hello")) == [3, 1, 2]
    assert asked == [{"text": "hello", "prompt": "hello", "message": "hello"}]


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (300, b'{"input_ids":[1]}'),
        (500, b""),
        (200, b'{"input_ids":[]}'),
        (200, b"{}"),
        (200, b'{"input_ids":["a"]}'),
        (200, b"\xff"),
    ],
)
async def test_a_remote_tokenizer_that_fails(remote, status, body):
    at, answers, _ = remote
    answers.append((status, body))
    with pytest.raises(TokenizerError):
        await at().token_ids("hello")


async def test_an_answer_may_come_in_pieces(remote):
    at, answers, _ = remote
    answers.append((b'{"input_ids":[3,', b"1,2]", b"}"))
    assert list(await at("/in-pieces").token_ids("hello")) == [3, 1, 2]


async def test_a_redirect_is_no_answer(remote):
    at, answers, asked = remote
    answers.append((200, b'{"input_ids":[1]}'))
    with pytest.raises(TokenizerError, match="307"):
        await at("/elsewhere").token_ids("hello")
    assert asked == []


async def test_the_one_deadline_is_the_callers(remote):
    """The session's own timer would cut off what the configuration allows."""
    at, answers, _ = remote
    answers.append((b'{"input_ids":[3,1,2]', b"}"))
    assert list(await at("/in-pieces").token_ids("hello")) == [3, 1, 2]


async def test_a_remote_tokenizer_that_is_not_there():
    async with aiohttp.ClientSession() as session:
        with pytest.raises(TokenizerError):
            await RemoteTokenizer("http://127.0.0.1:1", lambda: session).token_ids("hello")


@pytest.mark.parametrize("words", [3, 3000])
async def test_a_local_tokenizer(tmp_path, words):
    """Short texts are encoded at once, long ones in a thread; both give the same ids."""
    path = tmp_path / "tokenizer.json"
    path.write_text(
        '{"version":"1.0","model":{"type":"WordLevel","vocab":{"a":7,"?":0},"unk_token":"?"},'
        '"pre_tokenizer":{"type":"Whitespace"},"truncation":null,"padding":null,"added_tokens":[],'
        '"normalizer":null,"post_processor":null,"decoder":null}'
    )
    tokens = LocalTokens(LocalTokenizer(path))
    assert await tokens.token_ids("a " * words) == [7] * words
    tokens.close()


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://a:1", "http://a:1/tokenize"),
        ("http://a:1/", "http://a:1/tokenize"),
        ("http://a:1/v1/tok", "http://a:1/v1/tok"),
        ("http://a:1?x=y", "http://a:1/tokenize?x=y"),
    ],
)
def test_tokenize_url(url, expected):
    assert tokenize_url(url) == expected
