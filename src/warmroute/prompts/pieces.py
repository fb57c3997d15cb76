"""A text in the pieces that a template gives out, which are put together only where somebody reads them.

The pieces of a conversation that has grown are, but for the last ones, the very strings of the time before: to see that
costs a pointer for each, where the whole text would have to be put together and compared.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, compress, count
from operator import ne

_AT_ONCE = 128
"""So many pieces are compared by one call."""


class Pieces:
    """A text, of which places are told in characters."""

    __slots__ = ("_ends", "_pieces")

    def __init__(self, pieces: Sequence[str], like: Pieces | None = None, shared: int = 0) -> None:
        """`shared` pieces are those of `like`."""
        self._pieces = pieces
        if like is None or not shared:
            self._ends = list(accumulate(map(len, pieces)))
        else:
            self._ends = like._ends[:shared]
            self._ends += accumulate(map(len, pieces[shared:]), initial=self._ends.pop())

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    @property
    def count(self) -> int:
        """How many pieces there are."""
        return len(self._pieces)

    def begin_like(self, pieces: Sequence[str]) -> int:
        """So many of the first pieces are the same; the texts may share more."""
        most = min(len(self._pieces), len(pieces))
        same = 0
        while same < most and self._pieces[same : same + _AT_ONCE] == pieces[same : same + _AT_ONCE]:
            same += _AT_ONCE
        others = map(ne, self._pieces[same : same + _AT_ONCE], pieces[same : same + _AT_ONCE])
        return next(compress(count(same), others), min(most, same + _AT_ONCE))

    def end_of(self, pieces: int) -> int:
        """Where the first so many pieces end."""
        return self._ends[pieces - 1] if pieces else 0

    def since(self, place: int) -> str:
        """The text from a place on."""
        piece = bisect_right(self._ends, place)
        text = "".join(self._pieces[piece:])
        skipped = place - self.end_of(piece)
        return text[skipped:] if skipped else text
