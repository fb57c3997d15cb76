"""A configuration as YAML that loads as the same configuration, with the source of each value that is not a default.

Secrets are left out: of them a comment tells how many there are.
"""

from __future__ import annotations

from collections.abc import Mapping

import yaml

from warmroute.config.options import Option, sections
from warmroute.config.sources import Setting
from warmroute.config.tree import Config


def as_yaml(config: Config, settings: Mapping[str, Setting]) -> str:
    """The whole configuration; `settings` (by `section.key`) tells where values come from."""
    lines = []
    for section in sections():
        lines.append(f"{section.name}:")
        values = getattr(config, section.name)
        for option in section.options:
            value = getattr(values, option.field)
            if option.secret and value:
                lines.append(f"  # {option.key}: {len(value)}, not shown")
                continue
            text = f"  {option.key}: {scalar(value)}"
            origin = _origin(option, settings)
            lines.append(f"{text}  # {origin}" if origin else text)
    return "\n".join(lines) + "\n"


def scalar(value: object) -> str:
    """One value in YAML's flow style, on one line."""
    plain = list(value) if isinstance(value, tuple) else value
    # These are line breaks to YAML: written as they are, they would come back as blanks.
    text = "".join(value) if isinstance(value, tuple) else str(value)
    has_breaks = any(sign in text for sign in "\x85\u2028\u2029")
    rendered: str = yaml.safe_dump(plain, default_flow_style=True, width=float("inf"), allow_unicode=not has_breaks)
    return rendered.removesuffix("\n").removesuffix("\n...")


def _origin(option: Option, settings: Mapping[str, Setting]) -> str:
    setting = settings.get(option.path)
    # A path may hold any character; a comment must stay one line.
    return "" if setting is None else " ".join(setting.origin.split())
