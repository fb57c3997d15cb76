"""The workers that an operator has named: by URL, or in a file with a list `instances:`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml

from warmroute.config import ManagerConfig
from warmroute.config.values import split_number
from warmroute.fleet.address import parse_address
from warmroute.fleet.errors import InvalidInstance
from warmroute.fleet.instance import InstanceInfo, read_instance
from warmroute.scheduling.worker import Role


def static_instances(manager: ManagerConfig) -> list[InstanceInfo]:
    """All of them, URLs first. Raises InvalidInstance that names the URL, or the file and the entry."""
    path = manager.register_path
    named: dict[Role, tuple[str, ...]] = {
        "mixed": manager.worker,
        "prefill": manager.prefill,
        "decode": manager.decode,
    }
    at_urls = [_at_url(text, role) for role, texts in named.items() for text in texts]
    return [*at_urls, *(_in_file(Path(path)) if path else ())]


def _at_url(text: str, role: Role) -> InstanceInfo:
    try:
        url, port = split_number(text)
        return InstanceInfo.at(parse_address(url), role, pd_port=port)
    except ValueError as error:
        raise InvalidInstance(f"worker {text!r} {error}") from None


def _in_file(path: Path) -> list[InstanceInfo]:
    try:
        content = yaml.safe_load(path.read_bytes())
    except OSError as error:
        raise InvalidInstance(f"register-path {path}: {error.strerror}") from None
    except yaml.YAMLError as error:
        raise InvalidInstance(f"register-path {path}: not YAML: {' '.join(str(error).split())}") from None
    entries = content.get("instances") if isinstance(content, Mapping) else None
    if not isinstance(content, Mapping | None) or not isinstance(entries, list | None):
        raise InvalidInstance(f"register-path {path}: expected a list `instances:`")
    return [_entry(path, position, entry) for position, entry in enumerate(entries or [])]


def _entry(path: Path, position: int, entry: object) -> InstanceInfo:
    try:
        return read_instance(entry)
    except InvalidInstance as error:
        raise InvalidInstance(f"register-path {path}: instances[{position}]: {error}") from None
