"""YAML files read strictly: a key that comes twice is an error, and every key knows its line.

How deep a file may nest is limited: PyYAML's scanner takes seconds for some thousand brackets, its composer
recurses.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

MAX_DEPTH = 100
_MERGE = "tag:yaml.org,2002:merge"
_TOO_DEEP = f"nested more than {MAX_DEPTH} levels deep"


class YamlError(ValueError):
    """A file that cannot be read or is not the YAML that was expected. The message is one line and names the file."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One `key: value` of a mapping, with the line of its key (from 1)."""

    key: str
    line: int
    value: Node


class Node:
    """A value in a YAML document."""

    def __init__(self, path: str, loader: _StrictLoader, node: yaml.Node) -> None:
        self._path = path
        self._loader = loader
        self._node = node

    @property
    def is_mapping(self) -> bool:
        """Whether it has entries."""
        return isinstance(self._node, yaml.MappingNode)

    @property
    def is_list(self) -> bool:
        """Whether it has items."""
        return isinstance(self._node, yaml.SequenceNode)

    @property
    def line(self) -> int:
        """Where it begins, from 1."""
        return int(self._node.start_mark.line) + 1

    def items(self) -> Iterator[Node]:
        """The items of a list, in order."""
        for item in self._node.value:
            yield Node(self._path, self._loader, item)

    def entries(self) -> Iterator[Entry]:
        """The entries of a mapping, in order; a key that comes twice comes twice."""
        for key, value in self._node.value:
            text = key.value if isinstance(key, yaml.ScalarNode) else "?"
            yield Entry(text, key.start_mark.line + 1, Node(self._path, self._loader, value))

    def value(self) -> Any:
        """The value as plain Python data. Raises YamlError, also for a key that comes twice."""
        try:
            return self._loader.construct_object(self._node, deep=True)
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise _one_line(self._path, error) from None


class _StrictLoader(yaml.SafeLoader):
    _depth = 0

    def fetch_flow_collection_start(self, token_class: type[yaml.Token]) -> None:
        if self.flow_level >= MAX_DEPTH:
            raise yaml.scanner.ScannerError(None, None, _TOO_DEEP, self.get_mark())
        super().fetch_flow_collection_start(token_class)

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self._depth >= MAX_DEPTH:
            raise yaml.composer.ComposerError(None, None, _TOO_DEEP, self.get_mark())
        self._depth += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key_node, _ in node.value:
            if key_node.tag == _MERGE:
                continue
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, Hashable) and key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} comes twice", key_node.start_mark)
            if isinstance(key, Hashable):
                seen.add(key)
        return super().construct_mapping(node, deep)


def read_tree(path: str | Path) -> Node | None:
    """The root of the one document in the file; None when the file holds nothing. Raises YamlError."""
    try:
        loader = _StrictLoader(Path(path).read_bytes())
        node = loader.get_single_node()
    except OSError as error:
        raise YamlError(f"{path}: cannot be read ({error.strerror})") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise _one_line(str(path), error) from None
    return None if node is None else Node(str(path), loader, node)


def _one_line(path: str, error: Exception) -> YamlError:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        return YamlError(f"{path}{line}: {error.problem}")
    return YamlError(f"{path}: not valid YAML ({' '.join(str(error).split())[:200] or type(error).__name__})")
