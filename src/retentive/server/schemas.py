"""JSON schemas of the objects in responses, for the OpenAPI document. Tests check all responses against them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from retentive.server.keys import SCOPES
from retentive.server.webhooks import EVENTS
from retentive.values.settings import NAMES

JsonSchema: TypeAlias = dict[str, object]
TEXT: JsonSchema = {"type": "string"}
NUMBER: JsonSchema = {"type": "integer", "minimum": 0}
FLAG: JsonSchema = {"type": "boolean"}
TIME: JsonSchema = {"type": "string", "format": "date-time", "pattern": "Z$"}
SHA256: JsonSchema = {"type": "string", "pattern": "^[0-9a-f]{64}$"}


def ref(name: str) -> JsonSchema:
    """Return a JSON reference to the schema `name` of the OpenAPI document."""
    return {"$ref": f"#/components/schemas/{name}"}


def const(value: str) -> JsonSchema:
    """Return the schema of the string `value`."""
    return {"type": "string", "const": value}


def enum(*values: str) -> JsonSchema:
    """Return the schema of a string that is one of `values`."""
    return {"type": "string", "enum": list(values)}


def nullable(schema: JsonSchema) -> JsonSchema:
    """Return a schema that also accepts null."""
    return {"anyOf": [schema, {"type": "null"}]}


def array(schema: JsonSchema) -> JsonSchema:
    """Return the schema of a list."""
    return {"type": "array", "items": schema}


def map_of(schema: JsonSchema) -> JsonSchema:
    """Return the schema of an object that may have any names. All its values have the schema `schema`."""
    return {"type": "object", "additionalProperties": schema}


def fixed(**properties: JsonSchema) -> JsonSchema:
    """Return the schema of an object that has exactly these properties. All of them are required."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _with_optional(schema: JsonSchema, **properties: JsonSchema) -> JsonSchema:
    known = schema["properties"]
    assert isinstance(known, dict)
    return {**schema, "properties": {**known, **properties}}


ACTOR = nullable(ref("actor"))
MARKS = array({"type": "array", "items": NUMBER, "minItems": 2, "maxItems": 2})
SCHEMAS: Mapping[str, JsonSchema] = {
    "actor": {
        "oneOf": [
            fixed(type=const("session_actor"), session_id=TEXT),
            fixed(type=const("user_actor"), user_id=TEXT),
            fixed(type=const("service_account_actor"), service_account_id=TEXT),
            fixed(type=const("api_actor"), api_key_id=TEXT),
        ]
    },
    "tool_result": _with_optional(
        fixed(type=const("tool_result"), tool_use_id=TEXT, content=TEXT), is_error={"const": True}
    ),
    "command_result": fixed(
        type=const("command_result"),
        content=TEXT,
        is_error=FLAG,
        error_code=nullable(TEXT),
        path=nullable(TEXT),
        memory_id=nullable(TEXT),
        memory_version_id=nullable(TEXT),
        change_count=NUMBER,
        changes=array(
            fixed(path=TEXT, memory_id=TEXT, memory_version_id=TEXT, operation=enum("created", "modified", "deleted"))
        ),
        notes=array(TEXT),
        proposed=FLAG,
        conflicting_memory_id=nullable(TEXT),
        conflicting_path=nullable(TEXT),
    ),
    "batch_result": fixed(
        type=const("batch_result"),
        results=array(
            fixed(
                path=TEXT,
                memory_id=nullable(TEXT),
                memory_version_id=nullable(TEXT),
                change_count=NUMBER,
                notes=array(TEXT),
                proposed=FLAG,
            )
        ),
    ),
    "memory_store_usage": fixed(
        type=const("memory_store_usage"), memory_store_id=TEXT, memories=NUMBER, content_size_bytes=NUMBER
    ),
    "memory_store_settings": fixed(
        type=const("memory_store_settings"), memory_store_id=TEXT, settings=fixed(**{name: {} for name in NAMES})
    ),
    "memory_store": fixed(
        id=TEXT,
        type=const("memory_store"),
        name=TEXT,
        description=TEXT,
        metadata=map_of(TEXT),
        key=nullable(TEXT),
        memory_count=nullable(NUMBER),
        content_size_bytes=nullable(NUMBER),
        created_at=TIME,
        updated_at=TIME,
        archived_at=nullable(TIME),
    ),
    "memory_store_deleted": fixed(id=TEXT, type=const("memory_store_deleted")),
    "memory": fixed(
        id=TEXT,
        type=const("memory"),
        memory_store_id=TEXT,
        memory_version_id=TEXT,
        path=TEXT,
        content=nullable(TEXT),
        content_sha256=SHA256,
        content_size_bytes=NUMBER,
        created_at=TIME,
        updated_at=TIME,
    ),
    "memory_prefix": fixed(type=const("memory_prefix"), path=TEXT),
    "memory_deleted": fixed(id=TEXT, type=const("memory_deleted")),
    "memory_version": fixed(
        id=TEXT,
        type=const("memory_version"),
        memory_id=TEXT,
        memory_store_id=TEXT,
        operation=enum("created", "modified", "deleted"),
        path=nullable(TEXT),
        content=nullable(TEXT),
        content_sha256=nullable(SHA256),
        content_size_bytes=nullable(NUMBER),
        created_at=TIME,
        created_by=ACTOR,
        redacted_at=nullable(TIME),
        redacted_by=ACTOR,
        revision=NUMBER,
        provenance=nullable(ref("provenance")),
    ),
    "versions_redacted": fixed(type=const("versions_redacted"), versions=NUMBER, pending=FLAG),
    "provenance": fixed(
        integration=TEXT,
        tool_use_id=TEXT,
        session=TEXT,
        source=TEXT,
        cause=TEXT,
        api_key_id=TEXT,
        flags=array(fixed(line=NUMBER, kind=TEXT)),
        contributors=array(fixed(at=TEXT, actor=TEXT, session=TEXT, source=TEXT)),
    ),
    "memory_store_event": fixed(
        id=TEXT,
        type=const("memory_store_event"),
        memory_store_id=TEXT,
        event=TEXT,
        created_at=TIME,
        created_by=ACTOR,
        ids=array(TEXT),
        count=NUMBER,
    ),
    "change_feed": fixed(
        data=array({"oneOf": [ref("memory_version"), ref("memory_store_event")]}),
        next=TEXT,
        newest=TEXT,
        has_gap=FLAG,
    ),
    "change_result": fixed(
        type=const("change_result"),
        steps=array(
            fixed(operation=enum("created", "modified", "renamed", "deleted"), memory_id=TEXT, path=TEXT),
        ),
        left=array(fixed(path=TEXT, memory_id=TEXT, reason=TEXT)),
        proposed=FLAG,
        dry_run=FLAG,
    ),
    "memory_diff": fixed(
        type=const("memory_diff"), memory_version_id=TEXT, against_memory_version_id=nullable(TEXT), unified=TEXT
    ),
    "memory_blame": fixed(
        type=const("memory_blame"),
        memory_id=TEXT,
        path=TEXT,
        lines=array(
            fixed(
                line=NUMBER,
                text=TEXT,
                memory_version_id=TEXT,
                created_at=TIME,
                created_by=ACTOR,
                source=nullable(TEXT),
                session=nullable(TEXT),
            )
        ),
    ),
    "doubted_memory": fixed(
        type=const("doubted_memory"),
        memory_id=TEXT,
        path=TEXT,
        level=enum("unconfirmed", "quarantined"),
        contributors=array(TEXT),
        flags=array(fixed(line=NUMBER, kind=TEXT)),
    ),
    "trust_confirmation": fixed(type=const("trust_confirmation"), paths=array(TEXT)),
    "quarantine_change": fixed(type=const("quarantine_change"), pattern=TEXT, changed=FLAG),
    "search_results": fixed(
        data=array(ref("search_result")),
        next_page={"type": "null"},
        total=NUMBER,
        unknown_words=array(TEXT),
        damaged_paths=array(TEXT),
        relaxed=FLAG,
    ),
    "search_result": fixed(
        type=const("search_result"),
        memory_id=TEXT,
        memory_version_id=TEXT,
        path=TEXT,
        path_marks=MARKS,
        memory=nullable(ref("memory")),
        score={"type": "number"},
        updated_at=TIME,
        updated_by=ACTOR,
        trust=TEXT,
        matching_lines=NUMBER,
        snippets=array(fixed(line=NUMBER, text=TEXT, marks=MARKS, headings=array(TEXT))),
    ),
    "proposal": fixed(
        id=TEXT,
        type=const("proposal"),
        proposed_by=ACTOR,
        created_at=TIME,
        changes=array(
            fixed(
                operation=enum("created", "modified", "deleted", "renamed"),
                memory_id=TEXT,
                path=nullable(TEXT),
                path_before=nullable(TEXT),
                content_size_bytes=nullable(NUMBER),
                content_sha256=nullable(SHA256),
                before=nullable(TEXT),
                after=nullable(TEXT),
            )
        ),
    ),
    "proposal_decision": fixed(
        type=const("proposal_decision"), done=array(TEXT), already=array(TEXT), with_them=array(TEXT)
    ),
    "audit_entry": fixed(
        type=const("audit_entry"),
        seq=NUMBER,
        created_at=TIME,
        actor=ACTOR,
        operation=nullable(TEXT),
        integration=TEXT,
        outcome=TEXT,
        change_count=NUMBER,
        memory_version_ids=array(TEXT),
    ),
    "audit_report": fixed(
        type=const("audit_report"),
        is_sound=FLAG,
        entries=NUMBER,
        problem=nullable(TEXT),
        head=nullable(TEXT),
        unaudited_memory_version_ids=array(TEXT),
    ),
    "import_result": fixed(
        type=const("import_result"),
        files=array(
            fixed(
                name=TEXT,
                path=nullable(TEXT),
                outcome=enum("created", "replaced", "same", "exists", "left", "refused"),
                reason=nullable(TEXT),
            )
        ),
        dry_run=FLAG,
        proposed=FLAG,
    ),
    "import_of_memory_store": fixed(
        type=const("import_of_memory_store"),
        memory_store=ref("memory_store"),
        memories=NUMBER,
        content_size_bytes=NUMBER,
        versions=NUMBER,
        added_versions=NUMBER,
    ),
    "memory_erased": fixed(id=TEXT, type=const("memory_erased"), versions=NUMBER, pending=FLAG),
    "api_key": fixed(
        id=TEXT,
        type=const("api_key"),
        name=TEXT,
        status=enum("active", "inactive", "archived", "expired"),
        partial_key_hint=TEXT,
        created_at=TIME,
        created_by=nullable(fixed(id=TEXT, type=enum("user", "service_account"))),
        expires_at=nullable(TIME),
        principal=nullable(ref("actor")),
        scope=fixed(type=const("workspace"), workspace_id=TEXT),
        scopes=array(enum(*SCOPES)),
        stores=array(TEXT),
        paths=array(TEXT),
        act_as=array(TEXT),
        rate_limit=nullable(TEXT),
        max_body_bytes=nullable(NUMBER),
        last_used_at=nullable(TIME),
    ),
    "api_key_list": fixed(data=array(ref("api_key")), has_more=FLAG, first_id=nullable(TEXT), last_id=nullable(TEXT)),
    "webhook_endpoint": fixed(
        id=TEXT,
        type=const("webhook_endpoint"),
        url=TEXT,
        name=TEXT,
        description=TEXT,
        enabled_events=array(enum(*EVENTS)),
        state=enum("enabled", "disabled"),
        created_at=TIME,
        updated_at=TIME,
    ),
    "webhook_endpoint_deleted": fixed(id=TEXT, type=const("webhook_endpoint_deleted")),
    "webhook_delivery": fixed(
        type=const("webhook_delivery"),
        webhook_event_id=TEXT,
        webhook_endpoint_id=TEXT,
        event=enum(*EVENTS),
        state=enum("pending", "dead"),
        attempts=NUMBER,
        last_error=nullable(TEXT),
        created_at=TIME,
        last_attempt_at=nullable(TIME),
    ),
    "error": fixed(
        type=const("error"),
        error={
            "type": "object",
            "properties": {
                "type": TEXT,
                "message": TEXT,
                "details": fixed(error_code=TEXT),
                "conflicting_memory_id": nullable(TEXT),
                "conflicting_path": nullable(TEXT),
                "position": NUMBER,
                "conflicts": array(
                    {
                        "oneOf": [
                            fixed(path=nullable(TEXT), memory_id=TEXT, reason=TEXT),
                            fixed(path=nullable(TEXT), proposal_id=TEXT, reason=TEXT),
                        ]
                    }
                ),
            },
            "required": ["type", "message", "details"],
            "additionalProperties": False,
        },
        request_id=TEXT,
    ),
}


def _with_secret(name: str, secret: str) -> JsonSchema:
    properties = SCHEMAS[name]["properties"]
    assert isinstance(properties, dict)
    return fixed(**properties, **{secret: TEXT})


def all_schemas() -> dict[str, JsonSchema]:
    """Return all schemas of the OpenAPI document, by name."""
    return {
        **SCHEMAS,
        "new_api_key": _with_secret("api_key", "api_key"),
        "new_webhook_endpoint": _with_secret("webhook_endpoint", "signing_secret"),
    }
