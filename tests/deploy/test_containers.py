"""The Containerfile and the Compose file: linted, and judged as far as that goes without a container engine."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import compose_spec
import pytest
import yaml
from tests.deploy.queries import DEPLOY

from warmroute.cli import COMMANDS
from warmroute.cli.parser import parse
from warmroute.cli.settings import effective_config

CONTAINERFILE = (DEPLOY / "Containerfile").read_text()
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
_INSTRUCTIONS = {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT", "CMD"}


def instructions() -> list[tuple[str, str]]:
    joined = CONTAINERFILE.replace("\\\n", " ")
    lines = [line for line in joined.splitlines() if line.strip() and not line.startswith("#")]
    return [(name, rest.strip()) for name, _, rest in (line.partition(" ") for line in lines)]


def test_the_containerfile_has_the_form_of_one():
    found = instructions()
    assert found[0][0] == "FROM"
    assert {name for name, _ in found} <= _INSTRUCTIONS
    for name, rest in found:
        if name in ("ENTRYPOINT", "CMD"):
            assert all(isinstance(word, str) for word in json.loads(rest))
        if name == "RUN":
            assert shlex.split(rest)


HADOLINT = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or shutil.which("hadolint")


@pytest.mark.skipif(HADOLINT is None, reason="hadolint is not installed")
def test_hadolint_has_nothing_to_say_against_it():
    assert HADOLINT is not None
    done = subprocess.run(
        [HADOLINT, "--no-color", str(DEPLOY / "Containerfile")], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_the_compose_file_is_one_by_the_compose_specification():
    parsed = compose_spec.PyCompose.from_yaml((DEPLOY / "compose.yaml").read_text())
    parsed.validate()
    parsed.to_spec()
    assert sorted(parsed.service_names()) == ["engine-1", "engine-2", "grafana", "prometheus", "router"]
    with pytest.raises(ValueError, match="comand"):
        compose_spec.PyCompose.from_yaml("services: {a: {image: b, comand: []}}").to_spec()


def test_what_it_builds_from_is_there_and_what_it_runs_is_no_root():
    last_stage = CONTAINERFILE.rpartition("FROM ")[2]
    assert re.search(r"^USER \d+$", last_stage, re.MULTILINE)
    assert (DEPLOY.parent / "constraints.txt").is_file()
    python = re.search(r"python:(\d+)\.(\d+)-slim", CONTAINERFILE)
    assert python is not None
    assert (int(python[1]), int(python[2])) >= (3, 11)


def test_its_command_is_one_that_serve_understands():
    (entry,) = [json.loads(rest) for name, rest in instructions() if name == "ENTRYPOINT"]
    (command,) = [json.loads(rest) for name, rest in instructions() if name == "CMD"]
    assert entry == ["warmroute"]
    assert command[0] == "serve"
    port = effective_config(command[1:], {}, serving=True).config.server.port
    assert f"EXPOSE {port}" in CONTAINERFILE
    assert f":{port}/health" in CONTAINERFILE


def test_every_file_that_compose_mounts_is_there():
    mounts = [mount for service in COMPOSE["services"].values() for mount in service.get("volumes", ())]
    assert mounts
    for mount in mounts:
        assert (DEPLOY / mount.split(":")[0]).exists(), mount
    build = COMPOSE["services"]["router"]["build"]
    assert (DEPLOY / build["context"] / build["dockerfile"]).is_file()


def test_every_command_of_compose_is_understood_and_the_workers_are_services():
    for service in COMPOSE["services"].values():
        if "command" not in service:
            continue
        verb, *flags = service["command"]
        assert verb in COMMANDS
        if verb == "engine":
            from warmroute.cli import engine

            parse("warmroute engine", "", engine.add_arguments, flags)
    workers = effective_config(COMPOSE["services"]["router"]["command"][1:], {}, serving=True).config.manager.worker
    hosts = {url.split("//")[1].split(":")[0] for url in workers}
    assert hosts == {name for name in COMPOSE["services"] if name.startswith("engine")}
    scraped = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())["scrape_configs"][0]
    assert scraped["static_configs"][0]["targets"] == ["router:30000"]


def test_images_of_others_are_pinned():
    for service in COMPOSE["services"].values():
        if "build" not in service:
            assert re.search(r":v?\d+\.\d+\.\d+$", service["image"]), service["image"]
