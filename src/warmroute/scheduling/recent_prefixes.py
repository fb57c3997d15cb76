"""Where prompts go, seen through the prefix index: groups of prompts that begin alike, and who holds how much of them.

Made only when somebody looks, from a bounded number of the entries that were used last.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import NamedTuple

from warmroute.scheduling.prefix_nodes import Node, Shelf

MAX_ENTRIES = 512
MAX_LEVELS = 6
"""How many times prompts may part before that is of no more interest."""

Path = tuple[int, ...]


class PrefixUse(NamedTuple):
    """A worker used an entry of the index: the hashes that lead there (the first MAX_LEVELS), and its tokens."""

    worker: str
    path: Path
    tokens: int


class PrefixGroup(NamedTuple):
    """Prompts that begin alike; `hash` names what they share (None: all that are not shown each by itself).

    `tokens` says for each worker how many tokens of them it was given or used again lately.
    """

    hash: int | None
    tokens: dict[str, int]

    @property
    def total(self) -> int:
        """Of all workers."""
        return sum(self.tokens.values())


def recent_uses(shelves: Collection[Shelf]) -> list[PrefixUse]:
    """The entries that each worker has used last, at most MAX_ENTRIES in all."""
    limit = max(1, MAX_ENTRIES // max(1, len(shelves)))
    paths: dict[Node, Path] = {}
    uses: list[PrefixUse] = []
    for shelf in shelves:
        hold = shelf.ends.older
        for _ in range(limit):
            if hold is shelf.ends:
                break
            uses.append(PrefixUse(shelf.worker.id, _path(hold.node, paths), hold.node.tokens))
            hold = hold.older
    return uses


def group_prefixes(uses: Iterable[PrefixUse], most: int = 8) -> list[PrefixGroup]:
    """At most `most` groups, largest first, the rest as one: the largest are divided as long as there is room."""
    tokens: dict[Path, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    below: dict[Path, set[Path]] = defaultdict(set)
    for use in uses:
        for depth in range(1, len(use.path) + 1):
            head = use.path[:depth]
            below[head[:-1]].add(head)
            tokens[head][use.worker] += use.tokens
    groups = sorted(below[()], key=lambda path: _weight(tokens, path), reverse=True)
    while len(groups) < most:
        # A group with one continuation would only get another name.
        wide = next((path for path in groups if len(below[path]) > 1), None)
        if wide is None:
            break
        groups.remove(wide)
        groups = sorted([*groups, *below[wide]], key=lambda path: _weight(tokens, path), reverse=True)
    shown = groups if len(groups) <= most else groups[: most - 1]
    found = [PrefixGroup(path[-1], dict(tokens[path])) for path in shown]
    rest: dict[str, int] = defaultdict(int)
    for path in groups[len(shown) :]:
        for worker, count in tokens[path].items():
            rest[worker] += count
    return [*found, PrefixGroup(None, dict(rest))] if rest else found


def _path(node: Node, known: dict[Node, Path]) -> Path:
    climbed: list[Node] = []
    above: Node | None = node
    while above is not None and above not in known:
        climbed.append(above)
        above = above.parent
    path = known[above] if above is not None else ()
    for lower in reversed(climbed):
        path = known[lower] = path if len(path) == MAX_LEVELS else (*path, lower.hashes[0])
    return path


def _weight(tokens: dict[Path, dict[str, int]], path: Path) -> tuple[int, Path]:
    return sum(tokens[path].values()), path
