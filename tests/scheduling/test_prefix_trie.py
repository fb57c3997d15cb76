"""The trie: cutting keeps holders, and a hash that comes up twice does no harm."""

from __future__ import annotations

from tests.support.pools import SMALL_LADDER, chain, make_worker
from tests.support.prefix_model import holds_of

from warmroute.scheduling.prefix_trie import PrefixTrie


def place(trie, node, worker, now, claimant):
    trie.pending.add(claimant)
    trie.place(node, trie.shelves.get(worker) or trie.add_shelf(worker), now, (claimant,))


def test_equal_runs_of_blocks_are_one_node():
    trie = PrefixTrie(SMALL_LADDER)
    path = trie.grow(chain("abcdef"), 6)
    place(trie, path[0], make_worker(), 0.0, 1)
    assert len(trie.nodes) == 1
    assert trie.grow(chain("abcdef"), 6) == path


def test_a_cut_keeps_every_holder_its_claimants_and_its_place():
    trie = PrefixTrie(SMALL_LADDER)
    a, b = make_worker("a"), make_worker("b")
    other = trie.grow(chain("x"), 1)[0]
    node = trie.grow(chain("abcd"), 4)[0]
    place(trie, node, a, 1.0, 1)
    place(trie, other, a, 2.0, 2)
    place(trie, node, b, 3.0, 3)
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
        for node in reversed(trie.grow(fingerprint, len(fingerprint))):
            place(trie, node, worker, 0.0, 1)
    trie.cut(trie.nodes[chain("a")[0]], 2)
    assert [(node.start, node.end) for node in trie.path(chain("abcdef"))] == [(0, 2), (2, 4), (4, 6)]


def test_a_hash_that_stands_elsewhere_ends_the_path():
    trie = PrefixTrie(SMALL_LADDER)
    worker = make_worker()
    for fingerprint in ([1, 2, 3], [1, 2, 9]):
        for node in reversed(trie.grow(fingerprint, 3)):
            place(trie, node, worker, 0.0, 1)
    # 9 is known as a third block below 1, 2; here it would be a second block.
    assert [node.end for node in trie.grow([1, 9], 2)] == [1]


def test_a_cut_that_would_hit_another_node_is_refused():
    trie = PrefixTrie(SMALL_LADDER)
    for fingerprint in ([7], [1, 7, 3]):
        place(trie, trie.grow(fingerprint, len(fingerprint))[0], make_worker(), 0.0, 1)
    size = trie.size_bytes
    assert trie.cut(trie.nodes[1], 1) is None
    assert (trie.nodes[1].end, trie.size_bytes) == (3, size)
