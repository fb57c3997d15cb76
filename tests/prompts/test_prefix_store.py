"""What is kept by prefix: the newest at the deepest hash, within a bound."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
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


def test_a_conversation_that_grows_keeps_its_place_and_is_used_last():
    store: PrefixStore[str] = PrefixStore(50_000)
    for sign in "abcd":
        store.put(chain(sign), sign, 10_000)
    store.put(chain("ax"), "grown", 12_000)
    assert store.find(chain("ay")) == (1, "grown")
    store.put(chain("e"), "e", 10_000)
    assert [sign for sign in "abcde" if store.find(chain(sign))] == ["a", "c", "d", "e"]
    assert store.size_bytes == 12_000 + 3 * 10_000 + 4 * 1000


def test_prompts_that_share_a_hash_by_chance_are_two():
    """Hashes are no cryptographic ones. The first is not outgrown: nobody would ever forget its other hashes."""
    store: PrefixStore[str] = PrefixStore(15_000)
    store.put([1, 2], "first", 1_000)
    store.put([3, 2, 4], "second", 1_000)
    assert store.find([1]) == (1, "first")
    store.put([5], "large", 12_500)
    assert store.find([1]) is store.find([3]) is None


@given(st.lists(st.text("ab", min_size=1, max_size=6), max_size=30), st.integers(2, 8))
def test_the_books_agree_with_what_is_found(prompts: list[str], room: int):
    """Of a list of all that was put, the newest at the deepest shared hash that nothing newer has taken over."""
    store: PrefixStore[str] = PrefixStore(room * 1100)
    newest: dict[str, str] = {}
    for number, text in enumerate(prompts):
        store.put(chain(text), f"{number}:{text}", 100)
        newest |= dict.fromkeys((text[:end] for end in range(1, len(text) + 1)), f"{number}:{text}")
        assert store.find(chain(text)) == (len(text), f"{number}:{text}")
        assert store.size_bytes % 1100 == 0
        assert store.size_bytes <= store.max_bytes
    for text in prompts:
        if (found := store.find(chain(text))) is not None:
            assert newest[text[: found[0]]] == found[1]


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
