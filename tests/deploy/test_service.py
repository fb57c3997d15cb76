"""The systemd unit, as systemd itself judges it."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.deploy.queries import DEPLOY

from warmroute.cli.settings import effective_config
from warmroute.config.tree import ServerConfig

UNIT = DEPLOY / "warmroute.service"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_has_nothing_to_say_against_it(tmp_path):
    # It asks whether the command is there; where it will be is not for this machine to say.
    unit = tmp_path / "warmroute.service"
    unit.write_text(re.sub(r"^ExecStart=\S+", f"ExecStart={sys.executable}", UNIT.read_text(), flags=re.MULTILINE))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=30, check=False
    )
    complaints = [line for line in done.stderr.splitlines() if "warmroute" in line]
    assert (done.returncode, complaints) == (0, []), done.stderr


def test_its_command_is_one_that_serve_understands(tmp_path):
    (command,) = re.findall(r"^ExecStart=(.*)$", UNIT.read_text(), flags=re.MULTILINE)
    program, verb, *flags = command.split()
    assert (Path(program).name, verb) == ("warmroute", "serve")
    config = tmp_path / "config.yaml"
    config.write_text("server: {port: 30000}\n")
    flags = [str(config) if flag == "/etc/warmroute/config.yaml" else flag for flag in flags]
    assert effective_config(flags, {}, serving=True).config.server.port == 30000


def test_it_is_given_more_time_to_stop_than_it_takes():
    (seconds,) = re.findall(r"^TimeoutStopSec=(\d+)$", UNIT.read_text(), flags=re.MULTILINE)
    server = ServerConfig()
    assert int(seconds) > server.drain_delay + server.drain_timeout
