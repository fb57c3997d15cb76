"""What it takes to let two engines serve one request, without a word about any engine in particular.

A dialect is pure: it turns a request and a pair of peers into the bytes for both legs (a `Together` or an `InTurn`),
and what comes back into the next step. Whoever sends those bytes needs this module only. A request that
`alone_because` objects to goes to the decode engine alone; for all others:

    handover = dialect.begin(request, prefill, decode, rng)
    Together:  send both bodies at once; the decode leg's answer is the client's. The prefill leg's answer is drained,
               or, if there is a `merge`, collected, and `merge(answer)` then gives the edit of the client's answer.
    InTurn:    send the prefill body, collect the answer, `follow(answer)` gives the decode request and the edit.

If a leg fails before the client got a byte, the next attempt begins with `request.again()` and another pair. If the
handover has a `reschedule`, or the decode request a `watch`, the decode leg's answer is shown to it before the client
gets any of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace

from warmroute.engines.peer import Peer
from warmroute.prompts.body import Kind
from warmroute.prompts.fields import BadRequest, HandoverFields, read_handover_fields

MAX_HELD_BYTES = 4 * 1024 * 1024
"""The most that has to be collected of an answer. A longer one counts as empty for `merge` and `follow`, and passes to
the client as it is instead of through an edit's or a `Reschedule`'s `whole`."""

OTHER_PATH = "other_path"
"""The reason why a request is served alone whose path no handover is known for (embeddings, rerank, ...)."""

_NO_FIELDS = HandoverFields()


class Request(Struct, frozen=True):
    """A client's request on its way to a pair.

    `body` is the JSON text of an object, as `read_request` accepts it. `id` is unique to this client request; engines
    that need an id get it unless the body names one. `attempt` counts the pairs that it was sent to before, so that a
    handle is never used twice. `fields` are those of the body, if they have been read already.
    """

    body: bytes
    kind: Kind
    stream: bool
    id: str
    attempt: int = 0
    fields: HandoverFields | None = None

    def read(self) -> HandoverFields:
        """The fields of the body: all of them absent if it cannot be read."""
        try:
            return self.fields or read_handover_fields(self.body)
        except BadRequest:
            return _NO_FIELDS

    def again(self) -> Request:
        """The same request for another pair."""
        return replace(self, attempt=self.attempt + 1)

    def with_body(self, body: bytes) -> Request:
        """Another body for another pair."""
        return replace(self, body=body, attempt=self.attempt + 1, fields=None)


class StreamEdit(Protocol):
    """Edits one server-sent event stream. Chunks may be cut anywhere; what is held back is bounded."""

    def feed(self, chunk: bytes) -> bytes:
        """What may go to the client now that `chunk` has come; may be empty."""

    def end(self) -> bytes:
        """What is left when the stream has ended."""


class AnswerEdit(Protocol):
    """Edits a client's answer. What it does not understand passes unchanged, byte for byte; it never raises.

    Not for compressed answers. The length of the body changes, so that the head needs framing of its own.
    """

    def whole(self, body: bytes) -> bytes:
        """The edited JSON body of an answer that is no stream."""

    def stream(self) -> StreamEdit:
        """A new edit of an event stream."""


@dataclass(frozen=True, slots=True)
class EarlyError:
    """A stream that begins with an error: as if the engine had answered with `status`, 400 to 599, instead of 200."""

    status: int


Sight = Literal["hold", "pass"] | Request | EarlyError
"""What the begin of a stream shows: nothing yet, an answer to pass on, the request that another pair must serve (its
attempt already counted), or an error."""


class StreamWatch(Protocol):
    """Looks at the begin of an event stream of which the client has got nothing yet."""

    def feed(self, chunk: bytes) -> Sight:
        """Judge the stream up to and with `chunk`. Hold what came while it says so; all else is final.

        It says "pass" once more than 64 KiB have come, and whenever it does not understand the stream.
        """


class Reschedule(Protocol):
    """Recognises an answer that is none: the engine has given the request up and asks for another pair."""

    def whole(self, status: int, body: bytes) -> Request | None:
        """For an answer that is no stream, whatever its status: the request for another pair, or None to pass it on."""

    def stream(self) -> StreamWatch:
        """A new watch for an event stream."""


class Together(Struct, frozen=True):
    """Both legs go at once.

    Without a `merge` the prefill leg's answer is only drained. With one it is collected, nothing of the decode leg's
    answer goes on before it is complete, and `merge(prefill_answer)` gives the edit, or None for nothing to edit.
    """

    prefill_body: bytes
    decode_body: bytes
    merge: Callable[[bytes], AnswerEdit | None] | None = None
    reschedule: Reschedule | None = None


class DecodeRequest(Struct, frozen=True):
    """The second of two legs. `recomputes`: the prefill leg gave no handle, so the decode engine repeats its work.

    `watch` makes a watch for an event stream; a `reschedule` that is asked takes its place. Then comes the `edit`.
    """

    body: bytes
    recomputes: bool = False
    edit: AnswerEdit | None = None
    watch: Callable[[], StreamWatch] | None = None


class InTurn(Struct, frozen=True):
    """The prefill leg goes first; `follow(its whole answer with status 200)` never raises.

    With `any_follows` any decode engine that makes a pair with the prefill engine may follow, not only the one that was
    chosen.
    """

    prefill_body: bytes
    follow: Callable[[bytes], DecodeRequest]
    any_follows: bool = False
    reschedule: Reschedule | None = None


Handover = Together | InTurn


class Dialect(Protocol):
    """How engines of one make hand a request over."""

    @property
    def name(self) -> str:
        """As in `--engine`."""

    @property
    def order(self) -> Literal["together", "in_turn"]:
        """Which kind of handover `begin` gives."""

    @property
    def decodes_alone(self) -> bool:
        """Whether a decode engine can serve a request, its body unchanged, without a prefill engine."""

    @property
    def tells_prefill(self) -> bool:
        """Whether a prefill engine answers when the prompt is computed, not when the decode engine has taken it."""

    def why_not(self, prefill: Peer, decode: Peer) -> str | None:
        """Why this pair cannot work, in words for an operator; None when it can."""

    def is_near(self, prefill: Peer, decode: Peer) -> bool:
        """Whether this pair is to be preferred among equals: one host, or a faster transfer."""

    def alone_because(self, request: Request) -> str | None:
        """Why this request cannot be handed over, as the value of a metric label: `OTHER_PATH` or a dialect's own.

        The decode engine then gets it alone, its body unchanged, whatever `decodes_alone` says: for want of a handover
        it is the engine's to serve or refuse. None for a request that can be handed over.
        """

    def begin(self, request: Request, prefill: Peer, decode: Peer, rng: Random) -> Handover:
        """Make the bytes for both legs of a pair that `why_not` does not object to."""
