"""Hand-made legs: what a router would send to each engine of a pair."""

from __future__ import annotations

import json
from typing import Any

import aiohttp

from warmroute.simulation.engine import RunningEngine

CHAT = {"messages": [{"role": "user", "content": "Tell me something. " * 20}], "max_tokens": 24}
CHAT_TOKENS = 98
REMOTE_DECODE = {"do_remote_decode": True, "do_remote_prefill": False, "remote_engine_id": None}

Answer = tuple[int, Any]


async def post(
    http: aiohttp.ClientSession, engine: RunningEngine, body: object, path: str = "/v1/chat/completions"
) -> Answer:
    """Status and decoded answer; of a stream the list of its events, without [DONE]."""
    async with http.post(engine.url + path, json=body) as response:
        text = await response.text()
        if response.content_type != "text/event-stream":
            return response.status, json.loads(text)
    *data, done = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    assert done == "[DONE]"
    return response.status, [json.loads(event) for event in data]


def text_of(answer: Any) -> str:
    """The text of a chat answer, whole or as events."""
    if isinstance(answer, list):
        return "".join(choice["delta"].get("content", "") for event in answer for choice in event["choices"])
    return answer["choices"][0]["message"]["content"]


def message(answer: Any) -> str:
    """That of an error."""
    return answer["error"]["message"]


def fastdeploy_body(prefill: RunningEngine, decode: RunningEngine, request_id: str, **changes: object) -> dict:
    """One body for both engines."""
    info = {
        "prefill_ip": "127.0.0.1",
        "decode_ip": "127.0.0.1",
        "prefill_connector_port": prefill.meeting_port,
        "decode_connector_port": decode.meeting_port,
        "decode_device_ids": ["0"],
        "decode_rdma_ports": [str(decode.meeting_port)],
        "transfer_protocol": "rdma",
        "decode_tp_size": 1,
    }
    return {**CHAT, "request_id": request_id, "disaggregate_info": info, **changes}


def sglang_body(prefill: RunningEngine, room: object, **changes: object) -> dict:
    """One body for both engines."""
    meeting = {"bootstrap_host": "127.0.0.1", "bootstrap_port": prefill.meeting_port, "bootstrap_room": room}
    return {**CHAT, **meeting, **changes}


async def vllm_handle(http: aiohttp.ClientSession, prefill: RunningEngine, body: dict = CHAT) -> Any:
    """The handle that a prefill leg gets."""
    leg = {**body, "max_tokens": 1, "stream": False, "kv_transfer_params": REMOTE_DECODE}
    status, answer = await post(http, prefill, leg)
    assert status == 200
    return answer["kv_transfer_params"]
