"""Mock prefill and decode engines: a decode request whose prefill never came gets no right answer.

So the guard of the benchmark sees a router that sends the legs of a pair apart, or to the wrong side.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping
from typing import Protocol

from benchmarks.answers import completion, whole

_BAD_REQUEST = "400 Bad Request"


class Client(Protocol):
    """The connection that a request came from."""

    def write(self, data: bytes) -> None:
        """Send a whole response."""

    def answer(self, request: bytearray) -> None:
        """Send the common answer, streamed if the request wants that."""


Engine = Callable[[Client, bytearray], None]
"""Answers one POST; gets the whole request, its head included."""


class SGLangPairs:
    """Both engines get the same body at once; decode answers when prefill has got the request for its room."""

    def __init__(self) -> None:
        self._prefilled: set[bytes] = set()
        self._waiting: dict[bytes, tuple[Client, bytearray]] = {}

    def prefill(self, client: Client, request: bytearray) -> None:
        """Answer at once, as an engine that needs no time, and let the decode engine go on."""
        room = number_of(request, b'"bootstrap_room":')
        if not room or not number_of(request, b'"bootstrap_port":'):
            client.write(_refusal("no room"))
            return
        client.write(_ONE_TOKEN)
        if room in self._waiting:
            waiting, its_request = self._waiting.pop(room)
            waiting.answer(its_request)
        else:
            self._prefilled.add(room)

    def decode(self, client: Client, request: bytearray) -> None:
        """Answer, or wait for prefill."""
        room = number_of(request, b'"bootstrap_room":')
        if not room:
            client.write(_refusal("no room"))
        elif room in self._prefilled:
            self._prefilled.remove(room)
            client.answer(request)
        else:
            self._waiting[room] = (client, request)


class VLLMPairs:
    """The prefill engine's answer holds a handle, which the decode engine must be given, once."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._handles: set[bytes] = set()

    def prefill(self, client: Client, request: bytearray) -> None:
        """Make a handle."""
        if b'"do_remote_decode":true' not in request or b'"max_tokens":1' not in request:
            client.write(_refusal("not a prefill request"))
            return
        number = next(self._numbers)
        self._handles.add(b"%d" % number)
        params = {
            "do_remote_prefill": True,
            "do_remote_decode": False,
            "remote_block_ids": [number],
            "remote_engine_id": "engine",
            "remote_host": "127.0.0.1",
            "remote_port": 5600,
        }
        client.write(whole(completion(1, kv_transfer_params=params)))

    def decode(self, client: Client, request: bytearray) -> None:
        """Use up a handle."""
        number = number_of(request, b'"remote_block_ids": [') or number_of(request, b'"remote_block_ids":[')
        if number in self._handles:
            self._handles.remove(number)
            client.answer(request)
        else:
            client.write(_refusal("no handle"))


PAIRS: Mapping[str, Callable[[], SGLangPairs | VLLMPairs]] = {"sglang": SGLangPairs, "vllm": VLLMPairs}
"""What makes pairs of mock engines, by the name of the engine."""

_ONE_TOKEN = whole(completion(1))


def _refusal(text: str) -> bytes:
    return whole(json.dumps({"error": {"message": text}}).encode(), status=_BAD_REQUEST)


def number_of(request: bytes | bytearray, key: bytes) -> bytes:
    """The digits that follow the last `key`, empty when there are none; routers put their members last or first."""
    at = request.rfind(key)
    if at < 0:
        return b""
    after = bytes(request[at + len(key) : at + len(key) + 24]).lstrip()
    return after[: len(after) - len(after.lstrip(b"0123456789"))]
