"""Addresses of publishers as operators write them."""

import pytest

from warmroute.config.kv_endpoints import by_worker, kv_endpoints


def test_for_all_workers_and_for_one():
    given = ("tcp://*:5557", "http://a:8000/=tcp://*:5559", "b:8000=ipc:///run/kv")
    kept = kv_endpoints(given)
    assert kept == ("tcp://*:5557", "http://a:8000=tcp://*:5559", "http://b:8000=ipc:///run/kv")
    assert by_worker(kept) == {"": "tcp://*:5557", "http://a:8000": "tcp://*:5559", "http://b:8000": "ipc:///run/kv"}
    assert kv_endpoints(kept) == kept


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (("*:5557",), "must be"),
        (("tcp://*",), "must be"),
        (("tcp://*:5557/x",), "must be"),
        (("http://a:1=",), "must be"),
        (("a=tcp://*:1",), "needs a port"),
        (("tcp://*:1", "tcp://*:2"), "an address for all workers twice"),
        (("a:1=tcp://*:1", "http://a:1=tcp://*:2"), "http://a:1 twice"),
    ],
)
def test_others_are_refused(given: tuple[str, ...], reason: str):
    with pytest.raises(ValueError, match=reason):
        kv_endpoints(given)
