"""Which build runs."""

from warmroute import build
from warmroute.gateway import relay


def test_source_is_told_from_compiled_code():
    assert build.code() == ("interpreted" if relay.__file__.endswith(".py") else "compiled")


def test_a_module_that_is_not_there_is_not_compiled(monkeypatch):
    monkeypatch.setattr(build, "_ONE_OF_THEM", "warmroute.no_such_module")
    assert build.code() == "interpreted"
