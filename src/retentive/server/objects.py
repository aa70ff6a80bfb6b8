"""Converts values of the library to the JSON objects in responses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from retentive.engine.events import StoreEvent
from retentive.errors import InvalidInput, Refused
from retentive.server.calls import Json
from retentive.server.errors import invalid
from retentive.server.fields import TIME
from retentive.server.keys import PRINCIPALS, RESERVED_ACCOUNT, KeyRecord
from retentive.storage.contract import Actor, Memory, StoreInfo, Version, as_actor
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.provenance import Contributor, Provenance
from retentive.values.replies import REPLIES

_ACTORS = {"session": ("session_actor", "session_id"), "api_key": ("api_actor", "api_key_id"), **PRINCIPALS}
NO_MEMORY = "memory"
NO_VERSION = "memory version"
VERSION_ID = re.compile(r"memver_[0-9a-f]{32}")


def time(at: datetime | None) -> str | None:
    """Return a time in RFC 3339 format with `Z`, or None for None."""
    return None if at is None else at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def actor(given: Actor | None) -> Json | None:
    """Return the JSON object of an actor.

    A job of retentive is shown as a service account, because the SDK refuses other types.
    """
    if given is None:
        return None
    if given.kind == "job":
        return {"type": "service_account_actor", "service_account_id": RESERVED_ACCOUNT + given.id}
    kind, field = _ACTORS[given.kind]
    return {"type": kind, field: given.id}


def api_path(text: str) -> str:
    """Return the path that the API shows: `/x` for the memory `/memories/x`, and `/` for the root."""
    return text[len(ROOT) :] or "/"


def tool_path(path: str, *, may_be_root: bool = True) -> str:
    """Convert a path of the API, such as `/x`, to a path of the memory tool, such as `/memories/x`.

    Raises `HttpError` 400 if the path is not canonical, or if it is `/` and `may_be_root` is False.
    """
    if may_be_root and path == "/":
        return ROOT
    if not path.startswith("/"):
        raise invalid("path: must start with /", "invalid_path")
    try:
        parsed = MemoryPath.parse(ROOT + path)
    except Refused as refusal:
        raise invalid(REPLIES.error(refusal.key, refusal.values).text.removeprefix("Error: "), "invalid_path") from None
    if parsed.text != ROOT + path or parsed.is_root:
        raise invalid("path: must be normalized (Unicode NFC), without empty segments or a trailing /", "invalid_path")
    return parsed.text


def memory_store(given: StoreInfo, *, has_sizes: bool = True) -> Json:
    """Return the JSON object of a memory store. With `has_sizes=False`, it does not tell how much is in the store."""
    return {
        "id": given.id,
        "type": "memory_store",
        "name": given.name,
        "description": given.description,
        "metadata": dict(given.metadata),
        "key": given.key,
        "memory_count": given.memories if has_sizes else None,
        "content_size_bytes": given.size_bytes if has_sizes else None,
        "created_at": time(given.created_at),
        "updated_at": time(given.updated_at),
        "archived_at": time(given.archived_at),
    }


def memory(given: Memory, store_id: str, content: str | None) -> Json:
    """Return the JSON object of a memory. `content` is None in the basic view."""
    return {
        "id": given.id,
        "type": "memory",
        "memory_store_id": store_id,
        "memory_version_id": given.version_id,
        "path": api_path(given.path),
        "content": content,
        "content_sha256": given.sha256,
        "content_size_bytes": given.size_bytes,
        "created_at": time(given.created_at),
        "updated_at": time(given.updated_at),
    }


def memory_version(
    given: Version, store_id: str, content: str | None, contributors: Sequence[Contributor] | None = None
) -> Json:
    """Return the JSON object of a version.

    `content` is None in the basic view and for a deleted or redacted version. `contributors` lists all contributors,
    if the provenance of the version does not name them.
    """
    origin = None if given.provenance_text is None else _provenance(given.provenance, contributors)
    return {
        "id": given.id,
        "type": "memory_version",
        "memory_id": given.memory_id,
        "memory_store_id": store_id,
        "operation": given.operation,
        "path": None if given.redacted_at else api_path(given.path),
        "content": content,
        "content_sha256": None if given.redacted_at else given.sha256,
        "content_size_bytes": None if given.redacted_at else given.size_bytes,
        "created_at": time(given.created_at),
        "created_by": actor(given.actor),
        "redacted_at": time(given.redacted_at),
        "redacted_by": actor(given.redacted_by),
        "revision": given.revision,
        "provenance": origin,
    }


def _provenance(given: Provenance, contributors: Sequence[Contributor] | None) -> Json:
    return {
        "integration": given.integration,
        "tool_use_id": given.tool_use_id,
        "session": given.session,
        "source": given.source,
        "cause": given.cause,
        "api_key_id": given.api_key_id,
        "flags": [{"line": line, "kind": kind} for line, kind in given.flags],
        "contributors": [
            {"at": each.at, "actor": each.actor, "session": each.session, "source": each.source}
            for each in contributors or given.contributors
        ],
    }  # fmt: skip


def store_event(given: StoreEvent, store_id: str) -> Json:
    """Return the JSON object of a change that creates no version, such as a redaction.

    `count` is the number of affected ids. `ids` lists at most 100 of them.
    """
    return {
        "id": given.id,
        "type": "memory_store_event",
        "memory_store_id": store_id,
        "event": given.type,
        "created_at": time(given.at),
        "created_by": actor(given.actor),
        "ids": list(given.ids),
        "count": given.count,
    }


def actor_with(kind: str, name: str) -> Actor | None:
    """Return the actor that the API shows with this kind and with `name` as its id. None if the id is invalid."""
    if kind == "service_account" and name.startswith(RESERVED_ACCOUNT):
        kind, name = "job", name.removeprefix(RESERVED_ACCOUNT)
    try:
        return as_actor(f"{kind}:{name}")
    except InvalidInput:
        return None


def moment(at: str) -> str | datetime:
    """Parse the field `at` of a request: a time, the id of a version, or the name of a change.

    Only a time is converted; any other text is returned unchanged. Raises `HttpError` 400 if a time is malformed.
    """
    if VERSION_ID.fullmatch(at) or not at[:4].isdecimal():
        return at
    try:
        found: datetime = TIME.read(at)  # type: ignore[assignment]  # the reader of times returns a time
    except InvalidInput:
        raise invalid("at: must be the id of a version, the name of a change or a time in RFC 3339 format") from None
    return found


def prefix_of(path_prefix: str) -> str:
    """Convert a `path_prefix` of the API, such as `/x/`, to a prefix for the memory tool, such as `/memories/x/`.

    Raises `HttpError` 400 if `path_prefix` is not canonical, or has no `/` at its beginning or at its end.
    """
    if not path_prefix.startswith("/") or not path_prefix.endswith("/"):
        raise invalid("path_prefix: must begin and end with /", "invalid_path")
    return ROOT + "/" if path_prefix == "/" else tool_path(path_prefix[:-1]) + "/"


def api_key(record: KeyRecord, now: datetime, last_used_at: str | None) -> Json:
    """Return the JSON object of an API key. It does not contain the text of the key."""
    created_by = as_actor(record.created_by)
    return {
        "id": record.id,
        "type": "api_key",
        "name": record.name,
        "status": record.status_at(now),
        "partial_key_hint": record.partial_key_hint,
        "created_at": _stored(record.created_at),
        "created_by": None
        if created_by is None or created_by.kind not in PRINCIPALS
        else {"id": created_by.id, "type": created_by.kind},
        "expires_at": _stored(record.expires_at),
        "principal": actor(as_actor(record.principal)),
        "scope": {"type": "workspace", "workspace_id": record.workspace_id},
        "scopes": list(record.scopes),
        "stores": list(record.stores),
        "paths": list(record.paths),
        "act_as": list(record.act_as),
        "rate_limit": record.rate_limit,
        "max_body_bytes": record.max_body_bytes,
        "last_used_at": _stored(last_used_at),
    }


def _stored(text: str | None) -> str | None:
    return None if text is None else time(datetime.fromisoformat(text))
