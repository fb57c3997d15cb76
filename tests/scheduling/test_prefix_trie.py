"""The trie: cutting keeps holders, and a hash that comes up twice does no harm."""

from __future__ import annotations

from tests.support.pools import SMALL_LADDER, chain, make_worker
from tests.support.prefix_model import holds_of

from warmroute.scheduling.prefix_trie import PrefixTrie


def grow(trie, fingerprint, worker, now=0.0, claimant=1):
    leaf = trie.grow(fingerprint, len(fingerprint))
    trie.pending.add(claimant)
    trie.place(leaf, trie.shelves.get(worker) or trie.add_shelf(worker), now, (claimant,))
    return leaf


def test_equal_runs_of_blocks_are_one_node():
    trie = PrefixTrie(SMALL_LADDER)
    leaf = grow(trie, chain("abcdef"), make_worker())
    assert len(trie.nodes) == 1
    assert trie.grow(chain("abcdef"), 6) is leaf


def test_a_cut_keeps_every_holder_its_claimants_and_its_place():
    trie = PrefixTrie(SMALL_LADDER)
    a, b = make_worker("a"), make_worker("b")
    node = grow(trie, chain("abcd"), a, 1.0, 1)
    other = grow(trie, chain("x"), a, 2.0, 2)
    grow(trie, chain("abcd"), b, 3.0, 3)
    upper = trie.cut(node, 1)
    assert upper is not None
    assert (upper.start, upper.end, node.start, node.end, node.parent) == (0, 1, 1, 4, upper)
    assert upper.holds.keys() == node.holds.keys() == {a, b}
    assert upper.holds[a].claimants == node.holds[a].claimants == (1,)
    assert [hold.node for hold in holds_of(trie.shelves[a])] == [node, upper, other]
    assert trie.shelves[a].tokens == SMALL_LADDER.tokens_at(4) + SMALL_LADDER.tokens_at(1)


def test_what_lies_below_a_cut_is_still_found():
    trie = PrefixTrie(SMALL_LADDER)
    worker = make_worker()
    for fingerprint in (chain("abcd"), chain("abcdef")):
        grow(trie, fingerprint, worker)
    trie.cut(trie.nodes[chain("a")[0]], 2)
    assert [(node.start, node.end) for node in trie.path(chain("abcdef"))] == [(0, 2), (2, 4), (4, 6)]


def test_a_hash_that_stands_elsewhere_ends_the_path():
    trie = PrefixTrie(SMALL_LADDER)
    worker = make_worker()
    for fingerprint in ([1, 2, 3], [1, 2, 9]):
        grow(trie, fingerprint, worker)
    # 9 is known as a third block below 1, 2; here it would be a second block.
    leaf = trie.grow([1, 9], 2)
    assert (leaf.start, leaf.end) == (0, 1)


def test_a_cut_that_would_hit_another_node_is_refused():
    trie = PrefixTrie(SMALL_LADDER)
    for fingerprint in ([7], [1, 7, 3]):
        grow(trie, fingerprint, make_worker())
    size = trie.size_bytes
    assert trie.cut(trie.nodes[1], 1) is None
    assert (trie.nodes[1].end, trie.size_bytes) == (3, size)
