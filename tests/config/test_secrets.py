"""Keys are read from flags, variables and files, and shown nowhere."""

import pytest

from warmroute.cli.settings import effective_config
from warmroute.config.load import ConfigError
from warmroute.config.render import as_yaml

CANARY = "sk-canary-1234"


def settings(*flags, environ=None):
    return effective_config(["--port", "1", *flags], environ or {})


def test_keys_come_from_flags_variables_and_files(tmp_path):
    path = tmp_path / "keys"
    path.write_text("# of the team\n\n  two  \nthree\r\n")
    security = settings("--api-key", "one", "--api-key-file", str(path)).config.security
    assert security.api_key == ("one", "two", "three")
    assert settings(environ={"WARMROUTE_ADMIN_KEY": "a,b"}).config.security.admin_key == ("a", "b")


def test_worker_keys_are_for_all_or_for_one(tmp_path):
    path = tmp_path / "keys"
    path.write_text("http://b:2=x=y==\nall\n")
    security = settings("--worker-key", "http://a:1/=k", "--worker-key-file", str(path)).config.security
    assert security.worker_key == ("http://a:1=k", "http://b:2=x=y==", "all")


@pytest.mark.parametrize(
    "flags",
    [
        ("--api-key", f"{CANARY} x"),
        ("--admin-key", f"{CANARY}\x7f"),
        ("--worker-key", f"http://a:1={CANARY}", f"http://a:1/=other{CANARY}"),
        ("--worker-key", f"http://a:1/base={CANARY}"),
        ("--worker-key", f"http://a:1=ä{CANARY}"),
        ("--worker-key", CANARY, f"{CANARY}2"),
    ],
)
def test_what_is_wrong_with_a_key_does_not_show_it(flags):
    with pytest.raises(ConfigError) as caught:
        settings(*flags)
    assert len(caught.value.problems) == 1
    assert flags[0] in str(caught.value)
    assert CANARY not in str(caught.value)


def test_a_wrong_type_in_a_file_does_not_show_it(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text(f"security:\n  api-key: {{a: {CANARY}}}\n")
    with pytest.raises(ConfigError) as caught:
        settings("--config-path", str(path))
    assert str(caught.value) == f"{path}:2: security.api-key must be a list"


@pytest.mark.parametrize(
    ("content", "reason"), [(None, "no such file"), ("\n# none\n", "holds no key"), ("a b", "holds a key")]
)
def test_a_key_file_that_cannot_be_used_is_named(tmp_path, content, reason):
    path = tmp_path / "keys"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError, match=reason) as caught:
        settings("--api-key-file", str(path))
    assert str(caught.value).startswith(f"--api-key-file: {path}")


def test_the_printed_configuration_tells_only_how_many_there_are(tmp_path):
    path = tmp_path / "keys"
    path.write_text(f"{CANARY}-file\n")
    effective = settings(
        "--api-key", CANARY, "--api-key-file", str(path), "--admin-key", CANARY, "--worker-key", f"http://a:1={CANARY}"
    )
    page = as_yaml(effective.config, effective.settings)
    assert CANARY not in page
    assert "  # api-key: 2, not shown" in page.splitlines()
    assert "  # worker-key: 1, not shown" in page.splitlines()
    assert CANARY not in repr(effective.config)


def test_networks_are_checked():
    assert settings().config.security.allow_registration_from == ("loopback", "private")
    given = settings("--allow-registration-from", "10.0.0.0/8,192.0.2.1").config.security
    assert given.allow_registration_from == ("10.0.0.0/8", "192.0.2.1")
    with pytest.raises(ConfigError, match="--allow-registration-from 'all' must be a CIDR block"):
        settings("--allow-registration-from", "all")
