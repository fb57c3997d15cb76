import hashlib
import hmac

import pytest

from warmroute.access import keyring
from warmroute.access.keyring import NOBODY, Keyring, presented_key


def test_each_key_has_a_holder_and_no_other_has():
    keys = Keyring(["first", "second", "first"])
    assert len(keys) == 2
    assert keys.holder(b"first") == 0
    assert keys.holder(b"second") == 1
    for wrong in (b"", b"firs", b"first ", b"First", b"firstsecond", b"\xff", b"\x00"):
        assert keys.holder(wrong) == NOBODY


def test_nobody_holds_a_key_of_an_empty_ring():
    keys = Keyring([])
    assert not keys
    assert keys.holder(b"") == keys.holder(b"any") == NOBODY


def test_every_key_is_compared_in_constant_time(monkeypatch):
    """Also those behind the one that matches."""
    compared, original = [], hmac.compare_digest

    def compare(one, other):
        compared.append((one, other))
        return original(one, other)

    monkeypatch.setattr(keyring.hmac, "compare_digest", compare)
    ring = Keyring(["a", "b", "c"])
    compared.clear()
    assert ring.holder(b"a") == 0
    assert [other for _, other in compared] == [hashlib.sha256(key).digest() for key in (b"a", b"b", b"c")]


def test_no_key_can_be_read_from_the_ring():
    ring = Keyring(["canary"])
    assert "canary" not in repr(ring)
    assert b"canary" not in b"".join(ring._digests)


@pytest.mark.parametrize(
    ("authorization", "x_api_key", "key"),
    [
        (b"Bearer k", b"", b"k"),
        (b"bearer  k ", b"", b"k"),
        (b"Bearer", b"", b""),
        (b"Basic dTpw", b"", b""),
        (b"k", b"", b""),
        (b"", b"k", b"k"),
        (b"Basic dTpw", b"k", b"k"),
        (b"Bearer a", b"b", b"a"),
        (b"", b"", b""),
    ],
)
def test_where_a_key_is_presented(authorization, x_api_key, key):
    assert presented_key(authorization, x_api_key) == key
