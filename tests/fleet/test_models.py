import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmroute.fleet.models import MAX_MODELS, merge_models, read_models


def test_objects_are_kept_as_the_engine_wrote_them():
    body = b'{"object":"list","data":[{"id":"m","object":"model","max_model_len":8192},{"id":"m-lora","parent":"m"}]}'
    assert read_models(body) == (
        {"id": "m", "object": "model", "max_model_len": 8192},
        {"id": "m-lora", "parent": "m"},
    )


def test_what_has_no_id_is_left_out():
    assert read_models(b'{"data":[{"id":7},{},null,"m",{"id":""},{"id":"m"}]}') == ({"id": "m"},)


def test_an_empty_list_is_a_list():
    assert read_models(b'{"data":[]}') == ()


@pytest.mark.parametrize(
    "body", [b"", b"x", b"[]", b"{}", b'{"data":{}}', b"\xff", b"[" * 100_000, b'{"data":' + b"[" * 100_000]
)
def test_anything_else_is_no_list(body):
    assert read_models(body) is None


def test_an_endless_list_is_cut():
    body = b'{"data":[' + b",".join(b'{"id":"%d"}' % number for number in range(MAX_MODELS + 5)) + b"]}"
    models = read_models(body)
    assert models is not None
    assert len(models) == MAX_MODELS


def test_the_first_object_of_an_id_wins():
    merged = merge_models([[{"id": "a", "n": 1}], [{"id": "b"}, {"id": "a", "n": 2}], []])
    assert merged == [{"id": "a", "n": 1}, {"id": "b"}]


@given(st.binary(max_size=100))
def test_no_bytes_make_it_raise(body):
    assert read_models(body) is None or isinstance(read_models(body), tuple)
