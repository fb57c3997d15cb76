"""The form of `log.levels`: which parts of the router log from another level on."""

from __future__ import annotations

import pkgutil

import warmroute

LEVELS = ("debug", "info", "warn", "warning", "error")


def module_levels(entries: tuple[str, ...]) -> tuple[str, ...]:
    """Entries `module=level` in lower case. ValueError for a module or level that there is not.

    A module is a room of the router (`gateway`, `fleet`) or a part of one (`gateway.pd`).
    """
    rooms = sorted(info.name for info in pkgutil.iter_modules(warmroute.__path__))
    checked = []
    for entry in entries:
        module, equals, level = (part.strip().lower() for part in entry.partition("="))
        if not equals:
            raise ValueError(f"{entry!r} is not of the form module=level")
        if module.partition(".")[0] not in rooms:
            raise ValueError(f"no module {module!r}; there are {', '.join(rooms)}")
        if level not in LEVELS:
            raise ValueError(f"no level {level!r}; there are {', '.join(LEVELS)}")
        checked.append(f"{module}={level}")
    return tuple(checked)
