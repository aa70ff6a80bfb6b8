"""Makes the OpenAPI 3.1 document from the routes and their models, and its page for the documentation site.

`python -m retentive.server.openapi` prints the document.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Final

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue, models_json_schema
from pydantic_core import core_schema

from retentive import __version__
from retentive.server.calls import STORE, Json, Route
from retentive.server.handlers import ROUTES
from retentive.values.text import MAX_NAME_CHARS
from retentive.wire.errors import BY_CODE, ErrorAnswer

ERRORS = {
    "400": "The request is malformed, or over a limit",
    "401": "The key is missing, unknown, expired or revoked",
    "403": "The key lacks a scope, or the memory is read-only",
    "404": "Nothing has this id, or the key may not see it",
    "408": "The request did not arrive in time",
    "409": "The request conflicts with the present state",
    "413": "The body is too long",
    "414": "The URL is too long",
    "429": "The key has sent too many requests; `retry-after` says when to try again",
    "431": "The headers are too long",
    "500": "Stored data is damaged or encrypted with another key, or the server has a bug",
    "503": "The storage is unavailable or the server overloaded; `retry-after` says when to try again",
    "504": "The request took longer than the deadline, and may still take effect",
    "507": "The disk is full",
}
TEXT: Final[Json] = {"type": "string"}
REF = "#/components/schemas/{model}"
_IDEMPOTENCY_KEY: Final[Json] = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Name of the request, the same whenever it is sent again: within 24 hours it makes its change once.",
    "schema": {"type": "string", "pattern": "^[!-~]{1,255}$"},
}

_RUN: Final[Json] = {
    "name": "Retentive-Run",
    "in": "header",
    "required": False,
    "description": "Run in which the id of the call is unique. Ids of the Claude API need none.",
    "schema": {"type": "string", "minLength": 1, "maxLength": MAX_NAME_CHARS},
}


@cache
def document() -> Json:
    """Return the OpenAPI document. It is cached, so callers must not change it."""
    answers = {route.answer for route in ROUTES if route.answer is not None} | {ErrorAnswer}
    bodies = {route.body for route in ROUTES if route.body is not None}
    schemas: list[tuple[type[BaseModel], JsonSchemaMode]] = [
        *((model, "serialization") for model in sorted(answers, key=lambda model: model.__name__)),
        *((model, "validation") for model in sorted(bodies, key=lambda model: model.__name__)),
    ]
    _, found = models_json_schema(schemas, ref_template=REF, schema_generator=_Schemas)
    components = {name: found["$defs"][name] for name in sorted(found["$defs"])}
    paths: dict[str, dict[str, object]] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "retentive", "version": __version__, "license": {"name": "Apache-2.0"}},
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": {
                status: {"description": text, "content": _json(ErrorAnswer)} for status, text in ERRORS.items()
            },
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "api_key": {"type": "apiKey", "in": "header", "name": "X-Api-Key"},
            },
        },
        "security": [{"bearer": []}, {"api_key": []}],
    }


class _Schemas(GenerateJsonSchema):
    """Schemas without titles: the names of the fields and models say the same."""

    def normalize_name(self, name: str) -> str:
        return super().normalize_name(re.sub(r"^(?:Answer|Id)Page\[(\w+)Object\]$", r"\1Page", name))

    def field_title_should_be_set(self, schema: object) -> bool:
        return False

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        found = super().model_schema(schema)
        found.pop("title", None)
        return found


def _operation(route: Route) -> Json:
    content = (
        _json(route.answer) if route.answer is not None else {kind: {"schema": TEXT} for kind in route.media_types}
    )
    is_repeatable = (
        route.path.startswith(f"{STORE}/") and route.method != "GET" and route.name != "archive_memory_store"
    )
    unused = (set() if route.conflicts else {"409"}) | (set() if route.method == "POST" else {"413"})
    errors = {status: {"$ref": f"#/components/responses/{status}"} for status in ERRORS if status not in unused}
    found: Json = {
        "operationId": route.name,
        "summary": route.summary,
        "description": f"Scope: {' or '.join(f'`{scope}`' for scope in route.scopes)}.",
        "parameters": [
            *({"name": name, "in": "path", "required": True, "schema": TEXT} for name in route.path_names),
            *_parameters(route),
            *([_IDEMPOTENCY_KEY] if is_repeatable else []),
            *([_RUN] if route.name in {"run_tool", "run_command"} else []),
        ],
        "responses": {"200": {"description": "Success", "content": content}, **errors},
    }
    if route.body is not None:
        is_required = any(field.is_required() for field in route.body.model_fields.values())
        found["requestBody"] = {"required": is_required, "content": _json(route.body)}
    if route.upload:
        file = {"type": "string", "contentMediaType": "application/octet-stream"}
        found["requestBody"] = {"required": True, "content": {kind: {"schema": file} for kind in route.upload}}
    return found


def _parameters(route: Route) -> Iterator[Json]:
    found = route.query.model_json_schema(schema_generator=_Schemas)
    for name, schema in found.get("properties", {}).items():
        text = schema.pop("description")
        is_nullable = schema.get("default", ...) is None  # a query has no null
        required = name in found.get("required", ())
        yield {
            "name": name,
            "in": "query",
            "required": required,
            "description": text,
            "schema": schema["anyOf"][0] if is_nullable else schema,
        }


def _json(model: type[BaseModel]) -> Json:
    return {"application/json": {"schema": {"$ref": REF.format(model=model.__name__)}}}


REFERENCE = """\
# The HTTP API

All routes of `retentive serve` ([server](server.md) describes how to run it), with the scopes of which a key needs one.
[openapi.json](openapi.json), which a server also sends for `GET /openapi.json`, has their fields and objects as an
OpenAPI 3.1 document; viewers such as Swagger UI show it. Bodies are JSON objects. Success is 200.

| route | scope | |
| --- | --- | --- |
"""
ERROR_CODES = """
## Errors

An error is `{"type":"error","error":{"type":...,"message":...,"details":{"error_code":...}},"request_id":...}`. The
code is stable; the SDK has it as `error_code`. Answers with the status 409, 500 or 507 have the header
`x-should-retry: false`, since the same request would fail again; 503 has `retry-after`.

| code | status | type |
| --- | --- | --- |
"""


def reference() -> str:
    """Return the page of the routes and errors for the documentation site."""
    routes = (f"| `{each.method} {each.path}` | {', '.join(each.scopes)} | {each.summary} |\n" for each in ROUTES)
    codes = (f"| `{code}` | {status} | `{kind}` |\n" for code, (status, kind) in BY_CODE.items())
    return REFERENCE + "".join(routes) + ERROR_CODES + "".join(codes)


if __name__ == "__main__":
    print(json.dumps(document(), indent=2, ensure_ascii=False))
