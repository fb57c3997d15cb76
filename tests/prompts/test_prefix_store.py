"""What is kept by prefix: the newest at the deepest hash, within a bound."""

from __future__ import annotations

from tests.support.pools import chain

from warmroute.prompts.prefix_store import PrefixStore


def test_the_deepest_shared_hash_finds_the_newest():
    store: PrefixStore[str] = PrefixStore(1 << 20)
    store.put(chain("abc"), "first", 10)
    store.put(chain("abx"), "second", 10)
    assert store.find(chain("abcd")) == (3, "first")
    assert store.find(chain("abz")) == (2, "second")
    assert store.find(chain("q")) is store.find([]) is None


def test_what_a_longer_prompt_has_taken_over_goes():
    store: PrefixStore[str] = PrefixStore(1 << 20)
    store.put(chain("ab"), "shorter", 10)
    size = store.size_bytes
    store.put(chain("abc"), "longer", 10)
    assert store.find(chain("ab")) == (2, "longer")
    assert store.size_bytes == size


def test_what_was_used_least_recently_goes_first():
    store: PrefixStore[str] = PrefixStore(50_000)
    for sign in "abcd":
        store.put(chain(sign), sign, 10_000)
    assert store.find(chain("a")) == (1, "a")
    store.put(chain("e"), "e", 10_000)
    assert [sign for sign in "abcde" if store.find(chain(sign))] == ["a", "c", "d", "e"]
    assert store.size_bytes <= 50_000


def test_what_has_no_hash_or_no_room_is_not_kept():
    store: PrefixStore[str] = PrefixStore(5_000)
    store.put([], "short", 10)
    store.put(chain("a"), "large", 5_000)
    assert store.find(chain("a")) is None
    assert store.size_bytes == 0
