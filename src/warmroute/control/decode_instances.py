"""GET /decode_instances: with whom FastDeploy's prefill engines may connect before the first request comes.

They ask every few seconds for the decode engines that serve their version of the model, and open RDMA connections. The
records have the form in which FastDeploy's Python router hands registrations on.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response

from warmroute.control.parts import ControlParts
from warmroute.fleet import Member


def decode_instances_routes(parts: ControlParts) -> APIRouter:
    """A bare list, empty without decode workers. Without `version`, or for a worker that told none, any will do."""
    routes = APIRouter()

    @routes.get("/decode_instances")
    async def decode_instances(version: str = "") -> Response:
        members = [
            member
            for member in parts.fleet.members
            if member.role == "decode" and member.health.is_healthy and not member.leaving
            if not version or member.info.version in (None, version)
        ]
        return JSONResponse([_record(member) for member in sorted(members, key=lambda member: member.url)])

    return routes


def _record(member: Member) -> dict[str, Any]:
    """Ports and ids are strings, and "0" stands for a port that was not told."""
    info = member.info
    return {
        "role": info.role.upper(),
        "host_ip": info.address.host,
        "port": str(info.address.port),
        "metrics_port": str(info.metrics_port),
        "connector_port": str(info.connector_port),
        "engine_worker_queue_port": str(info.engine_worker_queue_port),
        "transfer_protocol": info.transfer_protocol,
        "rdma_ports": info.rdma_ports,
        "device_ids": info.device_ids,
        "tp_size": info.ranks,
        "is_paused": info.is_paused,
        "version": info.version,
    }
