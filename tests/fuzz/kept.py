"""What fuzzing has found and the tests replay: one file for each target, an input in each line, as base64."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"


def read(target: str) -> list[bytes]:
    """The inputs that were kept, the shortest first."""
    path = _file(target)
    return [b64decode(line) for line in path.read_text("ascii").splitlines()] if path.exists() else []


def pack(target: str, inputs: Iterable[bytes]) -> None:
    """Keep these inputs, and no others."""
    lines = [b64encode(data).decode() for data in sorted(set(inputs), key=lambda data: (len(data), data))]
    _file(target).write_text("".join(f"{line}\n" for line in lines), "ascii")


def unpack(target: str, directory: Path) -> None:
    """Write the inputs as files, named as libFuzzer would."""
    for data in read(target):
        (directory / sha256(data).hexdigest()[:40]).write_bytes(data)


def _file(target: str) -> Path:
    return CORPUS / f"{target}.kept"
