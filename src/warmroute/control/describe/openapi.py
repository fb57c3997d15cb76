"""The OpenAPI 3.1 document of the control side, made from the table of operations."""

from __future__ import annotations

from collections import defaultdict
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from warmroute.control.describe.bodies import ControlProblem, Problem
from warmroute.control.describe.operations import OPERATIONS, Content, Operation

_REF = "#/components/schemas/{model}"
_ABOUT = """The control side of a Warmroute router. Inference requests (`/v1/chat/completions` and the like) are passed
on to workers as they are and are not described here.

What changes something is for this host alone, or for whoever has an admin key if there are any. With admin keys,
`/admin/` needs one, too."""
_CONTRACT = ("/register", "/deregister", "/workers")
_WORKER = {
    "name": "worker",
    "in": "path",
    "required": True,
    "description": "Its id (`host:port`), or its URL, percent-encoded.",
    "schema": {"type": "string", "minLength": 1},
    "example": "10.0.0.7:8000",
}


def openapi(version: str) -> dict[str, Any]:
    """The whole document; `version` is the router's."""
    paths: dict[str, dict[str, Any]] = defaultdict(dict)
    for operation in OPERATIONS:
        paths[operation.path][operation.method.lower()] = _describe(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Warmroute", "version": version, "description": _ABOUT},
        "paths": dict(paths),
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {"admin_key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _describe(operation: Operation) -> dict[str, Any]:
    described: dict[str, Any] = {
        "tags": [operation.tag],
        "summary": operation.summary,
        "operationId": f"{operation.method} {operation.path}",
        "responses": {str(status): _answer(operation, status) for status in _statuses(operation)},
    }
    if operation.notes:
        described["description"] = operation.notes
    parameters = [_WORKER] if "{worker}" in operation.path else []
    parameters += [{"name": name, "in": "query", "schema": schema} for name, schema in operation.query.items()]
    if parameters:
        described["parameters"] = parameters
    if operation.takes:
        forms = [_ref(model) for model in operation.takes]
        content = {"schema": forms[0] if len(forms) == 1 else {"anyOf": forms}, "example": operation.example}
        described["requestBody"] = {"required": True, "content": {"application/json": content}}
    if _is_guarded(operation):
        described["security"] = [{}, {"admin_key": []}]
    return described


def _statuses(operation: Operation) -> list[int]:
    refusals = {401, 403} if operation.changes else {401} if _is_guarded(operation) else set()
    return sorted({*operation.answers, *refusals})


def _answer(operation: Operation, status: int) -> dict[str, Any]:
    content = operation.answers.get(status, ControlProblem if operation.path.startswith(_CONTRACT) else Problem)
    answer: dict[str, Any] = {"description": HTTPStatus(status).phrase}
    if operation.method != "HEAD":
        answer["content"] = _content(content, is_list=operation.is_list and status == 200)
    return answer


def _content(content: Content, *, is_list: bool) -> dict[str, Any]:
    if isinstance(content, str):
        return {content: {"schema": {"type": "string"}}}
    schema = _ref(content)
    return {"application/json": {"schema": {"type": "array", "items": schema} if is_list else schema}}


def _is_guarded(operation: Operation) -> bool:
    return operation.changes or operation.path.startswith("/admin/")


def _ref(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": _REF.format(model=model.__name__)}


def _schemas() -> dict[str, Any]:
    answers = [content for operation in OPERATIONS for content in operation.answers.values()]
    models = {content for content in (*answers, ControlProblem, Problem) if not isinstance(content, str)}
    models |= {model for operation in OPERATIONS for model in operation.takes}
    ordered = sorted(models, key=lambda model: model.__name__)
    _, definitions = models_json_schema([(model, "validation") for model in ordered], ref_template=_REF)
    schemas: dict[str, Any] = definitions["$defs"]
    return schemas
