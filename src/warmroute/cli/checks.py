"""Checks that look beyond one option: files that must be there, policies and what they use, what serving needs.

Each gives problems as single lines that name the setting; none raises for bad input.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from warmroute.config.options import hint
from warmroute.config.sources import Setting, Source
from warmroute.config.tree import Config
from warmroute.fleet.errors import InvalidInstance
from warmroute.fleet.instance import check_role
from warmroute.fleet.static import read_statics
from warmroute.prompts.chat_template import ChatTemplate
from warmroute.prompts.tokenizer import TokenizerError
from warmroute.scheduling.errors import SchedulingError
from warmroute.scheduling.registry import create_policy, policy_names, policy_options
from warmroute.telemetry.access_log import STDOUT
from warmroute.tls import ClientTls, ServerTls, TlsError


@dataclass(slots=True)
class Found:
    """What a check has to say: problems end the start, notes go to the log."""

    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def find_files(config: Config, config_path: str) -> Config:
    """The configuration with `register-path` as it was found.

    As in FastDeploy it counts from the working directory; what is not there is looked for beside the file that
    names it.
    """
    given = config.manager.register_path
    beside = Path(config_path).parent / given
    if not given or not config_path or Path(given).exists() or not beside.exists():
        return config
    manager = config.manager.model_copy(update={"register_path": str(beside)})
    return config.model_copy(update={"manager": manager})


def workers(config: Config) -> list[str]:
    """What is wrong with the workers that are named, one by one or in the register file."""
    found = read_statics(config.manager)
    problems = [" ".join(problem.split()) for problem in found.problems]
    ids: set[str] = set()
    for instance in found.instances:
        try:
            check_role(instance.role, splitwise=config.server.splitwise)
        except InvalidInstance as error:
            problems.append(f"{instance.role} worker {instance.id}: {error}")
        if instance.id in ids:
            problems.append(f"worker {instance.id} is named twice")
        ids.add(instance.id)
    return problems


def tokenizer(config: Config, settings: Mapping[str, Setting]) -> list[str]:
    """What keeps the local tokenizer from being used."""
    path = config.scheduler.tokenizer
    if not path:
        return []
    label = settings["scheduler.tokenizer"].label
    if not Path(path).is_file():
        return [f"{label}: there is no file {path}"]
    if find_spec("tokenizers") is None:
        return [f"{label} needs the package tokenizers: pip install 'warmroute[tokenizer]'"]
    return []


def kv_events(config: Config, settings: Mapping[str, Setting]) -> list[str]:
    """What keeps KV events from being followed, and what is of no use without or with them."""
    scheduler = config.scheduler
    setting = settings.get("scheduler.kv-events")
    if not scheduler.kv_events or setting is None:
        alone = ("scheduler.chat-template", "manager.kv-events-endpoint", "manager.kv-events-replay-endpoint")
        return [f"{settings[path].label} needs kv-events" for path in alone if path in settings]
    problems = []
    if scheduler.tokenizer_url:
        problems.append(f"{settings['scheduler.tokenizer-url'].label} cannot be used with kv-events: engines tokenise")
    if scheduler.chat_template and not scheduler.tokenizer:
        problems.append(f"{settings['scheduler.chat-template'].label} needs tokenizer: without it engines tokenise")
    missing = [package for package in ("zmq", "jinja2") if find_spec(package) is None]
    if missing:
        problems.append(f"{setting.label} needs packages ({', '.join(missing)}): pip install 'warmroute[kv-events]'")
    elif scheduler.tokenizer and Path(scheduler.tokenizer).is_file():
        try:
            ChatTemplate.beside(scheduler.tokenizer, scheduler.chat_template)
        except TokenizerError as error:
            problems.append(str(error))
    return problems


def key_limits(config: Config, settings: Mapping[str, Setting]) -> list[str]:
    """Limits for API keys of which there are none."""
    if config.security.api_key:
        return []
    limits = {
        "api-key-rate": config.security.api_key_rate,
        "api-key-max-inflight": config.security.api_key_max_inflight,
    }
    return [
        f"{settings[f'security.{name}'].label} needs api-key or api-key-file" for name, limit in limits.items() if limit
    ]


def tracing(config: Config, settings: Mapping[str, Setting]) -> list[str]:
    """What keeps traces from being sent."""
    if not config.telemetry.otlp_endpoint or _is_there("opentelemetry.proto"):
        return []
    label = settings["telemetry.otlp-endpoint"].label
    return [f"{label} needs OpenTelemetry's messages: pip install 'warmroute[otel]'"]


def _is_there(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # not even what it is a part of
        return False


def certificates(config: Config, settings: Mapping[str, Setting]) -> list[str]:
    """What keeps the certificates from being used, and what contradicts itself."""
    security = config.security
    problems = []
    for key, cert in (("tls-key", security.tls_cert), ("upstream-key", security.upstream_cert)):
        setting = settings.get(f"security.{key}")
        if setting is not None and not cert:
            problems.append(f"{setting.label} needs {key.removesuffix('key')}cert")
    if security.upstream_ca and security.upstream_insecure:
        problems.append(f"{settings['security.upstream-ca'].label} is not used with upstream-insecure")
    if security.tls_cert:
        problems += _tried(lambda: ServerTls(security.tls_cert, security.tls_key), settings["security.tls-cert"])
    tls = ClientTls(security.upstream_ca, security.upstream_cert, security.upstream_key)
    for key, path in (("upstream-cert", security.upstream_cert), ("upstream-ca", security.upstream_ca)):
        if path and not problems:
            problems += _tried(lambda: tls.context, settings[f"security.{key}"])
    return problems


def _tried(use: Callable[[], object], setting: Setting) -> list[str]:
    try:
        use()
    except TlsError as error:
        return [f"{setting.label}: {error}"]
    return []


def access_log(config: Config, settings: Mapping[str, Setting]) -> list[str]:
    """What keeps the access log from being written."""
    path = config.log.access_log
    if not path:
        prefixes = settings.get("log.access-log-prefixes")
        return [f"{prefixes.label} needs access-log"] if prefixes is not None and config.log.access_log_prefixes else []
    if path != STDOUT and not Path(path).parent.is_dir():
        return [f"{settings['log.access-log'].label}: there is no directory {Path(path).parent}"]
    return []


def policies(config: Config, settings: Mapping[str, Setting]) -> Found:
    """Unknown policies, and options that the policies in use do not read: a note, or a problem when given as a flag."""
    found = Found()
    known = policy_names()
    told: set[tuple[str, str]] = set()
    for name in ("policy", "prefill_policy", "decode_policy"):
        value = getattr(config.scheduler, name)
        setting = settings.get(f"scheduler.{name.replace('_', '-')}")
        # One setting can stand for several roles.
        if setting is not None and value not in known and (setting.origin, value) not in told:
            told.add((setting.origin, value))
            suggestion = hint(value, known) or f" (known: {', '.join(known)})"
            found.problems.append(f"{setting.label} names an unknown policy {value}{suggestion}")
    chosen = _policies_in_use(config)
    if not chosen <= set(known):
        return found
    for name in sorted(chosen):
        try:
            create_policy(name, config.scheduler)
        except SchedulingError as error:
            found.problems.append(" ".join(str(error).split()))
    _unused_options(chosen, known, settings, found)
    return found


def _unused_options(chosen: set[str], known: Collection[str], settings: Mapping[str, Setting], found: Found) -> None:
    used = {option for name in chosen for option in _options(name)}
    unused = []
    for setting in settings.values():
        option = setting.option
        if option.section != "scheduler" or option.field in used:
            continue
        users = [name for name in known if option.field in _options(name)]
        if users and setting.source is Source.FLAG:
            found.problems.append(f"{setting.label} is not used by {_listed(chosen)}; it is for {_listed(users)}")
        elif users:
            # A key of the file is known by its path; of a variable the path is in no place that one could look at.
            unused.append(setting.origin if setting.source is Source.ENVIRONMENT else option.path)
    if unused:
        found.notes.append(f"not used by {_listed(chosen)}: {', '.join(unused)}")


def _options(name: str) -> set[str]:
    try:
        return policy_options(name)
    except SchedulingError:  # another package's, broken; that matters only where the policy is chosen
        return set()


def to_serve(config: Config, settings: Mapping[str, Setting]) -> list[str]:
    """What keeps a valid configuration from being served."""
    is_missing = config.server.port is None and "server.port" not in settings
    return ["--port or server.port is required"] if is_missing else []


def _policies_in_use(config: Config) -> set[str]:
    scheduler = config.scheduler
    return {scheduler.prefill_policy, scheduler.decode_policy} if config.server.splitwise else {scheduler.policy}


def _listed(names: Collection[str]) -> str:
    return ("policy " if len(names) == 1 else "policies ") + ", ".join(sorted(names))
