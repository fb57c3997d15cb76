"""Whatever the description allows is sent to a real router, and what comes back must be what it describes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from schemathesis.checks import content_type_conformance, response_schema_conformance, status_code_conformance
from tests.support.router import config, running
from tests.support.scripted_worker import ScriptedWorker

from warmroute.control.describe.operations import OPERATIONS, Operation

CHECKS = [status_code_conformance, content_type_conformance, response_schema_conformance]
NOBODY = ("127.0.0.1", 1)
"""Nothing is registered or added that is not on this host."""
FUZZED = [operation for operation in OPERATIONS if operation.path != "/admin/events"]  # a stream that does not end
SLOW = ("/register", "/health_generate")


class Api:
    """A router with one worker in a thread of its own, its description, and the worker's id."""

    def __init__(self) -> None:
        self.ready = threading.Event()
        self._thread = threading.Thread(target=asyncio.run, args=(self._serve(),))
        self._thread.start()
        assert self.ready.wait(20)
        self.schema = schemathesis.openapi.from_url(f"{self.url}/openapi.json")

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with ScriptedWorker() as worker, running(config(worker.url), workers=1) as router:
            self.url, self.worker, self._router = f"http://127.0.0.1:{router.port}", worker, router
            self.ready.set()
            await self._stop.wait()

    def bring_back(self) -> str:
        """The id of the worker, which is there again if it was removed."""
        self._loop.call_soon_threadsafe(self._router.fleet.add_worker, self.worker.url)
        return f"127.0.0.1:{self.worker.port}"

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()


@pytest.fixture(scope="module")
def api() -> Iterator[Api]:
    api = Api()
    yield api
    api.close()


def tame(body: Any) -> Any:
    """The body with every address replaced by one of this host."""
    if not isinstance(body, dict):
        return body
    changes: dict[str, Any] = {}
    if isinstance(body.get("host_ip"), str):
        changes = {"host_ip": NOBODY[0], "port": NOBODY[1]}
    if isinstance(body.get("url"), str):
        changes = {"url": f"http://{NOBODY[0]}:{NOBODY[1]}"}
    return body | changes


@pytest.mark.timeout(120)
@pytest.mark.parametrize("operation", FUZZED, ids=lambda one: f"{one.method} {one.path}")
def test_answers_are_as_described(api: Api, operation: Operation):
    @seed(20)
    @settings(
        max_examples=3 if operation.path in SLOW else 15 if operation.takes or "{" in operation.path else 1,
        derandomize=False,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=api.schema[operation.path][operation.method].as_strategy(), known=st.booleans())
    def check(case: schemathesis.Case, known: bool) -> None:
        case.body = tame(case.body)
        if known and "worker" in case.path_parameters:
            case.path_parameters["worker"] = api.bring_back()
        case.call_and_validate(checks=CHECKS, timeout=20)

    check()


@pytest.mark.parametrize(
    "operation", [one for one in FUZZED if one.changes], ids=lambda one: f"{one.method} {one.path}"
)
@given(body=st.binary(max_size=30) | st.just(b"[" * 100_000) | st.just(b"{}"))
@settings(max_examples=5, deadline=None, database=None, suppress_health_check=list(HealthCheck))
def test_what_is_not_allowed_is_refused_as_described(api: Api, operation: Operation, body: bytes):
    case = api.schema[operation.path][operation.method].Case(path_parameters={"worker": "nobody:1"})
    response = case.call(data=body, headers={"content-type": "application/json"}, timeout=20)
    assert 400 <= response.status_code < 500
    case.validate_response(response, checks=CHECKS)
