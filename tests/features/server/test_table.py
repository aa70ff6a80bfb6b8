"""The table of routes: it fits the handlers, and the OpenAPI document is valid."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from pathlib import Path

from jsonschema import Draft202012Validator

from retentive.server import reference
from retentive.server.openapi import document
from retentive.server.schemas import all_schemas
from retentive.server.table import ROUTES

ROOT = Path(__file__).parents[3]
IDS = [f"{route.method} {route.path}" for route in ROUTES]


def test_handlers_take_the_fields_of_their_route() -> None:
    for route in ROUTES:
        parameters = list(inspect.signature(route.handler).parameters.values())[1:]
        given = {field.argument for field in (*route.query, *route.body)}
        named = {each.name for each in parameters if each.kind is each.KEYWORD_ONLY}
        takes_all = any(each.kind is each.VAR_KEYWORD for each in parameters)
        assert named <= given, route.name
        assert takes_all or named == given, route.name


def test_routes_and_their_names_are_unique() -> None:
    assert len({(route.method, route.path) for route in ROUTES}) == len(ROUTES)
    assert len({route.name for route in ROUTES}) == len(ROUTES)


def test_only_posts_have_a_body() -> None:
    assert [route.name for route in ROUTES if route.body and route.method != "POST"] == []


def test_schemas_are_valid() -> None:
    for schema in all_schemas().values():
        Draft202012Validator.check_schema(schema)


def test_schemas_of_answers_name_every_field() -> None:
    """Otherwise no test would find a field that is not documented."""
    assert [name for name, schema in all_schemas().items() if list(open_objects(schema))] == []


def open_objects(schema: object) -> Iterator[object]:
    """Schemas of objects that allow further fields."""
    if isinstance(schema, dict):
        if schema.get("type") == "object" and schema.get("additionalProperties", True) is True:
            yield schema
        for each in schema.values():
            yield from open_objects(each)
    if isinstance(schema, list):
        for each in schema:
            yield from open_objects(each)


def test_the_document_is_current() -> None:
    assert json.loads((ROOT / "docs" / "openapi.json").read_text("utf-8")) == document(), "run: make docs"


def test_the_page_of_the_routes_is_current() -> None:
    assert (ROOT / "docs" / "http-api.md").read_text("utf-8") == reference.page(), "run: make docs"


def test_every_schema_is_used() -> None:
    text = str(document())
    assert [name for name in all_schemas() if f"#/components/schemas/{name}'" not in text] == []
