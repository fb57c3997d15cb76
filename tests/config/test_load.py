"""From the sources to one Config: precedence, spelling, and what every kind of mistake is called."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from warmroute.config.load import Loaded, load
from warmroute.config.options import Option, all_options
from warmroute.config.tree import Config

OPTIONS = {option.path: option for option in all_options()}


def from_yaml(directory: Path, text: str, environ: dict[str, str] | None = None, **flags: object) -> Loaded:
    path = directory / "router.yaml"
    path.write_text(text)
    return load(environ or {}, {"config-path": str(path), **flags})


def problems(directory: Path, text: str) -> list[str]:
    return [problem.replace(f"{directory}/", "") for problem in from_yaml(directory, text).problems]


def value(loaded: Loaded, path: str) -> Any:
    return getattr(getattr(loaded.config, OPTIONS[path].section), OPTIONS[path].field)


def test_without_sources_the_defaults_hold() -> None:
    loaded = load({}, {})
    assert loaded.config == Config()
    assert loaded.problems == ()
    assert (loaded.config.scheduler.policy, loaded.config.scheduler.prefill_policy) == ("least_delay", "least_delay")
    assert loaded.config.scheduler.decode_policy == "request_num"


@pytest.mark.parametrize("text", ["", "scheduler:\n", 'scheduler: {policy: "", prefill-policy: , decode-policy: null}'])
def test_a_file_that_names_no_policy_gets_fastdeploys_defaults(tmp_path: Path, text: str) -> None:
    scheduler = from_yaml(tmp_path, text).config.scheduler
    assert (scheduler.policy, scheduler.prefill_policy, scheduler.decode_policy) == (
        "request_num",
        "process_tokens",
        "request_num",
    )


def test_flag_and_variable_beat_the_policy_default_of_a_file(tmp_path: Path) -> None:
    loaded = from_yaml(tmp_path, "", {"WARMROUTE_PREFILL_POLICY": "random"}, policy="cache_aware")
    assert (loaded.config.scheduler.policy, loaded.config.scheduler.prefill_policy) == ("cache_aware", "random")


def test_values_as_fastdeploy_writes_them(tmp_path: Path) -> None:
    loaded = from_yaml(
        tmp_path, 'server: {port: "8080", name: 7}\nscheduler: {tokenizer_timeout_secs: 3}\nlog: {level: INFO}'
    )
    assert loaded.problems == ()
    assert loaded.config.server.port == 8080
    assert loaded.config.server.name == "7"
    assert loaded.config.scheduler.tokenizer_timeout_secs == 3.0
    assert loaded.config.log.level == "info"


def test_zero_is_zero_in_every_source(tmp_path: Path) -> None:
    text = "scheduler: {hit-ratio-weight: 0, balance-abs-threshold: 0}"
    loaded = from_yaml(tmp_path, text, {"WARMROUTE_LOAD_BALANCE_WEIGHT": "0"}, **{"waiting-weight": "0"})
    scheduler = loaded.config.scheduler
    assert (scheduler.hit_ratio_weight, scheduler.load_balance_weight, scheduler.waiting_weight) == (0, 0, 0)
    assert scheduler.balance_abs_threshold == 0


def test_lists_from_every_source(tmp_path: Path) -> None:
    expected = ("http://a:1", "http://b:2")
    assert from_yaml(tmp_path, "manager: {worker: [a:1, 'http://b:2']}").config.manager.worker == expected
    assert load({"WARMROUTE_WORKER": "a:1, b:2"}, {}).config.manager.worker == expected
    assert load({}, {"worker": ["a:1", "b:2/"]}).config.manager.worker == expected


def test_a_bare_number_belongs_to_the_url_before_it_in_every_source(tmp_path: Path) -> None:
    expected = ("http://a:1,8998", "http://b:2")
    for text in ("[a:1, 8998, b:2]", "['a:1,8998', 'b:2']", "'a:1,8998,b:2'", "[a:1, '8998', 'http://b:2/']"):
        assert from_yaml(tmp_path, f"manager: {{prefill: {text}}}").config.manager.prefill == expected
    assert load({"WARMROUTE_PREFILL": "a:1, 8998, b:2"}, {}).config.manager.prefill == expected
    for flag in (["a:1,8998", "b:2"], ["a:1", "8998", "b:2"]):
        assert load({}, {"prefill": flag}).config.manager.prefill == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("server: {prot: 1}", "router.yaml:1: unknown key server.prot (nearest known: server.port)"),
        ("server:\n  policy: random", "router.yaml:2: unknown key server.policy (nearest known: scheduler.policy)"),
        ("schedular: {policy: random}", "router.yaml:1: unknown section schedular (nearest known: scheduler)"),
        (
            "metrics: {port: 9}",
            "router.yaml:1: unknown section metrics "
            "(known: server, topology, log, manager, scheduler, security, telemetry)",
        ),
        ("port: 8080", "router.yaml:1: unknown key port (nearest known: server.port)"),
        (
            "log: {level: loud}",
            "router.yaml:1: log.level must be 'debug', 'info', 'warn', 'warning' or 'error', not 'loud'",
        ),
        ("server: {port: x}", "router.yaml:1: server.port must be a valid integer, not 'x'"),
        ("server: {port: 65536}", "router.yaml:1: server.port must be less than or equal to 65535, not 65536"),
        ("server: {splitwise: maybe}", "router.yaml:1: server.splitwise must be true or false, not 'maybe'"),
        ("server: {afd: true}", "router.yaml:1: server.afd is not supported"),
        ("topology: {etcd-endpoints: [a:1]}", "router.yaml:1: topology.etcd-endpoints is not supported"),
        ("topology: {etcd-prefix: /x}", "router.yaml:1: topology.etcd-prefix is not supported"),
        ("manager: {worker: [a]}", "router.yaml:1: manager.worker 'a' needs a port, as in http://host:port"),
        ("server: a: b", "router.yaml:1: mapping values are not allowed here"),
        ("manager: {worker: {a: 1}}", "router.yaml:1: manager.worker must be a list, not {'a': 1}"),
        (
            "manager: {health-check-interval-secs: .nan}",
            "router.yaml:1: manager.health-check-interval-secs must be a finite number, not nan",
        ),
        (
            "scheduler: {tokenizer-url: t:1}",
            "router.yaml:1: scheduler.tokenizer-url 't:1' has no host; must be a URL such as http://host:port/path",
        ),
        ("log:\n  level: info\n  level: info", "router.yaml:3: key log.level is given in line 2 already"),
        (
            "server: {max_body_bytes: 1, max-body-bytes: 2}",
            "router.yaml:1: key server.max-body-bytes is given in line 1 already",
        ),
        ("log: {}\nlog: {}", "router.yaml:2: key log is given in line 1 already"),
        ("log: [info]", "router.yaml:1: section log must hold keys and values"),
        ("- log", "router.yaml: must hold sections such as `server:` and `scheduler:`"),
        ("? [1]\n: 2", "router.yaml:1: unknown key ?"),
    ],
)
def test_each_mistake_in_a_file_is_told_with_its_place(tmp_path: Path, text: str, expected: str) -> None:
    assert problems(tmp_path, text) == [expected]


def test_all_mistakes_are_told_at_once_and_the_rest_is_kept(tmp_path: Path) -> None:
    loaded = from_yaml(
        tmp_path,
        "server: {prot: 1, mode: test}\nscheduler: {waiting-weight: -1}",
        {"WARMROUTE_POLCY": "x", "WARMROUTE_MAX_BODY_BYTES": "many"},
        port="0x50",
    )
    assert [problem.replace(f"{tmp_path}/", "") for problem in loaded.problems] == [
        "router.yaml:1: unknown key server.prot (nearest known: server.port)",
        "unknown environment variable WARMROUTE_POLCY (nearest known: WARMROUTE_POLICY)",
        "--port must be a valid integer, not '0x50'",
        "WARMROUTE_MAX_BODY_BYTES must be a valid integer, not 'many'",
        "router.yaml:2: scheduler.waiting-weight must be greater than or equal to 0, not -1",
    ]
    assert loaded.config.server.mode == "test"


def test_left_over_arguments_are_named() -> None:
    loaded = load({}, {}, ["--polcy", "random", "stray", "--log-lvl=info"])
    assert loaded.problems == (
        "unknown flag --polcy (nearest known: --policy)",
        "unexpected argument 'stray'",
        "unknown flag --log-lvl (nearest known: --log-level)",
    )


def test_the_file_may_be_named_by_a_variable(tmp_path: Path) -> None:
    path = tmp_path / "router.yaml"
    path.write_text("server: {port: 1234}")
    assert load({"WARMROUTE_CONFIG_PATH": str(path)}, {"config-path": ""}).config.server.port == 1234


def test_a_missing_file_is_a_problem(tmp_path: Path) -> None:
    (problem,) = load({}, {"config-path": str(tmp_path / "none.yaml")}).problems
    assert "none.yaml: cannot be read" in problem


def test_what_kubernetes_sets_for_a_service_of_that_name_is_left_out() -> None:
    links = {
        "WARMROUTE_SERVICE_HOST": "10.0.0.7",
        "WARMROUTE_SERVICE_PORT": "80",
        "WARMROUTE_SERVICE_PORT_HTTP": "80",
        "WARMROUTE_PORT": "tcp://10.0.0.7:80",
        "WARMROUTE_PORT_80_TCP": "tcp://10.0.0.7:80",
        "WARMROUTE_PORT_80_TCP_ADDR": "10.0.0.7",
    }
    assert load(links, {}).problems == ()
    assert load({**links, "WARMROUTE_PORT": "8080"}, {}).config.server.port == 8080
    assert len(load({"WARMROUTE_PORT_80_TCP": "x"}, {}).problems) == 1


def sample(option: Option) -> st.SearchStrategy[str]:
    """Good values for an option, as text."""
    if option.path in ("server.afd", "topology.etcd-endpoints", "topology.etcd-prefix"):
        return st.just("")
    if option.path in ("manager.worker", "manager.prefill", "manager.decode"):
        return st.sampled_from(["http://a:1", "http://b:2"])
    if option.path == "telemetry.otlp-sample-ratio":
        return st.sampled_from(["0.25", "1"])
    if option.path in ("scheduler.tokenizer-url", "telemetry.otlp-endpoint"):
        return st.sampled_from(["http://t:1", "http://u:1/x"])
    if option.path == "manager.health-check-endpoint":
        return st.sampled_from(["/healthz", "/ping"])
    if option.path == "server.cors-allowed-origins":
        return st.sampled_from(["https://one", "https://two"])
    if option.path == "security.allow-registration-from":
        return st.sampled_from(["10.0.0.0/8", "private"])
    if option.path == "log.levels":
        return st.sampled_from(["gateway=debug", "fleet=warning,telemetry=error"])
    if option.path in ("manager.kv-events-endpoint", "manager.kv-events-replay-endpoint"):
        return st.sampled_from(["tcp://*:5557", "http://a:1=tcp://*:5557,tcp://*:5558"])
    if option.choices:
        return st.sampled_from(option.choices)
    if option.kind == "true/false":
        return st.sampled_from(["true", "false"])
    if option.path == "manager.kv-events-ranks":
        return st.integers(1, 1024).map(str)
    if option.kind in ("whole number", "number"):
        return st.integers(1, 65535).map(str)
    return st.sampled_from(["one", "two"])


@cache
def parsed(path: str, text: str) -> Any:
    """What the option's value is when this text is all that is given."""
    return value(load({OPTIONS[path].variable: text}, {}), path)


@st.composite
def three_sources(draw: st.DrawFn) -> list[dict[str, str]]:
    """For each of file, environment and flags: some options with good or empty values."""
    return [
        {
            path: draw(st.one_of(sample(OPTIONS[path]), st.just("")))
            for path in draw(st.lists(st.sampled_from(sorted(OPTIONS)), unique=True, max_size=8))
        }
        for _ in range(3)
    ]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sources=three_sources())
def test_the_later_source_wins_for_every_option(tmp_path: Path, sources: list[dict[str, str]]) -> None:
    """For any combination of sources, the last one with a value that is not empty decides; else the default holds."""
    file, environment, flags = sources
    tree: dict[str, dict[str, str]] = {}
    for path, text in file.items():
        tree.setdefault(OPTIONS[path].section, {})[OPTIONS[path].key] = text
    loaded = from_yaml(
        tmp_path,
        yaml.safe_dump(tree),
        {OPTIONS[path].variable: text for path, text in environment.items()},
        **{OPTIONS[path].flag: text for path, text in flags.items()},
    )
    assert loaded.problems == ()
    for path, option in OPTIONS.items():
        texts = [source[path] for source in sources if source.get(path)]
        expected = texts[-1] if texts else option.file_default
        if expected is None:
            assert value(loaded, path) == option.default
        else:
            assert value(loaded, path) == parsed(path, expected)
            assert not texts or loaded.settings[path].value == expected
