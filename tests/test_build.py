"""Which build runs, and what compiled code asks of its source."""

import ast
import tomllib
from pathlib import Path

from warmroute import build
from warmroute.gateway import relay

ROOT = Path(__file__).parent.parent


def compiled_files() -> list[Path]:
    hook = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]
    found = {file for pattern in hook["mypyc"]["include"] for file in ROOT.glob(pattern)}
    return sorted(found - {file for pattern in hook["mypyc"]["exclude"] for file in ROOT.rglob(pattern)})


def test_source_is_told_from_compiled_code():
    assert build.code() == ("interpreted" if relay.__file__.endswith(".py") else "compiled")


def test_a_module_that_is_not_there_is_not_compiled(monkeypatch):
    monkeypatch.setattr(build, "_ONE_OF_THEM", "warmroute.no_such_module")
    assert build.code() == "interpreted"


def handlers(file: Path) -> list[list[ast.stmt]]:
    """What runs in a file while an exception is, or may be, handled."""
    found: list[list[ast.stmt]] = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ExceptHandler):
            found.append(node.body)
        elif isinstance(node, ast.Try) and node.finalbody:
            found.append(node.finalbody)
    return found


def test_nothing_is_awaited_in_a_handler_that_is_compiled():
    waits = (ast.Await, ast.Yield, ast.YieldFrom, ast.AsyncFor, ast.AsyncWith)
    blocks = [(file.name, statement) for file in compiled_files() for body in handlers(file) for statement in body]
    assert len(blocks) > 40
    assert [
        f"{name}:{node.lineno}" for name, statement in blocks for node in ast.walk(statement) if isinstance(node, waits)
    ] == []
