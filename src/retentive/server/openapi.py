"""Makes the OpenAPI 3.1 document from the table of routes. `python -m retentive.server.openapi` prints it."""

from __future__ import annotations

import json
from functools import cache
from typing import Final

from retentive import __version__
from retentive.server.calls import Json
from retentive.server.fields import Field
from retentive.server.route import Route
from retentive.server.schemas import TEXT, JsonSchema, all_schemas, array, fixed, nullable, ref
from retentive.server.table import ROUTES
from retentive.values.names import MAX_NAME_CHARS

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
STREAM = "stream:"
LIST = "list:"
"""Prefixes of `Route.answer`.

`stream:` is followed by media types. `list:` is followed by the names of the schemas of items.
"""


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
    paths: dict[str, dict[str, object]] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "retentive", "version": __version__, "license": {"name": "Apache-2.0"}},
        "paths": paths,
        "components": {
            "schemas": all_schemas(),
            "responses": {
                status: {"description": text, "content": {"application/json": {"schema": ref("error")}}}
                for status, text in ERRORS.items()
            },
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "api_key": {"type": "apiKey", "in": "header", "name": "X-Api-Key"},
            },
        },
        "security": [{"bearer": []}, {"api_key": []}],
    }


def _operation(route: Route) -> Json:
    found: Json = {
        "operationId": route.name,
        "summary": route.summary,
        "description": f"Scope: {' or '.join(f'`{scope}`' for scope in route.scopes)}.",
        "parameters": [
            *({"name": name, "in": "path", "required": True, "schema": TEXT} for name in route.path_names),
            *(_parameter(field) for field in route.query),
            *([_IDEMPOTENCY_KEY] if route.method != "GET" else []),
            *([_RUN] if route.name in {"run_tool", "run_command"} else []),
        ],
        "responses": {"200": {"description": "Success", "content": _content(route.answer)}, **_errors(route)},
    }
    if route.body:
        found["requestBody"] = {
            "required": any(field.required for field in route.body),
            "content": {"application/json": {"schema": _body(route)}},
        }
    if route.upload:
        file = {"type": "string", "contentMediaType": "application/octet-stream"}
        found["requestBody"] = {"required": True, "content": {kind: {"schema": file} for kind in route.upload}}
    return found


def _parameter(field: Field) -> Json:
    schema = dict(field.kind.schema)
    if field.default is not None:
        schema["default"] = field.default
    return {
        "name": field.name,
        "in": "query",
        "required": field.required,
        "description": field.text,
        "schema": schema,
    }


def _body(route: Route) -> JsonSchema:
    properties: JsonSchema = {}
    for field in route.body:
        schema = dict(field.kind.schema)
        shape = schema if field.required or not schema else nullable(schema)
        properties[field.name] = {**shape, "description": field.text}
    needed = [field.name for field in route.body if field.required]
    return {"type": "object", "properties": properties, "required": needed, "additionalProperties": False}


def _content(answer: str) -> Json:
    if answer.startswith(STREAM):
        return {kind: {"schema": TEXT} for kind in answer.removeprefix(STREAM).split("|")}
    if answer.startswith(LIST):
        items = [ref(name) for name in answer.removeprefix(LIST).split("|")]
        schema = fixed(data=array(items[0] if len(items) == 1 else {"oneOf": items}), next_page=nullable(TEXT))
        return {"application/json": {"schema": schema}}
    return {"application/json": {"schema": ref(answer)}}


def _errors(route: Route) -> Json:
    unused = set() if route.conflicts else {"409"}
    unused |= set() if route.method == "POST" else {"413"}
    return {status: {"$ref": f"#/components/responses/{status}"} for status in ERRORS if status not in unused}


def main() -> None:
    """Print the OpenAPI document."""
    print(json.dumps(document(), indent=2, ensure_ascii=False))


if __name__ == "__main__":
    main()
