"""The table of docs/metrics.md, written from the families of a running router.

`python -m warmroute.metrics_reference docs/metrics.md` writes it between the page's two marks; with `--check` in front
of the path it only compares, and exits with 1 when the page is out of date. The text around it is written by hand.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from prometheus_client import Metric

from warmroute.app import Router
from warmroute.config.tree import Config, ManagerConfig, ServerConfig
from warmroute.telemetry.collector import create_registry

BEGIN = "<!-- families: written by python -m warmroute.metrics_reference -->"
END = "<!-- end of families -->"


async def families() -> list[Metric]:
    """Every family of our own that a router shows, in the order of the page."""
    # A worker, though nobody is there, so that its families have samples and thereby labels.
    config = Config(
        server=ServerConfig(host="127.0.0.1", port=0), manager=ManagerConfig(worker=("http://127.0.0.1:9",))
    )
    router = Router(config)
    await router.start()
    try:
        registry = create_registry(router.metric_sources())
        return [family for family in registry.collect() if family.name.startswith("warmroute_")]
    finally:
        await router.stop()


def table(shown: Iterable[Metric]) -> str:
    """The families as a table in Markdown."""
    rows = ["| name | type | labels | meaning |", "|---|---|---|---|"]
    for family in shown:
        # As the samples are called in a query; the exposition adds the suffix.
        name = family.name + {"counter": "_total", "info": "_info"}.get(family.type, "")
        kind = "gauge" if family.type == "info" else family.type
        rows.append(f"| `{name}` | {kind} | {_labels(family)} | {family.documentation} |")
    return "\n".join(rows)


def with_table(page: str, rows: str) -> str:
    """The page with these rows between its marks. ValueError when it has none."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page lacks {BEGIN} or {END}")
    return f"{before}{BEGIN}\n{rows}\n{END}{after}"


def main(argv: Sequence[str]) -> int:
    """Write the table into the page given, or compare it after `--check`."""
    path = Path(argv[-1])
    page = path.read_text(encoding="utf-8")
    fresh = with_table(page, table(asyncio.run(families())))
    if argv[0] != "--check":
        path.write_text(fresh, encoding="utf-8")
        return 0
    if page == fresh:
        return 0
    sys.stderr.write(f"{path} is out of date; write it with: python -m warmroute.metrics_reference {path}\n")
    return 1


def _labels(family: Metric) -> str:
    names = {label for sample in family.samples for label in sample.labels}
    if family.type == "histogram":
        names.discard("le")
    return ", ".join(f"`{name}`" for name in sorted(names))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
