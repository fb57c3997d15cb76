"""What a mock engine says, ready to be written: the same bytes for every request."""

from __future__ import annotations

import json

CHUNKS = 64
"""Tokens of an answer, and events of a streamed one."""


def head(content_type: str, framing: str, status: str = "200 OK") -> bytes:
    """The head of a response."""
    return f"HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\n{framing}\r\n\r\n".encode()


def whole(body: bytes, content_type: str = "application/json", status: str = "200 OK") -> bytes:
    """A response with a content-length."""
    return head(content_type, f"content-length: {len(body)}", status) + body


def completion(tokens: int, **more: object) -> bytes:
    """The JSON of a chat completion of so many tokens, with `more` members."""
    message = {"role": "assistant", "content": "word " * tokens}
    usage = {
        "prompt_tokens": 256,
        "completion_tokens": tokens,
        "total_tokens": 256 + tokens,
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
    return json.dumps(answer | more).encode()


def _event(delta: dict[str, str], finish_reason: str | None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "tiny", "choices": [choice]}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def _framed(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


ANSWER = completion(CHUNKS)
_TOKEN = _event({"content": "word "}, None)
_LAST = _event({"content": "word "}, "length") + b"data: [DONE]\n\n"
STREAM_BYTES = len(_TOKEN) * (CHUNKS - 1) + len(_LAST)
"""Length of a streamed answer's body without its framing."""

ANSWER_BYTES = whole(ANSWER)
STREAM_HEAD = head("text/event-stream", "transfer-encoding: chunked")
TOKEN_BYTES = _framed(_TOKEN)
LAST_BYTES = _framed(_LAST) + b"0\r\n\r\n"


def pages(engine: str, cache_tokens: int) -> dict[bytes, bytes]:
    """Answers to GET, by path; the model path does not exist, so that nobody tries to load a tokenizer for it."""
    model = {"id": "tiny", "object": "model", "created": 1, "owned_by": engine, "root": "/none/tiny"}
    server = {"model_path": "/none/tiny", "served_model_name": "tiny", "tp_size": 1, "dp_size": 1}
    info = {"model_path": "/none/tiny", "served_model_name": "tiny", "is_generation": True}
    as_json: dict[str, object] = {"/v1/models": {"object": "list", "data": [model]}, "/health": {}}
    as_json |= {"/server_info": server, "/get_server_info": server, "/model_info": info, "/get_model_info": info}
    answers = {path.encode(): whole(json.dumps(page).encode()) for path, page in as_json.items()}
    metrics = _sglang_metrics(cache_tokens) if engine == "sglang" else _vllm_metrics(cache_tokens)
    return answers | {b"/metrics": whole(metrics.encode(), "text/plain; version=0.0.4")}


def _vllm_metrics(cache_tokens: int) -> str:
    labels = 'engine="0",model_name="tiny"'
    gauges = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")
    config = f'block_size="16",engine="0",kv_cache_size_tokens="{cache_tokens}",num_gpu_blocks="{cache_tokens // 16}"'
    shown = "".join(f"vllm:{name}{{{labels}}} 0.0\n" for name in gauges)
    return f"{shown}vllm:cache_config_info{{{config}}} 1.0\n"


def _sglang_metrics(cache_tokens: int) -> str:
    figures = {"num_running_reqs": 0, "num_queue_reqs": 0, "token_usage": 0, "max_total_num_tokens": cache_tokens}
    return "".join(f'sglang:{name}{{model_name="tiny",tp_rank="0"}} {value:.1f}\n' for name, value in figures.items())
