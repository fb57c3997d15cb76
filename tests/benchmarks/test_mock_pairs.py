"""Mock pairs: who sends the legs apart, or to the wrong side, gets no right answer."""

from __future__ import annotations

import pytest
from benchmarks.mock_pairs import SGLangPairs, VLLMPairs, number_of

HEAD = b"POST /v1/chat/completions HTTP/1.1\r\n\r\n"
RIGHT = b"the common answer"


class Wire:
    """A connection that keeps what was written."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.sent.append(bytes(data))

    def answer(self, request: bytearray) -> None:
        self.sent.append(RIGHT)


def room(number: int) -> bytearray:
    return bytearray(HEAD + b'{"bootstrap_host":"h","bootstrap_port":9001,"bootstrap_room":%d}' % number)


@pytest.mark.parametrize("prefill_first", [True, False])
def test_sglang_decode_answers_once_prefill_has_come(prefill_first: bool):
    pairs, prefill, decode = SGLangPairs(), Wire(), Wire()
    if prefill_first:
        pairs.prefill(prefill, room(7))
    pairs.decode(decode, room(7))
    assert bool(decode.sent) is prefill_first
    if not prefill_first:
        pairs.prefill(prefill, room(7))
    assert decode.sent == [RIGHT]
    assert prefill.sent[0].startswith(b"HTTP/1.1 200")


def test_sglang_decode_waits_for_its_own_room_and_for_a_new_prefill():
    pairs, decode = SGLangPairs(), Wire()
    pairs.prefill(Wire(), room(7))
    pairs.decode(decode, room(8))
    assert decode.sent == []
    pairs.decode(decode, room(7))
    assert decode.sent == [RIGHT]
    pairs.decode(decode, room(7))
    assert decode.sent == [RIGHT]


def test_sglang_refuses_a_request_without_a_room():
    pairs, prefill, decode = SGLangPairs(), Wire(), Wire()
    pairs.prefill(prefill, bytearray(HEAD + b"{}"))
    pairs.decode(decode, bytearray(HEAD + b"{}"))
    assert all(wire.sent[0].startswith(b"HTTP/1.1 400") for wire in (prefill, decode))


def test_vllm_takes_a_handle_once():
    pairs, prefill, first, second = VLLMPairs(), Wire(), Wire(), Wire()
    wanted = b'{"max_tokens":1,"kv_transfer_params":{"do_remote_decode":true}}'
    pairs.prefill(prefill, bytearray(HEAD + wanted))
    handed_over = bytearray(prefill.sent[0])
    pairs.decode(first, handed_over)
    pairs.decode(second, handed_over)
    assert first.sent == [RIGHT]
    assert second.sent[0].startswith(b"HTTP/1.1 400")


def test_vllm_refuses_what_is_no_prefill_request():
    prefill = Wire()
    VLLMPairs().prefill(prefill, bytearray(HEAD + b'{"max_tokens":64}'))
    assert prefill.sent[0].startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (b'{"room":12}', b"12"),
        (b'{"room": 3,"x":1}', b"3"),
        (b'{"room":1,"y":{},"room":2}', b"2"),
        (b"{}", b""),
        (b'{"room":null}', b""),
    ],
)
def test_number_after_the_last_key(text: bytes, number: bytes):
    assert number_of(text, b'"room":') == number
