"""Keys that callers must bring, kept as hashes and compared in constant time."""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from hashlib import sha256

NOBODY = -1
"""The holder of a key that is none of ours."""


class Keyring:
    """A set of keys. False when it is empty: then no key is asked for.

    Only hashes are kept, so that no dump of this object tells a key. All of them are compared, each in constant time:
    how long an answer takes tells neither how much of a guess was right, nor which key it was like.
    """

    __slots__ = ("_digests",)

    def __init__(self, keys: Iterable[str]) -> None:
        self._digests = tuple(dict.fromkeys(sha256(key.encode()).digest() for key in keys))

    def __len__(self) -> int:
        return len(self._digests)

    def holder(self, key: bytes) -> int:
        """Which key this is, counted from 0; NOBODY for one that is not ours, or no key at all."""
        digest = sha256(key).digest()
        found = NOBODY
        for number, ours in enumerate(self._digests):
            if hmac.compare_digest(digest, ours):
                found = number
        return found if key else NOBODY


def presented_key(authorization: bytes, x_api_key: bytes) -> bytes:
    """The key in `Authorization: Bearer KEY` (RFC 6750, section 2.1), else that in `x-api-key`, as Anthropic's clients
    send it; empty if there is none.
    """
    scheme, _, credentials = authorization.partition(b" ")
    return credentials.strip() if scheme.lower() == b"bearer" else x_api_key
