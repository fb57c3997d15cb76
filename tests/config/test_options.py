"""The flat table of options."""

from warmroute.config.options import all_options, nearest
from warmroute.config.tree import Config


def test_every_field_of_the_tree_is_one_option() -> None:
    fields = {
        f"{section}.{name.replace('_', '-')}"
        for section in Config.model_fields
        for name in type(getattr(Config(), section)).model_fields
    }
    assert {option.path for option in all_options()} == fields


def test_no_two_options_share_a_flag() -> None:
    flags = [option.flag for option in all_options()]
    assert len(flags) == len(set(flags))
    assert len({option.variable for option in all_options()}) == len(flags)


def test_names_of_an_option() -> None:
    table = {option.path: option for option in all_options()}
    assert (table["log.level"].flag, table["log.level"].variable) == ("log-level", "WARMROUTE_LOG_LEVEL")
    assert table["scheduler.hit-ratio-weight"].variable == "WARMROUTE_HIT_RATIO_WEIGHT"
    assert table["server.mode"].choices == ("debug", "release", "test")
    assert table["server.port"].kind == "whole number"
    assert table["manager.worker"].kind == "list"
    assert table["scheduler.prefill-policy"].file_default == "process_tokens"


def test_nearest_finds_the_same_key_in_another_section() -> None:
    paths = [option.path for option in all_options()]
    assert nearest("server.policy", paths) == "scheduler.policy"
    assert nearest("scheduler.polcy", paths) == "scheduler.policy"
    assert nearest("port", paths) == "server.port"


def test_nearest_suggests_nothing_that_is_not_alike() -> None:
    assert nearest("nosuch", ["bench", "check", "demo", "engine", "serve"]) is None
    assert (
        nearest("server.xyzzy", [option.path for option in all_options()]) is None
    )  # the section alone is no likeness
    assert nearest("WARMROUTE_XYZZY", [option.variable for option in all_options()]) is None
    assert nearest("--xyzzy=1", [f"--{option.flag}" for option in all_options()]) is None
    assert nearest("anything", []) is None
