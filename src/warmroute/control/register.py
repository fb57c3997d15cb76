"""How engines make themselves known: POST /register, GET /registered, GET /registered_number."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from warmroute.control.bodies import BadJsonError, BodyTooLargeError, parse_json, read_body
from warmroute.control.errors import ControlError
from warmroute.control.parts import ControlParts
from warmroute.control.rejections import Rejections
from warmroute.fleet import InstanceInfo, InvalidInstance, Member, NotHealthy, read_instance
from warmroute.scheduling.worker import ROLES, Role


def register_routes(parts: ControlParts) -> APIRouter:
    """Status codes, texts and field forms are those of FastDeploy's router."""
    routes = APIRouter()
    rejections = Rejections()

    @routes.post("/register")
    async def register(request: Request) -> Response:
        who = request.client.host if request.client else "an unknown address"
        try:
            info = await _info(request)
            who = info.url
            await parts.fleet.register(info)
        except InvalidInstance as error:
            rejections.rejected(who, str(error))
            raise ControlError(400, str(error)) from error
        except NotHealthy as error:
            rejections.rejected(who, f"{error} ({error.reason})")
            raise ControlError(503, str(error)) from error
        except ControlError as error:
            rejections.rejected(who, error.msg)
            raise
        rejections.accepted(who)
        return JSONResponse({"code": 200, "msg": "Register success"})

    @routes.get("/registered")
    async def registered() -> Response:
        records = {role: [_record(member) for member in _registered(parts, role)] for role in ROLES}
        return JSONResponse({"code": 200, "msg": "success", **records})

    @routes.get("/registered_number")
    async def registered_number() -> Response:
        return JSONResponse({role: len(_registered(parts, role)) for role in ROLES})

    return routes


async def _info(request: Request) -> InstanceInfo:
    try:
        return read_instance(parse_json(await read_body(request)))
    except BodyTooLargeError as error:
        raise ControlError(413, str(error)) from error
    except BadJsonError as error:
        raise ControlError(400, f"Invalid InstanceInfo JSON format: {error}") from error


def _registered(parts: ControlParts, role: Role) -> list[Member]:
    """Healthy members only: FastDeploy's router drops a worker that is not, and readers of the list rely on that."""
    members = [member for member in parts.fleet.members if member.role == role and member.health.is_healthy]
    return sorted(members, key=lambda member: member.url)


def _record(member: Member) -> dict[str, Any]:
    """The contract's instance record, in which ports are strings and empty where not given."""
    info = member.info
    return {
        "url": member.url,
        "worker_type": member.role,
        "connector_port": _port(info.connector_port),
        "engine_worker_queue_port": _port(info.engine_worker_queue_port),
        "transfer_protocol": info.transfer_protocol,
        "rdma_ports": info.rdma_ports,
        "device_ids": info.device_ids,
        "metrics_port": _port(info.metrics_port),
        "tp_size": info.ranks,
    }


def _port(number: int) -> str:
    return str(number) if number else ""
