"""FastDeploy's way to give a request back: its decode engine ran out of blocks, and another pair shall go on with it.

The sign is a choice with `finish_reason` "pd_reschedule", or an error whose message contains "PD Error". The next pair
gets the tokens that were generated so far as `completion_token_ids`, and the id "<base>-retry<k>", as from FastDeploy's
Python router. That router does so for answers that are no streams; here streams are as well, up to their first content.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from warmroute.engines.dialect import MAX_HELD_BYTES, Request, Sight
from warmroute.engines.event_stream import StreamBegin
from warmroute.prompts.fields import MISSING
from warmroute.prompts.splice import splice

_REASON = "pd_reschedule"
_ERROR = "PD Error"
_SIGNS = (_REASON.encode(), _ERROR.encode())


class _Output(msgspec.Struct, gc=False):
    """A chat message, or what a chunk adds to one."""

    content: object = None
    reasoning_content: object = None
    tool_calls: object = None
    completion_token_ids: object = None


class _Choice(msgspec.Struct, gc=False):
    message: _Output | None = None
    delta: _Output | None = None
    text: object = None
    tool_calls: object = None
    reasoning_content: object = None
    completion_token_ids: object = None
    finish_reason: object = None

    @property
    def token_ids(self) -> list[int]:
        output = self.message or self.delta
        ids = self.completion_token_ids if output is None else output.completion_token_ids
        return [token for token in ids if isinstance(token, int)] if isinstance(ids, list) else []

    @property
    def says_something(self) -> bool:
        parts = [self.text, self.reasoning_content, self.tool_calls, self.finish_reason]
        if self.delta is not None:
            parts += [self.delta.content, self.delta.reasoning_content, self.delta.tool_calls]
        return any(parts)


class _Answer(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    error: object = None

    @property
    def is_given_back(self) -> bool:
        if self.choices and any(choice.finish_reason == _REASON for choice in self.choices):
            return True
        return isinstance(self.error, dict) and _ERROR in str(self.error.get("message"))

    @property
    def token_ids(self) -> list[int]:
        # The tokens of several choices cannot be told apart in the next request.
        return self.choices[0].token_ids if self.choices and len(self.choices) == 1 else []


_answer = msgspec.json.Decoder(_Answer)
_ids = msgspec.json.Decoder(list[int] | None)
_UNREADABLE = (msgspec.DecodeError, RecursionError)


@dataclass(frozen=True, slots=True)
class FastDeployReschedule:
    """Recognises the answer to `request` that asks for another pair."""

    request: Request

    def whole(self, status: int, body: bytes) -> Request | None:
        """The request for another pair, or None. The sign counts whatever the status."""
        if len(body) > MAX_HELD_BYTES or not any(sign in body for sign in _SIGNS):
            return None
        try:
            answer = _answer.decode(body)
        except _UNREADABLE:
            return None
        return continued(self.request, answer.token_ids) if answer.is_given_back else None

    def stream(self) -> StreamBegin:
        """A watch for a stream."""
        return StreamBegin(_Judge(self.request))


class _Judge:
    """Judges the data of one event after the other, up to the first that a client would miss."""

    __slots__ = ("_request", "_token_ids")

    def __init__(self, request: Request) -> None:
        self._request = request
        self._token_ids: list[int] = []

    def __call__(self, data: bytes) -> Sight:
        try:
            answer = _answer.decode(data)
        except _UNREADABLE:
            return "pass"
        self._token_ids += answer.token_ids
        if answer.is_given_back:
            return continued(self._request, self._token_ids)
        silent = answer.error is None and not any(choice.says_something for choice in answer.choices or ())
        return "hold" if silent else "pass"


def continued(request: Request, token_ids: Iterable[int]) -> Request:
    """The request for another pair, which goes on after `token_ids` and those of attempts before."""
    token_ids = list(token_ids)
    if not token_ids:
        return request.again()
    try:
        given = request.read().completion_token_ids
        before = (None if given is MISSING else _ids.decode(given)) or []
    except _UNREADABLE:
        before = []
    return request.with_body(splice(request.body, {"completion_token_ids": msgspec.json.encode(before + token_ids)}))
