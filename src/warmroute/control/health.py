"""How the router and its workers do: /health, /ready, /health_generate, /worker_metrics."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response

from warmroute.control.parts import ControlParts
from warmroute.control.readiness import Readiness


def health_routes(parts: ControlParts, readiness: Readiness) -> APIRouter:
    """Four questions that supervisors ask. HEAD is answered for the two that load balancers poll."""
    routes = APIRouter()

    @routes.api_route("/health", methods=["GET", "HEAD"])
    async def health() -> Response:
        return JSONResponse({"code": 200, "status": "ok"})

    @routes.api_route("/ready", methods=["GET", "HEAD"])
    async def ready() -> Response:
        is_ready = not parts.is_draining() and readiness.is_ready()
        status = 200 if is_ready else 503
        return JSONResponse({"code": status, "infer_ready": is_ready}, status)

    @routes.get("/health_generate")
    async def health_generate() -> Response:
        probes = await parts.fleet.probe_all()
        failed = {member.url: reason for member, passed, reason in probes if not passed}
        if not failed:
            return JSONResponse({"code": 200, "msg": "Health check complete"})
        urls = sorted(failed)
        msg = f"unhealthy: {', '.join(urls)}"
        reasons = [{"url": url, "reason": failed[url]} for url in urls]
        return JSONResponse({"code": 503, "msg": msg, "unhealthy": reasons}, 503)

    @routes.get("/worker_metrics")
    async def worker_metrics() -> Response:
        metrics = {
            # The contract's numbers are integers. Engines report finite floats, or nothing is kept of them.
            url: {name: round(value) for name, value in figures.items()}
            for url, figures in sorted(parts.fleet.worker_metrics().items())
        }
        is_queueing = any(figures["num_requests_waiting"] > 0 for figures in metrics.values())
        answer = {
            "code": 200,
            "metrics": metrics,
            "is_queueing": is_queueing,
            "pending_request_count": parts.metrics.queue_length,
        }
        return JSONResponse(answer)

    return routes
