"""A process of mock engines: as little work per request as an answer on the wire can cost.

    python -m benchmarks.mock_worker --workers 4 --cache-tokens 500000

prints the ports that it listens on as one JSON list and serves until it is killed. A chat request gets a fixed answer:
JSON, or an event stream of `CHUNKS` tokens with a write for each, `TOKEN_SECONDS` apart. The other paths are what the
routers ask a worker for before they use it.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import sys

import uvloop

CHUNKS = 64
TOKEN_SECONDS = 0.005
_GOLDEN = 0.618


def _head(content_type: str, framing: str, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\n{framing}\r\n\r\n".encode()


def _whole(body: bytes, content_type: str = "application/json") -> bytes:
    return _head(content_type, f"content-length: {len(body)}") + body


def _answer() -> bytes:
    message = {"role": "assistant", "content": "word " * CHUNKS}
    usage = {
        "prompt_tokens": 256,
        "completion_tokens": CHUNKS,
        "total_tokens": 256 + CHUNKS,
        "prompt_tokens_details": None,
    }
    choice = {"index": 0, "message": message, "finish_reason": "length"}
    answer = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "tiny",
        "choices": [choice],
        "usage": usage,
    }
    return json.dumps(answer).encode()


def _event(delta: dict[str, str], finish_reason: str | None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "tiny", "choices": [choice]}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def _framed(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


ANSWER = _answer()
_TOKEN = _event({"content": "word "}, None)
_LAST = _event({"content": "word "}, "length") + b"data: [DONE]\n\n"
STREAM_BYTES = len(_TOKEN) * (CHUNKS - 1) + len(_LAST)
"""Length of a streamed answer's body without its framing."""

_ANSWER_BYTES = _whole(ANSWER)
_STREAM_HEAD = _head("text/event-stream", "transfer-encoding: chunked")
_TOKEN_BYTES = _framed(_TOKEN)
_LAST_BYTES = _framed(_LAST) + b"0\r\n\r\n"


def _pages(cache_tokens: int) -> dict[bytes, bytes]:
    """Answers to GET, by path; the model path does not exist, so that nobody tries to load a tokenizer for it."""
    model = {"id": "tiny", "object": "model", "created": 1, "owned_by": "vllm", "root": "/none/tiny"}
    server = {"model_path": "/none/tiny", "served_model_name": "tiny", "tp_size": 1, "dp_size": 1}
    info = {"model_path": "/none/tiny", "served_model_name": "tiny", "is_generation": True}
    labels = 'engine="0",model_name="tiny"'
    gauges = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")
    config = f'block_size="16",engine="0",kv_cache_size_tokens="{cache_tokens}",num_gpu_blocks="{cache_tokens // 16}"'
    metrics = "".join(f"vllm:{name}{{{labels}}} 0.0\n" for name in gauges) + f"vllm:cache_config_info{{{config}}} 1.0\n"
    as_json: dict[str, object] = {"/v1/models": {"object": "list", "data": [model]}, "/health": {}}
    as_json |= {"/server_info": server, "/get_server_info": server, "/model_info": info, "/get_model_info": info}
    pages = {path.encode(): _whole(json.dumps(page).encode()) for path, page in as_json.items()}
    return pages | {b"/metrics": _whole(metrics.encode(), "text/plain; version=0.0.4")}


class MockWorker(asyncio.Protocol):
    """One connection. Understands requests with a content-length, one after the other."""

    def __init__(self, pages: dict[bytes, bytes], phases: itertools.count[int]) -> None:
        self._pages = pages
        self._phases = phases
        self._buffer = bytearray()
        self._wanted = 0
        self._chunks_left = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Called by the event loop."""
        self._transport = transport
        self._loop = asyncio.get_running_loop()

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        self._buffer += data
        if not self._wanted:
            head_end = self._buffer.find(b"\r\n\r\n") + 4
            if head_end < 4:
                return
            self._wanted = head_end + _content_length(bytes(self._buffer[:head_end]).lower())
        if len(self._buffer) >= self._wanted:
            self._respond(self._buffer)
            self._buffer = bytearray()
            self._wanted = 0

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop."""
        self._chunks_left = 0

    def _respond(self, request: bytearray) -> None:
        if not request.startswith(b"POST"):
            path = bytes(request.split(b" ", 2)[1].split(b"?")[0])
            self._transport.write(self._pages.get(path) or _head("text/plain", "content-length: 0", "404 Not Found"))
        elif b'"stream":true' in request:
            self._transport.write(_STREAM_HEAD)
            self._chunks_left = CHUNKS
            # Streams that begin together must not tick together: a router would get many of them with one wake-up.
            self._loop.call_later(TOKEN_SECONDS * (next(self._phases) * _GOLDEN % 1), self._next_token)
        else:
            self._transport.write(_ANSWER_BYTES)

    def _next_token(self) -> None:
        if self._chunks_left > 1:
            self._chunks_left -= 1
            self._transport.write(_TOKEN_BYTES)
            self._loop.call_later(TOKEN_SECONDS, self._next_token)
        elif self._chunks_left:
            self._chunks_left = 0
            self._transport.write(_LAST_BYTES)


def _content_length(head: bytes) -> int:
    _, found, rest = head.partition(b"\r\ncontent-length:")
    return int(rest.split(b"\r\n", 1)[0]) if found else 0


async def serve(workers: int, cache_tokens: int) -> None:
    """Listen on `workers` free loopback ports, print them, and serve until cancelled."""
    loop = asyncio.get_running_loop()
    pages, phases = _pages(cache_tokens), itertools.count()
    servers = [await loop.create_server(lambda: MockWorker(pages, phases), "127.0.0.1", 0) for _ in range(workers)]
    print(json.dumps([server.sockets[0].getsockname()[1] for server in servers]), flush=True)
    await asyncio.gather(*(server.serve_forever() for server in servers))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--cache-tokens", type=int, default=500_000)
    args = parser.parse_args()
    try:
        uvloop.run(serve(args.workers, args.cache_tokens))
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
