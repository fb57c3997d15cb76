"""Policies by name, with packages of other people that are right, wrong and broken. Their metadata is real."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from tests.support.pools import make_worker, rows

from warmroute.config.tree import SchedulerConfig
from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.errors import UnknownPolicy, UnusablePolicy
from warmroute.scheduling.policies.cache_aware import CacheAware
from warmroute.scheduling.policies.round_robin import RoundRobin
from warmroute.scheduling.registry import create_policy, policy_names, policy_options

SOURCE = """
from dataclasses import dataclass, field


def last(candidates, prompt, rng):
    return candidates[-1]


async def slow(candidates, prompt, rng):
    return candidates[0]


class Slow:
    async def __call__(self, candidates, prompt, rng):
        return candidates[0]


def short(candidates):
    return candidates[0]


@dataclass(frozen=True)
class Weighted:
    load_balance_weight: float
    depth: int = 3
    reads_reports = True

    def __call__(self, candidates, prompt, rng):
        return candidates[self.depth % len(candidates)]


@dataclass(frozen=True)
class Demanding:
    temperature: float

    def __call__(self, candidates, prompt, rng):
        return candidates[0]


@dataclass(frozen=True)
class Refusing:
    def __post_init__(self):
        raise ValueError("not today")

    def __call__(self, candidates, prompt, rng):
        return candidates[0]


class Idle:
    pass


NUMBER = 7
"""


def install(site: Path, package: str, entries: dict[str, str], source: str = SOURCE) -> None:
    """Put a package into `site` as an installer would: its module and its metadata."""
    module = package.replace("-", "_")
    (site / f"{module}.py").write_text(source)
    info = site / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = "\n".join(f"{name} = {module}:{target}" for name, target in entries.items())
    (info / "entry_points.txt").write_text(f"[warmroute.policies]\n{lines}\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_our_own_policies_need_no_list():
    assert isinstance(create_policy("round_robin", SchedulerConfig()).choose, RoundRobin)
    assert create_policy("remote_cache_aware", SchedulerConfig()).reads_reports
    assert not create_policy("cache_aware", SchedulerConfig()).reads_reports


def test_options_come_from_the_configuration_and_zero_is_zero():
    options = SchedulerConfig(hit_ratio_weight=0, load_balance_weight=0.05, balance_abs_threshold=0)
    assert create_policy("cache_aware", options).choose == CacheAware(0, 0.05, 0, None)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("random", set()),
        ("round_robin", set()),
        ("fd_metrics_score", {"waiting_weight"}),
        ("fd_remote_metrics_score", {"waiting_weight"}),
        (
            "cache_aware",
            {"hit_ratio_weight", "load_balance_weight", "balance_abs_threshold", "balance_rel_threshold"},
        ),
    ],
)
def test_the_options_that_a_policy_reads(name: str, options: set[str]):
    assert policy_options(name) == options
    assert options <= SchedulerConfig.model_fields.keys()


@pytest.mark.parametrize("ask", [policy_options, lambda name: create_policy(name, SchedulerConfig())])
def test_an_unknown_name_is_told_with_the_nearest_and_all(ask):
    with pytest.raises(UnknownPolicy, match="unknown policy 'cache_awre'; did you mean 'cache_aware'") as caught:
        ask("cache_awre")
    assert caught.value.nearest == "cache_aware"
    assert "power_of_two" in str(caught.value)
    with pytest.raises(UnknownPolicy) as caught:
        ask("zzz")
    assert caught.value.nearest is None


def test_each_instance_is_new():
    one, other = (create_policy("round_robin", SchedulerConfig()) for _ in range(2))
    assert one.choose is not other.choose


def test_a_function_of_another_package(site: Path):
    install(site, "other-function", {"last": "last"})
    assert "last" in policy_names()
    candidates = rows([make_worker("a"), make_worker("b")])
    made = create_policy("last", SchedulerConfig())
    assert made(candidates, Prompt(), Random(0)) is candidates[-1]
    assert (made.name, made.reads_reports, policy_options("last")) == ("last", False, set())


def test_a_dataclass_of_another_package(site: Path):
    """Fields named like options are filled from them; others keep their default."""
    install(site, "other-dataclass", {"weighted": "Weighted"})
    made = create_policy("weighted", SchedulerConfig(load_balance_weight=2.5))
    assert (made.choose.load_balance_weight, made.choose.depth, made.reads_reports) == (2.5, 3, True)
    assert policy_options("weighted") == {"load_balance_weight"}


def test_the_name_of_one_of_ours_cannot_be_taken(site: Path):
    install(site, "other-greedy", {"cache_aware": "last"})
    assert isinstance(create_policy("cache_aware", SchedulerConfig()).choose, CacheAware)
    assert policy_names().count("cache_aware") == 1


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("missing", "cannot be loaded: AttributeError"),
        ("NUMBER", "is not callable"),
        ("Idle", "is not callable: Idle has no __call__"),
        ("slow", "must be a plain function"),
        ("Slow", "must be a plain function"),
        ("short", "must be callable as"),
        ("Demanding", "option 'temperature' that the configuration does not know"),
        ("Refusing", "cannot be made: ValueError: not today"),
    ],
)
def test_a_wrong_policy_fails_when_asked_for_and_names_its_package(site: Path, target: str, reason: str):
    install(site, f"other-{target.lower()}-x", {"wrong": target})
    assert "wrong" in policy_names()
    with pytest.raises(UnusablePolicy, match=reason) as caught:
        create_policy("wrong", SchedulerConfig())
    assert caught.value.package == f"other-{target.lower()}-x"


def test_a_package_that_cannot_be_imported_harms_nobody_else(site: Path):
    install(site, "other-broken", {"broken": "last"}, source="import not_installed_anywhere\n")
    assert "broken" in policy_names()
    create_policy("random", SchedulerConfig())
    with pytest.raises(UnusablePolicy, match=r"'other-broken' cannot be loaded: ModuleNotFoundError"):
        create_policy("broken", SchedulerConfig())


def test_two_packages_of_one_name_are_ambiguous(site: Path):
    install(site, "other-first", {"twin": "last"})
    install(site, "other-second", {"twin": "last"})
    with pytest.raises(UnusablePolicy, match="ambiguous") as caught:
        create_policy("twin", SchedulerConfig())
    assert "other-first" in caught.value.package
    assert "other-second" in caught.value.package
