"""A text in pieces is the same text, whatever is taken over from another one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from warmroute.prompts.pieces import Pieces

TEXTS = st.lists(st.text("ab", max_size=3), max_size=6)


@given(TEXTS, TEXTS, TEXTS)
def test_every_place_of_a_text_that_grew_out_of_another(begin: list[str], old: list[str], new: list[str]):
    known = Pieces(begin + old)
    # Equal strings that are not the same ones, as filters make them.
    pieces = ["".join(list(piece)) for piece in begin] + new
    same = known.begin_like(pieces)
    assert same >= len(begin)
    assert pieces[:same] == (begin + old)[:same]
    assert pieces[same : same + 1] != (begin + old)[same : same + 1] or same == len(pieces)
    text = Pieces(pieces, known, same)
    whole = "".join(pieces)
    assert (len(text), text.count) == (len(whole), len(pieces))
    assert known.end_of(same) == len("".join(pieces[:same]))
    for place in range(len(whole) + 1):
        assert text.since(place) == whole[place:]
