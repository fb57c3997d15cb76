"""Nodes and shelves by themselves."""

from __future__ import annotations

from array import array

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.pools import chain, make_worker
from tests.support.prefix_model import holds_of

from warmroute.scheduling.prefix_nodes import Hold, Node, Shelf

BLOCKS = st.lists(st.integers(0, 1), min_size=1, max_size=12)


@given(stem=BLOCKS, ours=BLOCKS, theirs=BLOCKS, above=st.integers(0, 11), less=st.integers(0, 11))
@settings(max_examples=100, deadline=None, database=None)
def test_shared_end_is_where_two_prompts_part(stem: list, ours: list, theirs: list, above: int, less: int):
    node_hashes, fingerprint = chain(stem + ours), chain(stem + theirs)
    start = above % len(stem)
    depth = len(fingerprint) - less % (len(fingerprint) - start)
    node = Node(array("Q", node_hashes[start:]), start, len(node_hashes), 0, None)
    equal = [d for d in range(start, min(depth, node.end)) if node_hashes[d] == fingerprint[d]]
    assert node.shared_end(fingerprint, depth) == start + len(equal)


def test_a_shelf_keeps_the_order_of_use():
    shelf = Shelf(make_worker())
    assert shelf.is_empty

    def add(number: int, older: Hold) -> Hold:
        return Hold(Node(array("Q", [number]), 0, 1, 1, None), shelf, 0.0, None, older)

    a = add(0, shelf.ends.older)
    b = add(1, shelf.ends.older)
    c = add(2, shelf.ends.older)
    assert list(holds_of(shelf)) == [a, b, c]
    shelf.refresh(a, 1.0)
    assert list(holds_of(shelf)) == [b, c, a]
    shelf.refresh(a, 2.0)
    assert (list(holds_of(shelf)), a.touched) == ([b, c, a], 2.0)
    d = add(3, b)
    assert list(holds_of(shelf)) == [b, d, c, a]
    for hold in (d, b, a):
        shelf.remove(hold)
    assert list(holds_of(shelf)) == [c]
    shelf.remove(c)
    assert shelf.is_empty
