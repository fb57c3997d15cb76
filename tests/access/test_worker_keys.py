from warmroute.access.worker_keys import ALL, WorkerKeys


def test_a_key_of_its_own_comes_before_that_of_all():
    keys = WorkerKeys({"http://a:1": "own", ALL: "common"})
    assert keys.authorization("http://a:1") == "Bearer own"
    assert keys.authorization("http://b:1") == "Bearer common"


def test_without_a_key_nothing_is_shown():
    assert WorkerKeys().authorization("http://a:1") == ""
    assert WorkerKeys({"http://a:1": "own"}).authorization("http://a:11") == ""


def test_the_object_shows_no_key():
    assert "own" not in repr(WorkerKeys({"http://a:1": "own"}))
