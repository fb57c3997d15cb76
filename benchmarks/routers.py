"""The routers under test: how each is installed, started and known to be ready."""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.processes import fetch, free_port

SGLANG = "sglang-router==0.3.2"
"""The peer: Python packaging around a Rust core, the last release of its line."""
VLLM_ROUTER = "vllm-router==0.1.17"
SMG = "smg==1.13.0"
"""Two more of the same ancestry."""

_OWN_DECODE_POLICY, _SGLANG_DECODE_POLICY = "request_num", "power_of_two"
"""By load, as both projects advise for pairs: prompts are computed by the prefill workers."""

_FIRST_BOOTSTRAP_PORT = 9001
"""Nobody listens there: only real engines do."""

_BENCH_VENVS = Path(__file__).parent.parent / ".bench-venv"
"""An environment for each peer: their dependencies need not agree."""


@dataclass(frozen=True)
class Router:
    """One kind of router. `command` gets its port, the workers' ports and a directory that it may write to."""

    name: str
    version: str
    command: Callable[[int, Sequence[int], Path], list[str]]
    ready: Callable[[int, int], bool]
    """Called with the router's port and the number of workers: does it use all of them?"""
    pairs: str | None = None
    """The make of the prefill and decode engines that it is for; None for mixed workers."""
    is_looked_at: bool = False
    """Whether somebody has its live page open all the time."""


def warmroute(
    name: str = "warmroute",
    pairs: str | None = None,
    policy: str = "cache_aware",
    more: Sequence[str] = (),
    *,
    is_looked_at: bool = False,
) -> Router:
    """The router of this repository, from the running interpreter's environment, with `more` options; with `pairs`, in
    front of such.
    """

    def command(port: int, workers: Sequence[int], _: Path) -> list[str]:
        options = ["--host", "127.0.0.1", "--port", str(port), "--log-level", "warning", *more]
        urls = [f"http://127.0.0.1:{worker}" for worker in workers]
        if pairs is None:
            flags = ["--policy", policy, *(flag for url in urls for flag in ("--worker", url))]
        else:
            prefills, decodes = _halves(urls)
            numbered = enumerate(prefills, _FIRST_BOOTSTRAP_PORT)
            flags = [
                "--engine",
                pairs,
                "--prefill-policy",
                policy,
                "--decode-policy",
                _OWN_DECODE_POLICY,
                *(flag for number, url in numbered for flag in ("--prefill", f"{url},{number}")),
            ]
            flags += [flag for url in decodes for flag in ("--decode", url)]
        return [sys.executable, "-m", "warmroute", "serve", *options, *flags]

    version = importlib.metadata.version("warmroute")
    return Router(name, version, command, _counts(rb'"state":\s*"healthy"'), pairs, is_looked_at)


def watched(name: str, collector: str) -> Router:
    """The same with all that tells of requests, but for the access log and explanations; traces go to `collector`."""
    return warmroute(name, more=("--fastdeploy-metrics", "--otlp-endpoint", collector), is_looked_at=True)


def unwatched(name: str) -> Router:
    """The same with nothing that tells of requests."""
    return warmroute(name, more=("--no-request-metrics",))


def sglang(pairs: str | None = None, options: Sequence[str] = ()) -> Router:
    """The peer, installed at the first use, with further options. Raises CalledProcessError if that fails."""
    programs = _installed(SGLANG)

    def command(port: int, workers: Sequence[int], _: Path) -> list[str]:
        urls = [f"http://127.0.0.1:{worker}" for worker in workers]
        if pairs is None:
            flags = ["--worker-urls", *urls]
        else:
            prefills, decodes = _halves(urls)
            numbered = enumerate(prefills, _FIRST_BOOTSTRAP_PORT)
            flags = ["--pd-disaggregation", "--decode-policy", _SGLANG_DECODE_POLICY]
            flags += [flag for number, url in numbered for flag in ("--prefill", url, str(number))]
            flags += [flag for url in decodes for flag in ("--decode", url)]
        launch = [str(programs / "python"), "-m", "sglang_router.launch_router"]
        return [*launch, *_common(port, "warn"), *options, *flags]

    return Router("sglang-router", SGLANG.partition("==")[2], command, _counts(rb'"is_healthy":\s*true'), pairs)


def vllm_router(options: Sequence[str] = ()) -> Router:
    """vllm-router, likewise."""
    return _descendant("vllm-router", VLLM_ROUTER, ["vllm-router"], "warning", options)


def smg(options: Sequence[str] = ()) -> Router:
    """Shepherd Model Gateway, likewise."""
    return _descendant("smg", SMG, ["smg", "launch"], "warn", options)


def _descendant(name: str, requirement: str, launch: Sequence[str], level: str, options: Sequence[str]) -> Router:
    """A router that took over sglang-router's command line."""
    program, *rest = launch
    programs = _installed(requirement)

    def command(port: int, workers: Sequence[int], _: Path) -> list[str]:
        urls = [f"http://127.0.0.1:{worker}" for worker in workers]
        return [str(programs / program), *rest, *_common(port, level), *options, "--worker-urls", *urls]

    return Router(name, requirement.partition("==")[2], command, _counts(rb'"is_healthy":\s*true'))


def _common(port: int, level: str) -> list[str]:
    """What all three peers are told."""
    options = ["--host", "127.0.0.1", "--port", str(port), "--policy", "cache_aware", "--log-level", level]
    return [*options, "--prometheus-host", "127.0.0.1", "--prometheus-port", str(free_port())]


def _installed(requirement: str) -> Path:
    """The programs of a peer's own environment, which is made at the first use. Raises CalledProcessError."""
    directory = _BENCH_VENVS / requirement.replace("==", "-")
    programs, done = directory / "bin", directory / "installed"
    if not done.exists():
        print(f"installing {requirement} into {_BENCH_VENVS.name}/{directory.name} (once)", file=sys.stderr)
        venv.create(directory, with_pip=True)
        subprocess.run([programs / "python", "-m", "pip", "install", "--quiet", requirement], check=True)
        done.touch()
    return programs


def nginx() -> Router | None:
    """A plain proxy without any idea of caches: the floor. None where it is not installed."""
    program = shutil.which("nginx")
    if program is None:
        return None
    shown = subprocess.run([program, "-v"], check=True, capture_output=True, text=True).stderr

    def command(port: int, workers: Sequence[int], directory: Path) -> list[str]:
        servers = "".join(f"server 127.0.0.1:{worker};" for worker in workers)
        config = directory / "nginx.conf"
        config.write_text(_NGINX.format(port=port, servers=servers, directory=directory))
        return [program, "-e", str(directory / "nginx-error.log"), "-c", str(config)]

    return Router(
        "nginx",
        shown.strip().rpartition("/")[2],
        command,
        lambda port, _: fetch(f"http://127.0.0.1:{port}/health") is not None,
    )


_NGINX = """
daemon off; worker_processes 1; pid {directory}/nginx.pid; error_log {directory}/nginx-error.log;
events {{ worker_connections 1024; }}
http {{
  access_log off; keepalive_requests 1000000; client_max_body_size 64m; client_body_buffer_size 1m;
  client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy; fastcgi_temp_path {directory}/fastcgi;
  uwsgi_temp_path {directory}/uwsgi; scgi_temp_path {directory}/scgi;
  upstream workers {{ {servers} keepalive 256; keepalive_requests 1000000; }}
  server {{
    listen 127.0.0.1:{port};
    proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
    location / {{ proxy_pass http://workers; }}
  }}
}}
"""


def _halves(urls: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Prefill and decode workers, as the mock workers take their roles."""
    half = len(urls) // 2
    return urls[:half], urls[half:]


def _counts(healthy: bytes) -> Callable[[int, int], bool]:
    """Ready when GET /workers shows as many healthy workers as there are."""

    def ready(port: int, workers: int) -> bool:
        page = fetch(f"http://127.0.0.1:{port}/workers")
        return page is not None and len(re.findall(healthy, page)) == workers

    return ready
