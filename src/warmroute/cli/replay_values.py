"""Types of the values that `warmroute replay` takes."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from warmroute.cli.values import not_negative, positive, positive_int
from warmroute.config.options import hint, kebab
from warmroute.config.tree import SchedulerConfig
from warmroute.prompts.prompt import Prompt
from warmroute.replay.model import EngineModel
from warmroute.replay.rival import Rival, View
from warmroute.replay.run import AnyPolicy
from warmroute.rivals import RIVALS
from warmroute.rivals.oracle import Oracle
from warmroute.scheduling.policy import Policy
from warmroute.scheduling.registry import create_policy, policy_names
from warmroute.scheduling.worker import Worker

_WHOLE = ("step_tokens", "max_running")
ORACLE = "oracle"


def rate_factor(text: str) -> float:
    """`x2`, `2x` or `2`."""
    return positive(text.strip("x"))


def speed_list(text: str) -> tuple[float, ...]:
    """Numbers above 0, separated by commas."""
    return tuple(positive(part) for part in text.split(","))


def engine_model(text: str) -> EngineModel:
    """`prefill_token=5e-5,step_tokens=2048`; what is not named keeps its default."""
    model = EngineModel()
    known = list(EngineModel.__dataclass_fields__)
    for part in filter(None, text.split(",")):
        name, _, number = (piece.strip() for piece in part.partition("="))
        name = name.replace("-", "_")
        if name not in known:
            raise ArgumentTypeError(f"{name!r} is none of {', '.join(known)}")
        value: Any = positive_int(number) if name in _WHOLE else not_negative(number)
        model = replace(model, **{name: value})
    return model


def scheduler_options(settings: Sequence[str]) -> SchedulerConfig:
    """The options of the scheduler with some of them set, each as `key=value`. Raises ValueError."""
    known = {kebab(name) for name in SchedulerConfig.model_fields}
    values: dict[str, str] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        key = kebab(key.strip())
        if not equals or key not in known:
            raise ValueError(f"--set {setting}: no option of the scheduler{hint(key, known)}, as in key=value")
        values[key] = value
    try:
        return SchedulerConfig.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        raise ValueError(f"--set {first['loc'][0]}: {first['msg']}") from None


def policy_by_name(name: str) -> AnyPolicy:
    """A policy that can be configured, a rival, or the oracle. Raises ValueError."""
    configurable = policy_names()
    if name in configurable:
        create_policy(name, SchedulerConfig())  # Fails here, before anything is replayed.
        return name
    if name in RIVALS:
        return Rival(name, lambda view: RIVALS[name]())
    if name == ORACLE:
        return Rival(name, _oracle)
    known = [*configurable, *RIVALS, ORACLE]
    remedy = hint(name, known) or f" (known: {', '.join(known)})"
    raise ValueError(f"--policy: unknown policy {name!r}{remedy}")


def _oracle(view: View) -> Policy:
    def foresee(worker: Worker, prompt: Prompt) -> float:
        return view.first_token_seconds(worker)

    return Oracle(foresee)
