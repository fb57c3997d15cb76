"""The life cycle of workers: list, add, drain, remove. A worker is named by its id or its percent-encoded URL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from warmroute.control.bodies import BadJsonError, BodyTooLargeError, parse_object, read_body
from warmroute.control.errors import ControlError
from warmroute.control.parts import ControlParts
from warmroute.fleet import InvalidInstance, Member, UnknownWorker
from warmroute.fleet.address import url_host
from warmroute.fleet.instance_fields import role_named
from warmroute.scheduling.worker import ROLES, Role


def workers_routes(parts: ControlParts) -> APIRouter:
    """Answers come at once: a removal goes on in the background until the last request has ended."""
    routes = APIRouter()
    fleet = parts.fleet

    @routes.get("/workers")
    async def list_workers() -> Response:
        members = sorted(fleet.members, key=lambda member: member.id)
        return JSONResponse({"code": 200, "msg": "success", "workers": [_entry(member) for member in members]})

    @routes.post("/workers")
    async def add_worker(request: Request) -> Response:
        fields = await _fields(request)
        try:
            member = fleet.add_worker(_text(fields, "url"), _role(fields), _bootstrap_port(fields))
        except InvalidInstance as error:
            raise ControlError(400, str(error)) from error
        return JSONResponse({"code": 200, "msg": "success", **_entry(member)})

    @routes.post("/deregister")
    async def deregister(request: Request) -> Response:
        return _leave(named(await _fields(request)), for_good=False)

    # `:path` because a percent-encoded URL arrives decoded, with its slashes. The longer paths must come first.
    @routes.post("/workers/{worker:path}/drain")
    async def drain(worker: str) -> Response:
        member = _known(worker)
        fleet.drain(member.id)
        return _draining(member.running)

    @routes.post("/workers/{worker:path}/undrain")
    async def undrain(worker: str) -> Response:
        member = _known(worker)
        fleet.undrain(member.id)
        return JSONResponse({"code": 200, "msg": "success", **_entry(member)})

    @routes.get("/workers/{worker:path}")
    async def show_worker(worker: str) -> Response:
        return JSONResponse(_entry(_known(worker)))

    @routes.delete("/workers/{worker:path}")
    async def remove_worker(worker: str) -> Response:
        return _leave(unquote(worker), for_good=True)

    def _known(worker: str) -> Member:
        # Some clients encode twice; no id contains a percent sign, so decoding once more is safe.
        name = unquote(worker)
        member = fleet.get(name)
        if member is None:
            raise ControlError(404, str(UnknownWorker(name)))
        return member

    def _leave(worker: str, *, for_good: bool) -> Response:
        try:
            running = fleet.deregister(worker, for_good=for_good)
        except UnknownWorker as error:
            raise ControlError(404, str(error)) from error
        return _draining(running)

    return routes


def named(fields: Mapping[str, Any]) -> str:
    """The worker that a body names: `{"url"}` or `{"host_ip", "port"}`. Raises ControlError (400)."""
    if fields.get("url") is not None:
        return _text(fields, "url")
    if fields.get("host_ip") is None:
        raise ControlError(400, "url, or host_ip and port, is required")
    port = fields.get("port")
    if isinstance(port, bool) or not isinstance(port, int | str) or not str(port).isdecimal():
        raise ControlError(400, "port must be a number")
    return f"{url_host(_text(fields, 'host_ip'))}:{port}"


def _draining(running: int) -> Response:
    return JSONResponse({"code": 200, "msg": "draining", "running": running})


async def _fields(request: Request) -> dict[str, Any]:
    try:
        return parse_object(await read_body(request))
    except BodyTooLargeError as error:
        raise ControlError(413, str(error)) from error
    except BadJsonError as error:
        raise ControlError(400, f"Invalid JSON format: {error}") from error


def _text(fields: Mapping[str, Any], key: str) -> str:
    value = fields.get(key)
    if not isinstance(value, str) or not value.strip():
        raise ControlError(400, f"{key} must be a non-empty string")
    return value.strip()


def _role(fields: Mapping[str, Any]) -> Role:
    value = fields.get("role")
    if value is None or value == "":
        return "mixed"
    role = role_named(value) if isinstance(value, str) else None
    if role is None:
        raise ControlError(400, f"invalid role: {str(value)[:100]}; known: {', '.join(ROLES)}")
    return role


def _bootstrap_port(fields: Mapping[str, Any]) -> int:
    value = fields.get("bootstrap_port")
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 65535:
        raise ControlError(400, "bootstrap_port must be a port number")
    return value


def _entry(member: Member) -> dict[str, Any]:
    load = member.worker.load
    return {
        "id": member.id,
        "url": member.url,
        "role": member.role,
        "state": member.state,
        "breaker": member.breaker.state.value,
        "stuck": member.stuck_since is not None,
        "running": load.running_requests,
        "pending_prefill_tokens": load.pending_prefill_tokens,
        "dialect": member.dialect.name if member.dialect else None,
        "models": sorted(member.model_ids),
        "source": member.source,
    }
