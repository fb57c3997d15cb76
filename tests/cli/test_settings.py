"""From flags and variables to a checked Config: everything that can be wrong with it, and FastDeploy's own files."""

from pathlib import Path

import pytest

from warmroute.cli.parser import UsageError
from warmroute.cli.settings import effective_config
from warmroute.config.load import ConfigError

EXAMPLES = Path(__file__).parents[2] / "examples" / "fastdeploy"

# Every key of FastDeploy's router; splitwise is off, so that the file can be served.
MIXED = """
server: {host: 0.0.0.0, port: "8080", name: r, mode: release, splitwise: false, afd: false}
topology: {etcd-endpoints: [], etcd-prefix: ""}
scheduler: {policy: power_of_two, prefill-policy: cache_aware, decode-policy: fd_metrics_score, waiting-weight: 10,
  hit-ratio-weight: 1.0, eviction-interval-secs: 60, cache-block-size: 4}
"""


def problems(*argv: str, serving: bool = False, **environ: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        effective_config(argv, environ, serving=serving)
    assert str(caught.value) == caught.value.problems[0]
    assert not [problem for problem in caught.value.problems if "\n" in problem]
    return list(caught.value.problems)


def write(directory: Path, text: str, name: str = "router.yaml") -> str:
    path = directory / name
    path.write_text(text)
    return str(path)


def test_fastdeploys_example_is_accepted_in_full() -> None:
    effective = effective_config(["--config_path", str(EXAMPLES / "config.yaml")], {})
    config = effective.config
    assert (config.server.port, config.server.mode, config.server.splitwise) == (8080, "debug", True)
    scheduler = config.scheduler
    assert (scheduler.policy, scheduler.prefill_policy, scheduler.decode_policy) == (
        "power_of_two",
        "cache_aware",
        "fd_metrics_score",
    )
    assert (scheduler.balance_abs_threshold, scheduler.balance_rel_threshold) == (1, 0.2)
    assert (scheduler.hit_ratio_weight, scheduler.load_balance_weight, scheduler.waiting_weight) == (1.0, 0.05, 10)
    assert (scheduler.cache_block_size, scheduler.tokenizer_url) == (4, "http://127.0.0.1:8098")
    assert (config.manager.health_failure_threshold, config.manager.health_success_threshold) == (3, 2)
    assert Path(config.manager.register_path) == EXAMPLES / "register.yaml"
    assert (config.log.level, config.log.output) == ("info", "file")


def test_a_register_file_is_found_from_the_working_directory_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").mkdir()
    for place in ("workers.yaml", "config/workers.yaml"):
        write(tmp_path, "instances: [{role: mixed, host_ip: 127.0.0.1, port: 8000}]", place)
    path = write(tmp_path, "manager: {register-path: workers.yaml}", "config/router.yaml")
    monkeypatch.chdir(tmp_path)
    assert effective_config(["--config-path", path], {}).config.manager.register_path == "workers.yaml"
    (tmp_path / "workers.yaml").unlink()
    found = effective_config(["--config-path", path], {}).config.manager.register_path
    assert Path(found) == tmp_path / "config" / "workers.yaml"


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--splitwise"], True),
        (["--splitwise=true"], True),
        (["--splitwise", "false"], False),
        (["--splitwise", "--no-splitwise"], False),
        (["--splitwise=false"], False),
        ([], False),
    ],
)
def test_forms_of_a_true_false_flag(argv: list[str], expected: bool) -> None:
    assert effective_config(argv, {}).config.server.splitwise is expected


def test_a_flag_can_turn_off_what_the_file_turns_on(tmp_path: Path) -> None:
    path = write(tmp_path, "server: {splitwise: true}")
    assert not effective_config(["--config_path", path, "--no-splitwise"], {}).config.server.splitwise


@pytest.mark.parametrize(
    "argv", [["--worker", "a:1", "--worker", "b:2"], ["--worker", "a:1", "b:2"], ["--worker=a:1,b:2"]]
)
def test_forms_of_a_list_flag(argv: list[str]) -> None:
    assert effective_config(argv, {}).config.manager.worker == ("http://a:1", "http://b:2")


def test_port_flag_overrides_the_file_and_empty_flags_do_not(tmp_path: Path) -> None:
    path = write(tmp_path, MIXED)
    assert effective_config([f"--config_path={path}", "--port", "9000"], {}).config.server.port == 9000
    assert effective_config([f"--config_path={path}", "--port", ""], {}, serving=True).config.server.port == 8080
    assert effective_config(["--config_path", "", "--port=1"], {}).config.scheduler.policy == "least_delay"


def test_serving_needs_a_port() -> None:
    assert problems(serving=True) == ["--port or server.port is required"]
    assert effective_config([], {}).notes == ("--port or server.port is required",)


def test_a_port_that_cannot_be_read_is_not_also_missing() -> None:
    assert problems("--port", "x", serving=True) == ["--port must be a valid integer, not 'x'"]


def test_splitwise_can_be_served_and_workers_may_register_later() -> None:
    assert effective_config(["--port=1", "--pd"], {}, serving=True).config.server.splitwise
    assert not effective_config(["--port=1", "--pd", "--no-pd"], {}, serving=True).config.server.splitwise


def test_prefill_and_decode_imply_splitwise() -> None:
    effective = effective_config(["--prefill", "a:1,8998", "--prefill", "b:2", "--decode", "c:3"], {})
    config = effective.config
    assert config.server.splitwise
    assert config.manager.prefill == ("http://a:1,8998", "http://b:2")
    assert config.manager.decode == ("http://c:3",)
    assert effective.settings["server.splitwise"].origin == "--prefill"
    assert effective_config([], {"WARMROUTE_DECODE": "c:3,7"}).config.server.splitwise


def test_a_later_source_may_name_prefill_workers_where_an_earlier_one_has_no_splitwise(tmp_path: Path) -> None:
    path = write(tmp_path, "server: {port: 1, splitwise: false}")
    assert effective_config(["--config_path", path, "--decode", "c:3"], {}).config.server.splitwise


def test_prefill_workers_without_splitwise_are_a_contradiction(tmp_path: Path) -> None:
    path = write(tmp_path, "server: {port: 1, splitwise: false}\nmanager: {prefill: [a:1]}")
    assert problems("--config_path", path) == [
        f"{path}:2: manager.prefill needs splitwise, but {path}:1: server.splitwise is false"
    ]
    assert problems("--prefill", "a:1", "--no-splitwise") == ["--prefill needs splitwise, but --splitwise is false"]


def test_mixed_workers_cannot_stand_beside_prefill_or_decode(tmp_path: Path) -> None:
    expected = "cannot stand beside {}: with prefill and decode workers there are no mixed ones"
    assert problems("--worker", "a:1", "--prefill", "b:2") == [f"--worker {expected.format('--prefill')}"]
    path = write(tmp_path, "manager: {worker: [a:1]}")
    assert problems("--config_path", path, WARMROUTE_DECODE="b:2") == [
        f"{path}:1: manager.worker {expected.format('WARMROUTE_DECODE')}"
    ]


def test_a_worker_has_one_role() -> None:
    assert problems("--prefill", "a:1,8998", "--decode", "a:1") == ["worker a:1 is named twice"]


def test_mixed_workers_cannot_be_served_with_splitwise() -> None:
    assert problems("--splitwise", "--worker", "a:1") == [
        "mixed worker a:1: splitwise mode only supports PREFILL/DECODE instances"
    ]


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--pd"], ("least_delay", "request_num")),
        (["--pd", "--policy", "random"], ("random", "random")),
        (["--decode", "a:1", "--policy", "random"], ("random", "random")),
        (["--pd", "--policy", "random", "--decode-policy", "round_robin"], ("random", "round_robin")),
        (["--policy", "random"], ("least_delay", "request_num")),
    ],
)
def test_with_splitwise_the_policy_is_for_the_roles_that_have_none(argv: list[str], expected: tuple[str, str]) -> None:
    scheduler = effective_config(argv, {}).config.scheduler
    assert (scheduler.prefill_policy, scheduler.decode_policy) == expected


def test_a_policy_that_is_given_comes_before_the_defaults_of_a_file(tmp_path: Path) -> None:
    path = write(tmp_path, "server: {splitwise: true}")
    for argv, expected in (([], ("process_tokens", "request_num")), (["--policy=random"], ("random", "random"))):
        scheduler = effective_config(["--config_path", path, *argv], {}).config.scheduler
        assert (scheduler.prefill_policy, scheduler.decode_policy) == expected


def test_an_unknown_policy_for_both_roles_is_told_once() -> None:
    assert problems("--pd", "--policy", "randm") == ["--policy names an unknown policy randm (nearest known: random)"]


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["--engine", "trt"], "--engine must be 'auto', 'fastdeploy', 'sglang' or 'vllm', not 'trt'"),
        (["--pd-decode-alone=maybe"], "--pd-decode-alone must be 'auto' or 'never', not 'maybe'"),
        (["--preempt-retry-count=-1"], "--preempt-retry-count must be greater than or equal to 0, not '-1'"),
        (["--prefill", "a:1,70000"], "--prefill 'a:1,70000' must be URL,PORT with one port from 1 to 65535"),
        (["--prefill", "8998"], "--prefill '8998' is a port without a URL before it"),
    ],
)
def test_values_that_only_prefill_and_decode_know(argv: list[str], expected: str) -> None:
    assert problems(*argv) == [expected]


def test_unknown_policies_name_the_nearest(tmp_path: Path) -> None:
    path = write(tmp_path, "scheduler: {policy: cache_awre}")
    assert problems("--config_path", path, "--prefill-policy", "process_token", WARMROUTE_DECODE_POLICY="req_num") == [
        f"{path}:1: scheduler.policy names an unknown policy cache_awre (nearest known: cache_aware)",
        "--prefill-policy names an unknown policy process_token (nearest known: process_tokens)",
        "WARMROUTE_DECODE_POLICY names an unknown policy req_num (nearest known: request_num)",
    ]


def test_keys_that_the_policy_does_not_use_give_one_note(tmp_path: Path) -> None:
    path = write(tmp_path, MIXED)
    effective = effective_config(["--config_path", path], {}, serving=True)
    assert effective.notes == ("not used by policy power_of_two: scheduler.waiting-weight, scheduler.hit-ratio-weight",)


def test_a_variable_that_the_policy_does_not_use_is_named_in_the_note(tmp_path: Path) -> None:
    path = write(tmp_path, "scheduler: {policy: random, waiting-weight: 2}")
    effective = effective_config(["--config_path", path], {"WARMROUTE_HIT_RATIO_WEIGHT": "2"})
    (note,) = [note for note in effective.notes if "not used" in note]
    assert note == "not used by policy random: scheduler.waiting-weight, WARMROUTE_HIT_RATIO_WEIGHT"


def test_an_origin_that_no_browser_sends_is_refused() -> None:
    (problem,) = problems("--cors-allowed-origins", "foo")
    assert problem == (
        "--cors-allowed-origins 'foo' has no host; must be * or scheme://host[:port], as in https://chat.example"
    )


def test_flags_that_the_policy_does_not_use_are_refused() -> None:
    (problem,) = problems("--policy", "random", "--hit-ratio-weight", "2")
    assert problem == (
        "--hit-ratio-weight is not used by policy random; it is for policies cache_aware, remote_cache_aware"
    )
    assert effective_config(["--policy", "cache_aware", "--hit-ratio-weight", "2"], {}).notes == (
        "--port or server.port is required",
    )


def test_with_splitwise_the_pair_of_policies_decides_what_is_used() -> None:
    argv = [
        "--splitwise",
        "--policy",
        "cache_aware",
        "--prefill-policy",
        "random",
        "--decode-policy",
        "fd_metrics_score",
    ]
    assert effective_config([*argv, "--waiting-weight", "3"], {}).config.scheduler.waiting_weight == 3
    (problem,) = problems(*argv, "--load-balance-weight", "3")
    assert problem.startswith("--load-balance-weight is not used by policies fd_metrics_score, random; it is for")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "instances: [{role: mixed, host_ip: 127.0.0.1}]",
            "instances[0]: invalid InstanceInfo format:port is required",
        ),
        ("instances: {a: 1}", "expected a list `instances:`"),
        ("instances: [", "expected the node content"),
        ("workers: []", ":1: unknown key workers"),
        ("instances: [{role: decode, host_ip: a, port: 1}]", "decode worker a:1: only MIXED instances are allowed"),
        (
            "instances: [{role: mixed, host_ip: a, port: 1}, {role: mixed, host_ip: a, port: '1'}]",
            "worker a:1 is named twice",
        ),
    ],
)
def test_a_register_file_is_checked_at_start(tmp_path: Path, text: str, expected: str) -> None:
    (problem,) = problems("--register-path", write(tmp_path, text))
    assert expected in problem


def test_a_register_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    (problem,) = problems("--register-path", str(tmp_path / "none.yaml"))
    assert "register-path" in problem
    assert "none.yaml" in problem


def test_a_worker_in_flag_and_register_file_is_a_mistake(tmp_path: Path) -> None:
    path = write(tmp_path, "instances: [{role: mixed, host_ip: 127.0.0.1, port: 8000}]")
    assert problems("--register-path", path, "--worker", "127.0.0.1:8000") == ["worker 127.0.0.1:8000 is named twice"]


def test_a_tokenizer_must_be_there(tmp_path: Path) -> None:
    missing = str(tmp_path / "tokenizer.json")
    assert problems("--tokenizer", missing) == [f"--tokenizer: there is no file {missing}"]


def test_every_error_is_told_at_once(tmp_path: Path) -> None:
    path = write(tmp_path, "server: {prot: 1}\nscheduler: {policy: nope}\n")
    found = problems(f"--config_path={path}", "--polcy", "x", "--max-body-bytes=0", serving=True, WARMROUTE_PROT="1")
    assert [problem.replace(path, "F") for problem in found] == [
        "unknown flag --polcy (nearest known: --policy)",
        "F:1: unknown key server.prot (nearest known: server.port)",
        "unknown environment variable WARMROUTE_PROT (nearest known: WARMROUTE_PORT)",
        "--max-body-bytes must be greater than or equal to 1, not '0'",
        "F:2: scheduler.policy names an unknown policy nope (known: cache_aware, fd_metrics_score, "
        "fd_remote_metrics_max_gpu_block, fd_remote_metrics_score, kv_room, least_delay, power_of_two, process_tokens, "
        "random, remote_cache_aware, request_num, round_robin)",
        "--port or server.port is required",
    ]


def test_a_flag_without_its_value_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="--port: expected one argument"):
        effective_config(["--port"], {})
