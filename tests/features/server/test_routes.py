"""The routes, and the OpenAPI document that is made from them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from retentive.server.handlers import ROUTES
from retentive.server.openapi import document
from support.http_api import fields_in

ROOT = Path(__file__).parents[3]
SCHEMAS: dict[str, Any] = document()["components"]["schemas"]  # type: ignore[index]


def test_routes_and_their_names_are_unique() -> None:
    assert len({(route.method, route.path) for route in ROUTES}) == len(ROUTES)
    assert len({route.name for route in ROUTES}) == len(ROUTES)


def test_schemas_are_valid() -> None:
    for schema in SCHEMAS.values():
        Draft202012Validator.check_schema(schema)


def test_schemas_of_answers_name_every_field() -> None:
    """Otherwise no test would find a field that is not documented."""
    answers = {route.answer.__name__ for route in ROUTES if route.answer is not None} | {"ErrorAnswer"}
    assert [name for name in answers if list(ObjectsBackend(SCHEMAS[name]))] == []


def test_every_field_of_a_request_has_a_type() -> None:
    fields = [each for route in ROUTES for model in (route.query, route.body) for each in fields_in(model).items()]
    types = {"type", "anyOf", "oneOf", "$ref", "const", "enum"}
    assert [name for name, schema in fields if not schema.keys() & types] == []


def ObjectsBackend(schema: object) -> Iterator[object]:
    """Schemas of objects that allow further fields."""
    if isinstance(schema, dict):
        if schema.get("type") == "object" and schema.get("additionalProperties", True) is True:
            yield schema
        for each in schema.values():
            yield from ObjectsBackend(each)
    if isinstance(schema, list):
        for each in schema:
            yield from ObjectsBackend(each)


def test_the_document_is_current() -> None:
    assert json.loads((ROOT / "docs" / "openapi.json").read_text("utf-8")) == document(), "run: make docs"
