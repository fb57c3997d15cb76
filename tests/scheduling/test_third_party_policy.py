"""The policy of docs/extend/policy.md, packaged as the page says, installed with pip and used by its name."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "extend" / "policy.md"

SELECT = """
from random import Random
from warmroute.config.tree import SchedulerConfig
from warmroute.prompts.ladder import Ladder
from warmroute.prompts.prompt import Prompt
from warmroute.scheduling.ledger import Ledger
from warmroute.scheduling.lease import Outcome
from warmroute.scheduling.prefix_index import PrefixIndex
from warmroute.scheduling.registry import create_policy, policy_names
from warmroute.scheduling.scheduler import Scheduler
from warmroute.scheduling.worker import Pool, Worker

assert "least_work" in policy_names()
policy = create_policy("least_work", SchedulerConfig())
index = PrefixIndex(Ladder.default(), 1 << 20, 60)
scheduler = Scheduler({"mixed": policy}, index, Ledger(), rng=Random(1), clock=lambda: 0.0)
workers = [Worker(name, "") for name in "abc"]
pool = Pool("mixed", tuple(worker.candidate for worker in workers))
leases = [scheduler.select(Prompt(tokens=tokens), pool) for tokens in (500, 200, 100, 50)]
# The fourth joins the third: 100 tokens wait there, 200 and 500 elsewhere.
assert leases[3].worker is leases[2].worker
assert len({lease.worker for lease in leases}) == 3
for lease in leases:
    lease.release(Outcome.SERVED)
assert scheduler.ledger.audit().consistent
print(leases[0].policy)
"""


def code_block(language: str) -> str:
    """The first block of a language on the page."""
    found = re.search(rf"```{language}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found
    return found[1]


def build_wheel(folder: Path) -> Path:
    """The wheel that the page's pyproject describes. Written here because a build back end may not be at hand."""
    project = tomllib.loads(code_block("toml"))["project"]
    name, version = project["name"], project["version"]
    stem = f"{name.replace('-', '_')}-{version}"
    entries = "\n".join(f"{name} = {target}" for name, target in project["entry-points"]["warmroute.policies"].items())
    files = {
        "least_work.py": code_block("python"),
        f"{stem}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{stem}.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{stem}.dist-info/entry_points.txt": f"[warmroute.policies]\n{entries}\n",
    }
    record = f"{stem}.dist-info/RECORD"
    lines = [f"{path},sha256={digest(text)},{len(text.encode())}" for path, text in files.items()]
    files[record] = "\n".join([*lines, f"{record},,"]) + "\n"
    wheel = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return wheel


def digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip has installed the page's package."""
    folder = tmp_path_factory.mktemp("third_party")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "-q", "--no-deps", "--no-index"]
    wheel = build_wheel(folder)
    subprocess.run([*pip, "--target", str(folder / "site"), str(wheel)], check=True, timeout=50)
    return folder / "site"


def run(site: Path, code: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(site)}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_an_installed_policy_decides_by_its_name(site: Path):
    assert run(site, SELECT) == "least_work\n"


def test_the_example_is_as_short_as_promised():
    body = code_block("python").split("def least_work", 1)[1]
    assert len(body.strip().splitlines()) <= 10
