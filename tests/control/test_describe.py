"""The description of the control side: complete, sound, and shown without any other host."""

from __future__ import annotations

import re

import pytest
from pydantic import BaseModel, ValidationError

from warmroute.control.app import create_control_app
from warmroute.control.describe.openapi import openapi
from warmroute.control.describe.operations import OPERATIONS


@pytest.mark.filterwarnings("ignore:Duplicate Operation ID")
async def test_every_endpoint_is_described_and_no_other(control):
    # Of the framework's own description only the paths: it knows the answers of none of them.
    paths = create_control_app(control.parts).openapi()["paths"]
    there = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    assert {(operation.method, operation.path) for operation in OPERATIONS} == there


@pytest.mark.parametrize(
    "operation", [one for one in OPERATIONS if one.takes], ids=lambda one: f"{one.method} {one.path}"
)
def test_examples_are_what_may_be_sent(operation):
    assert any(_fits(model, operation.example) for model in operation.takes)


def _fits(model: type[BaseModel], example: object) -> bool:
    try:
        model.model_validate(example)
    except ValidationError:
        return False
    return True


def test_all_that_is_referred_to_is_there_and_nothing_more():
    document = openapi("1.2.3")
    referred = set(re.findall(r"#/components/schemas/(\w+)", str(document)))
    assert referred == set(document["components"]["schemas"])
    assert document["info"]["version"] == "1.2.3"


def test_what_needs_a_key_says_so():
    paths = openapi("")["paths"]
    assert paths["/workers"]["post"]["security"] == [{}, {"admin_key": []}]
    assert "401" in paths["/admin/state"]["get"]["responses"]
    assert "security" not in paths["/metrics"]["get"]


async def test_the_pages_are_served_from_the_packages(control):
    document = await control.get("/openapi.json")
    assert document.body == openapi("1.2.3")
    page = await control.get("/docs")
    assert page.status == 200
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "http" not in page.body.replace("http-equiv", "")
    for name in re.findall(r'(?:src|href)="(docs/[^"]+)"', page.body):
        asset = await control.get(f"/{name}")
        assert (asset.status, asset.headers["x-content-type-options"]) == (200, "nosniff")
    assert (await control.get("/docs/redoc.standalone.js")).status == 404
