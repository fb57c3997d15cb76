"""Requests of the benchmark: exact in size, alike at the start, never the same."""

from __future__ import annotations

import json

import pytest
from benchmarks.prompts import GROUPS, Prompts


def body_of(request: bytes) -> bytes:
    return request.split(b"\r\n\r\n", 1)[1]


@pytest.mark.parametrize("size", [1024, 16 * 1024, 64 * 1024, 400 * 1024])
@pytest.mark.parametrize("stream", [False, True])
def test_body_has_the_size_and_is_a_chat_request(size: int, stream: bool):
    request = Prompts(size, stream=stream)()
    body = body_of(request)
    assert f"Content-Length: {size}\r\n".encode() in request
    assert len(body) == size
    parsed = json.loads(body)
    assert parsed["stream"] is stream
    assert [message["role"] for message in parsed["messages"][:2]] == ["system", "user"]


def test_a_group_shares_half_of_its_bytes_and_no_more():
    prompts = Prompts(16 * 1024)
    first, *_, again = (body_of(prompts()) for _ in range(GROUPS + 1))
    common = next(at for at, (a, b) in enumerate(zip(first, again, strict=True)) if a != b)
    assert 0.45 < common / len(first) < 0.55


def test_without_a_shared_part_prompts_differ_within_the_first_message():
    prompts = Prompts(32 * 1024, shared=0)
    first, second = body_of(prompts()), body_of(prompts())
    common = next(at for at, (a, b) in enumerate(zip(first, second, strict=True)) if a != b)
    assert common < 100
