"""What must be there for `--kv-events`, and what does not go with it."""

import importlib.util
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models

from warmroute.cli.settings import effective_config
from warmroute.config.load import ConfigError


def problems(*argv: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        effective_config(argv, {}, serving=False)
    return list(caught.value.problems)


@pytest.fixture
def tokenizer(tmp_path: Path) -> str:
    path = tmp_path / "tokenizer.json"
    Tokenizer(models.WordLevel({"a": 0}, unk_token="a")).save(str(path))
    return str(path)


def test_engines_tokenise_by_default():
    config = effective_config(["--kv-events", "--kv-events-endpoint", "tcp://*:5557"], {}).config
    assert config.scheduler.kv_events
    assert config.manager.kv_events_endpoint == ("tcp://*:5557",)


def test_a_tokenizer_needs_its_chat_template(tokenizer: str):
    (problem,) = problems("--kv-events", "--tokenizer", tokenizer)
    assert "no chat template" in problem
    assert "--chat-template" in problem
    Path(tokenizer).with_name("chat_template.jinja").write_text("{{ messages }}")
    assert effective_config(["--kv-events", "--tokenizer", tokenizer], {}).config.scheduler.tokenizer == tokenizer


def test_what_is_of_no_use(tokenizer: str):
    assert problems("--chat-template", "x") == ["--chat-template needs kv-events"]
    assert problems("--kv-events-endpoint", "tcp://*:5557") == ["--kv-events-endpoint needs kv-events"]
    assert problems("--kv-events", "--chat-template", "x") == [
        "--chat-template needs tokenizer: without it engines tokenise"
    ]
    assert problems("--kv-events", "--tokenizer-url", "http://t:1") == [
        "--tokenizer-url cannot be used with kv-events: engines tokenise"
    ]


def test_missing_packages_are_named_with_the_extra(monkeypatch: pytest.MonkeyPatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "warmroute.cli.checks.find_spec", lambda name: None if name in ("zmq", "jinja2") else find(name)
    )
    assert problems("--kv-events") == [
        "--kv-events needs packages (zmq, jinja2): pip install 'warmroute[kv-events]'",
    ]
