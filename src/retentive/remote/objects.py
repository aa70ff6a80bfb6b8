"""Converts JSON objects in server responses to values of the library, and converts commands to JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime

from retentive.engine.events import StoreEvent
from retentive.errors import InvalidPath, Refused, Unavailable, error_of
from retentive.history.plan import Conflict, RestoreOutcome, Step, What
from retentive.history.revisions import Revision
from retentive.remote.requests import JsonBody
from retentive.review.proposals import DecisionOutcome, Obstacle, Proposal, ProposedChange
from retentive.values.commands import Append, Clear, Command, Write, parse
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.properties import Properties
from retentive.values.records import Actor, Memory, StoreInfo, Version, Written
from retentive.values.replies import REPLIES

_ACTORS = {
    "session_actor": ("session", "session_id"),
    "user_actor": ("user", "user_id"),
    "service_account_actor": ("service_account", "service_account_id"),
    "api_actor": ("api_key", "api_key_id"),
}
_JOB = "svac_job_"
_STEPS: Mapping[str, What] = {"deleted": "deleted", "renamed": "moved", "created": "made", "modified": "changed"}


def parsed(path: str) -> MemoryPath:
    """Parse a path that the caller passed as an argument. Raises `InvalidPath`."""
    if not isinstance(path, str):
        raise InvalidPath(f"a path must be a string such as /memories/notes.md, not {type(path).__name__}")
    try:
        return MemoryPath.parse(path)
    except Refused as refusal:
        said = REPLIES.error(refusal.key, refusal.values)
        raise error_of(said.text, said.code) from None


def api_path(path: MemoryPath) -> str:
    """Return the path that the API uses: `/x` for `/memories/x`, and `/` for the root."""
    return path.text[len(ROOT) :] or "/"


def prefix(path: MemoryPath) -> str:
    """Return the prefix that all paths below a directory have in the API."""
    return path.text[len(ROOT) :] + "/"


def tool_path(path: str) -> str:
    """Convert a path of the API to a path below `/memories`: `/x` to `/memories/x`, and `/` to `/memories`."""
    return ROOT + path.removesuffix("/") if path == "/" else ROOT + path


def raw(command: Command | Clear) -> JsonBody:
    """Return a command as the input of a tool call."""
    if isinstance(command, Write | Append):
        return {"command": command.name, "path": command.path.written, "file_text": command.text}
    given = {each.name: getattr(command, each.name) for each in fields(command)}
    plain = {name: value.written if isinstance(value, MemoryPath) else value for name, value in given.items()}
    return {"command": command.name, **plain}


def time_text(at: datetime | None) -> str | None:
    """Return a time as text for the API. If `at` is None, return None."""
    return None if at is None else at.isoformat()


def time(text: object) -> datetime:
    """Parse a time in a response of the server. Raises `Unavailable` if it is invalid."""
    try:
        return datetime.fromisoformat(str(text))
    except ValueError:
        raise Unavailable("the server answered with an invalid time") from None


def _optional_time(text: object) -> datetime | None:
    return None if text is None else time(text)


def actor(given: JsonBody | None) -> Actor | None:
    """Parse an actor in a response of the server. Return None if there is no actor, or if its type is unknown."""
    if given is None or given.get("type") not in _ACTORS:
        return None
    kind, name = _ACTORS[given["type"]]
    found = str(given[name])
    if kind == "service_account" and found.startswith(_JOB):
        kind, found = "job", found.removeprefix(_JOB)
    return Actor(kind, found)  # type: ignore[arg-type]  # the kinds of the table


def store_info(given: JsonBody) -> StoreInfo:
    """Parse a memory store in a response of the server."""
    created_at, updated_at = time(given["created_at"]), time(given["updated_at"])
    about = Properties(
        given["name"],
        given["description"],
        given["metadata"],
        updated_at if updated_at != created_at else None,
        _optional_time(given["archived_at"]),
    )
    size = given.get("memory_count") or 0, given.get("content_size_bytes") or 0
    return StoreInfo(given["id"], given.get("key"), given["name"], created_at, *size, properties=about.to_text())


def memory(given: JsonBody) -> Memory:
    """Parse a memory in a response of the server. The result does not contain the text of the memory."""
    return Memory(
        given["id"],
        tool_path(given["path"]),
        given["content_size_bytes"],
        given["content_sha256"],
        given["memory_version_id"],
        time(given["created_at"]),
        time(given["updated_at"]),
    )


def version(given: JsonBody) -> Version:
    """Parse a version in a response of the server. The result does not contain the text of the version."""
    is_deletion = given["operation"] == "deleted"
    return Version(
        given["id"],
        given["memory_id"],
        given["operation"],
        "" if given["path"] is None else tool_path(given["path"]),
        None if is_deletion else given["content_size_bytes"],
        None if is_deletion else given["content_sha256"],
        actor(given["created_by"]),
        time(given["created_at"]),
        given.get("revision", 0),
        redacted_at=_optional_time(given["redacted_at"]),
        redacted_by=actor(given["redacted_by"]),
        provenance_text=_provenance_text(given.get("provenance")),
    )


def _provenance_text(given: JsonBody | None) -> str | None:
    """Convert the provenance of a version to the text that a local store would keep."""
    if given is None:
        return None
    by = [[e["at"], e["actor"], e["session"], e["source"]] for e in given["contributors"]]
    flags = [[each["line"], each["kind"]] for each in given["flags"]]
    plain = {name: given[name] for name in ("tool_use_id", "session", "source", "cause")}
    key = given.get("api_key_id", "")  # an older server sends none
    made = {"integration": given["integration"], "key": key, **plain, "flags": flags, "by": by}
    return json.dumps({name: value for name, value in made.items() if value}, separators=(",", ":"))


def store_event(given: JsonBody) -> StoreEvent:
    """Parse an event in a response of the server. An event is a change that created no version."""
    at = time(given["created_at"])
    return StoreEvent(given["id"], given["event"], at, actor(given["created_by"]), tuple(given["ids"]), given["count"])


def moment_text(at: Revision) -> str:
    """Return a revision or a time as text for the API."""
    return at.base.isoformat() if isinstance(at.base, datetime) else at.text


def outcome(given: JsonBody, *, dry_run: bool) -> RestoreOutcome:
    """Return the result of an undo or restore.

    Unlike in a local result, the steps contain no states, and the list of the undone changes is empty.
    """
    if given["type"] == "error":
        return RestoreOutcome(conflicts=tuple(map(_conflict, given["error"]["conflicts"])), dry_run=dry_run)
    steps = (Step(_STEPS[e["operation"]], e["memory_id"], tool_path(e["path"]), None, None) for e in given["steps"])
    return RestoreOutcome(tuple(steps), (), tuple(map(_conflict, given["left"])), given["dry_run"], given["proposed"])


def _conflict(given: JsonBody) -> Conflict:
    return Conflict(tool_path(given["path"]), given["memory_id"], given["reason"])


def proposal(given: JsonBody, number: int) -> Proposal:
    """Parse a proposal in a response of the server. The result does not contain the texts of the proposal."""
    at = time(given["created_at"])
    changes = (
        ProposedChange(
            each["operation"],
            each["memory_id"],
            each["path_before"] and tool_path(each["path_before"]),
            each["path"] and tool_path(each["path"]),
            each["content_size_bytes"],
            each["content_sha256"],
            None,
            at,
        )
        for each in given["changes"]
    )
    return Proposal(given["id"], actor(given["proposed_by"]), at, tuple(changes), number)


def decision(given: JsonBody) -> DecisionOutcome:
    """Return the result of accepting or refusing a proposal."""
    if given["type"] == "error":
        found = given["error"]["conflicts"]
        return DecisionOutcome(
            obstacles=tuple(
                Obstacle(each["proposal_id"], each["path"] and tool_path(each["path"]), each["reason"])
                for each in found
            )
        )
    return DecisionOutcome(tuple(given["done"]), tuple(given["already"]), tuple(given["with_them"]))


def sendable(command: object) -> object:
    """Return a command in a form that can be sent as JSON. Raises `Refused` if the input of a model cannot be sent."""
    if isinstance(command, Command | Clear):
        return raw(command)
    try:
        json.dumps(command, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError):
        return raw(parse(command))
    return command


def written(given: JsonBody) -> Written:
    """Return the result of a command that writes."""
    path, version_id = tool_path(given["path"]), given["memory_version_id"] or ""
    notes, memory_id = tuple(given["notes"]), given["memory_id"] or ""
    return Written(path, version_id, given["change_count"], given["proposed"], notes, memory_id)
