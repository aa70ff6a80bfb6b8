"""Actors in answers. Their fields hold the library's `Actor`."""

from __future__ import annotations

from typing import Annotated, Any, cast

from pydantic import BeforeValidator, PlainSerializer, PlainValidator, WithJsonSchema
from typing_extensions import TypeAliasType

from retentive.values.records import Actor, ActorKind

ACTORS = {
    "session": ("session_actor", "session_id"),
    "user": ("user_actor", "user_id"),
    "service_account": ("service_account_actor", "service_account_id"),
    "api_key": ("api_actor", "api_key_id"),
}
"""The type and the field of an actor in the API, by its kind."""
PRINCIPALS = ("user", "service_account")
"""Kinds of actors that can own an API key."""
RESERVED_ACCOUNT = "svac_job_"
"""Prefix of the ids of service accounts that are reserved for the jobs of retentive."""
_KINDS = {type_: (kind, field) for kind, (type_, field) in ACTORS.items()}


def _to_json(actor: Actor | None) -> dict[str, str] | None:
    """Return the JSON object of an actor. A job is shown as a service account, because the SDK refuses other types."""
    if actor is None:
        return None
    if actor.kind == "job":
        return {"type": "service_account_actor", "service_account_id": RESERVED_ACCOUNT + actor.id}
    type_, field = ACTORS[actor.kind]
    return {"type": type_, field: actor.id}


def _from_json(given: Any) -> Actor | None:
    """Parse an actor. Return None if there is none, or if it has an unknown type or no id."""
    if given is None or isinstance(given, Actor):
        return given
    kind, field = _KINDS.get(given.get("type"), ("", ""))
    return named_actor(kind, str(given[field])) if field in given else None


def named_actor(kind: str, name: str) -> Actor:
    """Return the actor that the API shows with this kind and with `name` as its id."""
    if kind == "service_account" and name.startswith(RESERVED_ACCOUNT):
        kind, name = "job", name.removeprefix(RESERVED_ACCOUNT)
    return Actor(cast("ActorKind", kind), name)


def _schema(type_: str, field: str) -> dict[str, Any]:
    properties = {"type": {"const": type_}, field: {"type": "string"}}
    return {"type": "object", "properties": properties, "required": ["type", field], "additionalProperties": False}


def _principal(given: object) -> object:
    if isinstance(given, dict) and len(given) == 2 and all(isinstance(each, str) for each in given.values()):
        return _from_json(given)
    return given


ActorObject = TypeAliasType(
    "ActorObject",
    Annotated[
        Actor | None,
        PlainValidator(_from_json),
        PlainSerializer(_to_json),
        WithJsonSchema({"oneOf": [*(_schema(*names) for names in ACTORS.values()), {"type": "null"}]}),
    ],
)
"""Actor in an answer, null if it is unknown."""
Principal = Annotated[
    Actor, BeforeValidator(_principal), WithJsonSchema({"oneOf": [_schema(*ACTORS[kind]) for kind in PRINCIPALS]})
]
"""Actor that an API key belongs to, in a request."""
