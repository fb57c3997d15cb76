import pytest

from warmroute.engines.dialects.batch import batch_size


@pytest.mark.parametrize(
    ("prompt", "size"),
    [
        (b'"text"', None),
        (b'"[\\"x\\"]"', None),
        (b"null", None),
        (b"[1,2,3]", None),
        (b"[]", None),
        (b'["a"]', 1),
        (b'["a", "b"]', 2),
        (b"[[1,2],[3]]", 2),
        (b"[" + b" " * 100 + b'"a","b"]', 2),
        (b"[" + b'"",' * 3_000_000 + b'""]', 0),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_batch_size(prompt: bytes, size: int | None) -> None:
    assert batch_size(prompt) == size
