"""Request targets."""

import pytest

from warmroute.gateway.targets import INFERENCE_PATHS, inference_kind, origin_form, shown_path, without_upgrade


def test_inference_kinds():
    assert inference_kind(b"/v1/chat/completions") == "chat"
    assert inference_kind(b"/v1/completions?a=b?c") == "completions"
    for path in (b"/generate", b"/v1/embeddings", b"/v1/responses", b"/v1/messages", b"/v1/rerank", b"/tokenize"):
        assert inference_kind(path) == "other"
    assert len(INFERENCE_PATHS) == 8


@pytest.mark.parametrize(
    "target",
    [
        b"/",
        b"*",
        b"/v1/chat/completions/",
        b"//v1/chat/completions",
        b"/V1/completions",
        b"/v1%2Fcompletions",
        b"/?/tokenize",
    ],
)
def test_other_targets(target):
    assert inference_kind(target) is None


@pytest.mark.parametrize(
    ("target", "form"),
    [
        (b"/a?b", b"/a?b"),
        (b"http://h/a?b=c", b"/a?b=c"),
        (b"https://u:p@h:1/a", b"/a"),
        (b"http://h", b"/"),
        (b"http://[::1]:1?x", b"/?x"),
    ],
)
def test_origin_form(target, form):
    assert origin_form(target) == form


@pytest.mark.parametrize("target", [b"*", b"h:1", b"ftp://h/a", b"a/b", b"", b"http://", b"http:///a"])
def test_other_forms_are_refused(target):
    with pytest.raises(ValueError, match="request target"):
        origin_form(target)


def test_without_upgrade():
    headers = [(b"Host", b"h"), (b"Connection", b"Upgrade, close"), (b"UPGRADE", b"h2c"), (b"A", b"b")]
    head = without_upgrade(b"POST", b"/a", "1.1", headers)
    assert head == b"POST /a HTTP/1.1\r\nHost: h\r\nConnection:  close\r\nA: b\r\n\r\n"


def test_logs_show_no_query():
    assert shown_path(b"/v1/completions?key=secret?x") == "/v1/completions"
    assert shown_path(b"/v1/completions") == "/v1/completions"
    assert shown_path(b"/\xff?") == "/\xff"
