"""Keys in files: one a line, so that they stand neither in a process list nor in a configuration that is shared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from warmroute.config.sources import Setting
from warmroute.config.tree import Config
from warmroute.config.values import secrets, worker_keys

_FILES = {
    "api_key_file": ("api_key", secrets),
    "admin_key_file": ("admin_key", secrets),
    "worker_key_file": ("worker_key", worker_keys),
}
_MOST_BYTES = 1024 * 1024


def read_key_files(config: Config, settings: Mapping[str, Setting]) -> tuple[Config, list[str]]:
    """The configuration with the keys of its key files added, and what is wrong with the files, one line each.

    No message shows any of a file's content.
    """
    security, problems = config.security, []
    update: dict[str, object] = {}
    for field, (target, check) in _FILES.items():
        path = getattr(security, field)
        if not path:
            continue
        setting = settings.get(f"security.{field.replace('_', '-')}")
        label = setting.label if setting else field
        try:
            keys = check(read_lines(path))
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            problems.append(f"{label}: {path}: {reason}")
            continue
        if not keys:
            problems.append(f"{label}: {path} holds no key: one a line is expected")
        update[target] = (*getattr(security, target), *keys)
    return config.model_copy(update={"security": security.model_copy(update=update)}), problems


def read_lines(path: str) -> Iterable[str]:
    """The lines of a file without blanks around them; empty ones and those that begin with # count for nothing."""
    if not Path(path).is_file():
        raise ValueError("there is no such file")
    with Path(path).open("rb") as file:
        content = file.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise ValueError("is no key file: larger than 1 MiB")
    lines = (line.strip() for line in content.decode("utf-8", "surrogateescape").splitlines())
    return [line for line in lines if line and not line.startswith("#")]
