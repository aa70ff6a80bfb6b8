"""Makes the page of the routes from the OpenAPI document, for the documentation site."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

from retentive.server.handlers import ROUTES
from retentive.server.openapi import document
from retentive.wire.errors import BY_CODE

INTRODUCTION = """\
# The HTTP API

All routes of `retentive serve` ([server](server.md) describes how to run it). `docs/openapi.json`, which the server
also sends for `GET /openapi.json`, is the same as an OpenAPI 3.1 document. Bodies are JSON objects; a field marked `*`
is required, and null counts as absent. Success is 200.
"""
ERRORS = """\
## Errors

An error is `{"type":"error","error":{"type":...,"message":...,"details":{"error_code":...}},"request_id":...}`. The
code is stable; the SDK has it as `error_code`. Answers with the status 409, 500 or 507 have the header
`x-should-retry: false`, since the same request would fail again; 503 has `retry-after`.

| code | status | type |
| --- | --- | --- |
"""


def page() -> str:
    """Return the page of the routes."""
    parts = [INTRODUCTION]
    paths = cast("Mapping[str, Mapping[str, Any]]", document()["paths"])
    schemas = cast("Mapping[str, Mapping[str, Any]]", document()["components"])["schemas"]
    for path, operations in paths.items():
        for method, operation in operations.items():
            parts += _operation(f"{method.upper()} {path}", operation, schemas)
    parts.append(ERRORS + "".join(f"| `{code}` | {status} | `{kind}` |\n" for code, (status, kind) in BY_CODE.items()))
    parts.append("\n## Objects\n")
    bodies = {route.body.__name__ for route in ROUTES if route.body is not None}
    for name in sorted(schemas.keys() - bodies):
        schema = schemas[name]
        parts.append(f"### {name}\n\n{schema.get('description', '')}\n\n`{_shape(schema)}`\n")
    return "\n".join(parts)


def _operation(title: str, operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> Iterator[str]:
    yield f"## {title}\n"
    yield f"{operation['summary']}. {operation['description']} Answer: {_answer(operation)}.\n"
    rows = [
        (each["name"], "query", each["required"], each["description"], each["schema"])
        for each in operation["parameters"]
        if each["in"] == "query"
    ]
    content = operation["requestBody"]["content"] if "requestBody" in operation else {}
    if content and "application/json" not in content:
        yield f"Body: {' or '.join(f'`{kind}`' for kind in content)}.\n"
    elif content:
        body = schemas[_shape(content["application/json"]["schema"])]
        for name, schema in body["properties"].items():
            rows.append((name, "body", name in body.get("required", ()), schema.get("description", ""), schema))
    if rows:
        yield "| field | in | type | |\n| --- | --- | --- | --- |"
        for name, where, is_required, text, schema in rows:
            default = f" Default: `{json.dumps(schema['default'])}`." if "default" in schema else ""
            kind = _shape(schema).removesuffix(" or null")
            yield f"| `{name}`{'*' if is_required else ''} | {where} | `{kind}` | {text}.{default} |"
        yield ""


def _answer(operation: Mapping[str, Any]) -> str:
    found = operation["responses"]["200"]["content"]
    if "application/json" in found:
        return f"`{_shape(found['application/json']['schema'])}`"
    return " or ".join(f"`{kind}`" for kind in found)


def _shape(schema: Mapping[str, Any]) -> str:
    for name in ("anyOf", "oneOf"):
        if name in schema:
            return " or ".join(_shape(each) for each in schema[name])
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return ", ".join(schema["enum"])
    kind = schema.get("type", "any")
    if kind == "array":
        return f"[{_shape(schema['items'])}]"
    if kind == "object" and schema.get("properties"):
        return "{" + ", ".join(f"{name}: {_shape(each)}" for name, each in schema["properties"].items()) + "}"
    return "time" if schema.get("format") == "date-time" else str(kind)
