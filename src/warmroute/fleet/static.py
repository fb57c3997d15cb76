"""The workers that an operator has named: by URL, or in a file with a list `instances:`.

In the file a key that nobody reads is a mistake, other than in what engines send.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from warmroute.config import ManagerConfig
from warmroute.config.options import hint
from warmroute.config.values import split_number
from warmroute.config.yaml_file import Node, YamlError, read_tree
from warmroute.fleet.address import parse_address
from warmroute.fleet.errors import InvalidInstance
from warmroute.fleet.instance import FIELDS, InstanceInfo, examine_instance
from warmroute.scheduling.worker import Role

_LIST = "instances"


@dataclass(slots=True)
class Statics:
    """The workers that are named, and all that is wrong with the others, one line each."""

    instances: list[InstanceInfo] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def static_instances(manager: ManagerConfig) -> list[InstanceInfo]:
    """All of them, URLs first. Raises InvalidInstance with the first problem of `read_statics`."""
    found = read_statics(manager)
    if found.problems:
        raise InvalidInstance(found.problems[0])
    return found.instances


def read_statics(manager: ManagerConfig) -> Statics:
    """The same with every problem at once. Each names the URL, or the file, the line and the entry."""
    found = Statics()
    named: dict[Role, tuple[str, ...]] = {
        "mixed": manager.worker,
        "prefill": manager.prefill,
        "decode": manager.decode,
    }
    for role, texts in named.items():
        for text in texts:
            _read_url(text, role, found)
    if manager.register_path:
        try:
            _read_file(manager.register_path, found)
        except YamlError as error:
            found.problems.append(f"register-path {error}")
    return found


def _read_url(text: str, role: Role, found: Statics) -> None:
    try:
        url, port = split_number(text)
        found.instances.append(InstanceInfo.at(parse_address(url), role, pd_port=port))
    except ValueError as error:
        found.problems.append(f"worker {text!r} {error}")


def _read_file(path: str, found: Statics) -> None:
    root = read_tree(path)
    if root is None or root.value() is None:
        return
    if not root.is_mapping:
        found.problems.append(f"register-path {path}: expected a list `{_LIST}:`")
        return
    found.problems += _unknown_keys(path, root, "", (_LIST,))
    for entry in root.entries():
        if entry.key != _LIST or entry.value.value() is None:
            continue
        if not entry.value.is_list:
            found.problems.append(f"register-path {path}:{entry.line}: expected a list `{_LIST}:`")
            continue
        for position, item in enumerate(entry.value.items()):
            _read_entry(path, f"{_LIST}[{position}]", item, found)


def _read_entry(path: str, name: str, item: Node, found: Statics) -> None:
    info, errors = examine_instance(item.value())
    found.problems += _unknown_keys(path, item, name, FIELDS)
    found.problems += [f"register-path {path}:{item.line}: {name}: {error}" for error in errors]
    if info is not None:
        found.instances.append(info)


def _unknown_keys(path: str, node: Node, name: str, known: Collection[str]) -> Iterator[str]:
    """What is in a mapping, also by way of `<<`, and not known. A key is told with its own line, where it has one."""
    if not node.is_mapping:
        return
    lines = {entry.key: entry.line for entry in node.entries()}
    where = f"{name}: " if name else ""
    for key in map(str, node.value()):
        if key not in known:
            line = lines.get(key, node.line)
            yield f"register-path {path}:{line}: {where}unknown key {key[:100]}{hint(key, known)}"
