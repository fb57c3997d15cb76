"""The effective configuration as YAML."""

from pathlib import Path

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from warmroute.config.load import load
from warmroute.config.render import as_yaml
from warmroute.config.tree import Config


def test_values_that_are_no_defaults_tell_their_source(tmp_path: Path) -> None:
    path = tmp_path / "router.yaml"
    path.write_text("server:\n  port: 8080\n")
    loaded = load({"WARMROUTE_LOG_LEVEL": "warn"}, {"config-path": str(path), "worker": ["a:1", "b:2"]})
    lines = as_yaml(loaded.config, loaded.settings).splitlines()
    assert f"  port: 8080  # {path}:2" in lines
    assert "  level: warn  # WARMROUTE_LOG_LEVEL" in lines
    assert "  worker: ['http://a:1', 'http://b:2']  # --worker" in lines
    assert "  policy: request_num  # default with a configuration file" in lines
    assert "  splitwise: false" in lines


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.text(st.characters(exclude_categories=["Cs"]), min_size=1),
    port=st.integers(0, 65535),
    weight=st.floats(0, 1e9),
    origins=st.lists(st.sampled_from(["*", "http://a", "null", "https://b.example:8443"])),
)
@example(text="\x85 a\u2028b", port=0, weight=0.0, origins=[])
def test_what_is_printed_loads_as_the_same_configuration(
    tmp_path: Path, text: str, port: int, weight: float, origins: list[str]
) -> None:
    config = Config.model_validate(
        {
            "server": {"name": text, "port": port, "cors_allowed_origins": origins},
            "scheduler": {"hit_ratio_weight": weight, "policy": text},
        }
    )
    path = tmp_path / "printed.yaml"
    path.write_text(as_yaml(config, {}), encoding="utf-8")
    loaded = load({}, {"config-path": str(path)})
    assert loaded.problems == ()
    assert loaded.config == config
