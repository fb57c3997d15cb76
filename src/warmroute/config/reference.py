"""The reference page of all settings, written from the option tree.

`python -m warmroute.config.reference docs/reference/settings.md` writes the page, with `--check` in front of the
path it only compares, and exits with 1 when the page is out of date.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from warmroute.config.options import Option, sections
from warmroute.config.sources import config_path_variable

_INTRODUCTION = f"""# Settings

This page is generated from the option tree: `python -m warmroute.config.reference docs/reference/settings.md`.

A setting can be given in four places; the later wins: its default, the YAML file (`--config_path FILE` or
`{config_path_variable()}`), its environment variable, its flag.

- In the file, a key stands in the section that its heading names. In keys and flags, `-` and `_` are the same.
- An empty value (`""`, `null`, an empty variable) is as if the setting were not given. An explicit 0 means 0.
- Durations are seconds, and fractions are allowed, unless the name says otherwise.
- A list is a YAML list, a flag that is repeated (or has several values), or one text with commas.
- `--splitwise`, `--splitwise=true`, `--no-splitwise` and `--splitwise=false` are the forms of a true/false flag.
- Unknown keys, variables, flags and policies are errors, and so is a key that comes twice. `warmroute check` takes
  the flags of `warmroute serve` and prints the effective configuration, or every error at once.
- Keys in the file (or environment) that the chosen policy does not use are named in one log line; as flags, they are
  errors.
- Variables that Kubernetes sets in pods beside a Service named `warmroute` (`WARMROUTE_SERVICE_HOST`,
  `WARMROUTE_PORT=tcp://...`) are left out.
"""


def settings_page() -> str:
    """The page in Markdown."""
    tables = (f"## {section.name}\n\n{section.description}\n\n{_table(section.options)}" for section in sections())
    return "\n".join([_INTRODUCTION, *tables])


def default_text(option: Option) -> str:
    """The default as help and documentation show it."""
    value = option.default
    if value is None or value in ("", ()):
        text = "none"
    elif isinstance(value, bool):
        text = str(value).lower()
    elif isinstance(value, tuple):
        text = ", ".join(value)
    else:
        text = f"{value:g}" if isinstance(value, float) else str(value)
    return f"{text}; with a file: {option.file_default}" if option.file_default else text


def main(argv: Sequence[str]) -> int:
    """Write the page to the path given, or compare it after `--check`."""
    checking = argv[0] == "--check"
    path = Path(argv[-1])
    page = settings_page()
    if not checking:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page, encoding="utf-8")
        return 0
    if path.is_file() and path.read_text(encoding="utf-8") == page:
        return 0
    sys.stderr.write(f"{path} is out of date; write it with: python -m warmroute.config.reference {path}\n")
    return 1


def _table(options: Sequence[Option]) -> str:
    rows = ["| key | flag | variable | value | default | meaning |", "|---|---|---|---|---|---|"]
    for option in options:
        value = ", ".join(option.choices) or option.kind
        cells = (f"`{option.key}`", f"`--{option.flag}`", f"`{option.variable}`", value, default_text(option))
        rows.append(f"| {' | '.join(cells)} | {option.description} |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
