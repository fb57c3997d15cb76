import pytest

from warmroute.cli import checks
from warmroute.cli.settings import effective_config
from warmroute.config.load import ConfigError


def test_an_endpoint_without_its_extra_is_told_before_the_start(monkeypatch):
    monkeypatch.setattr(checks, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"--otlp-endpoint needs .* pip install 'warmroute\[otel\]'"):
        effective_config(["--otlp-endpoint", "http://collector:4318"], {})
    effective_config([], {})


def test_an_endpoint_is_a_url():
    with pytest.raises(ConfigError, match=r"--otlp-endpoint .*http://host:port"):
        effective_config(["--otlp-endpoint", "collector:4318"], {})
