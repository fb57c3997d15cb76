"""Compiles the ground floor when a wheel is built, on a machine that can: mypyc makes C extensions of it.

The same files run interpreted where there is no C compiler or no header of Python, and in an editable installation.
Nothing is written into the source tree. `HATCH_BUILD_NO_HOOKS=true pip install .` builds without.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

OPTIMISATION = "3"


class CompileHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the compiled modules to a wheel. Configuration: `modules`, paths below `source`."""

    def dependencies(self) -> list[str]:
        """What building takes: mypyc, and all that the modules import, whose types it reads."""
        if not _has_compiler():
            return []
        return ["mypy>=1.13", "setuptools", *self.metadata.core.dependencies]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, unless the wheel only points to the source tree."""
        if version == "editable":
            return
        if not _has_compiler():
            self.app.display_warning("no C compiler found: warmroute is built without compiled modules (slower)")
            return
        self._scratch = tempfile.TemporaryDirectory()
        root = Path(self._scratch.name)
        shutil.copytree(Path(self.root, self.config["source"]), root / "warmroute")
        command = [sys.executable, "-m", "mypyc", *self.config["modules"]]
        done = subprocess.run(  # noqa: S603 - a command of our own
            command, cwd=root, env={**os.environ, "MYPYC_OPT_LEVEL": OPTIMISATION}, capture_output=True, text=True
        )
        if done.returncode:
            self.app.display_warning(f"{done.stdout}{done.stderr}compiling failed: warmroute is built without (slower)")
            return
        build_data["force_include"].update(
            {str(path): str(path.relative_to(root)) for path in root.rglob("*") if _is_built(path, root)}
        )
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was built besides the wheel."""
        if hasattr(self, "_scratch"):
            self._scratch.cleanup()


def _is_built(path: Path, root: Path) -> bool:
    """Whether it is an extension module in its place, not one among the compiler's own files."""
    return path.suffix in (".so", ".pyd") and path.relative_to(root).parts[0] != "build"


def _has_compiler() -> bool:
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    return os.name == "nt" or shutil.which(os.environ.get("CC", compiler)) is not None
