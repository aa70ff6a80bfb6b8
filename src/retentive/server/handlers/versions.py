"""Routes of the versions of memories."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from pydantic import Field

from retentive.engine.lists import read_version, version_fact
from retentive.engine.operation import Read
from retentive.engine.visibility import Level
from retentive.history.log import LogFilter, page_of
from retentive.server.calls import RouteCall
from retentive.server.cursors import next_of, start_of
from retentive.server.errors import finding, invalid, missing
from retentive.server.route import ERASE, READ, STORE, Routes
from retentive.storage.contract import Operation, Snapshot, Version
from retentive.store import core_of
from retentive.values.paths import ROOT
from retentive.values.text import decoded
from retentive.wire.actors import named_actor
from retentive.wire.base import (
    VERSION_ID,
    ActorPattern,
    AnswerPage,
    Basic,
    CreatedFrom,
    CreatedTo,
    Cursor,
    Full,
    Limit,
    NamePattern,
    Under,
)
from retentive.wire.versions import VersionObject, VersionRedaction, VersionsRedacted

FULL_LIMIT = 20
NO_VERSION = "memory version"
VERSION = f"{STORE}/memory_versions/{{memory_version_id}}"
route = Routes()


@route("GET", f"{STORE}/memory_versions", READ)
def list_memory_versions(
    call: RouteCall,
    *,
    limit: Limit = 20,
    page: Cursor = None,
    view: Basic = "basic",
    created_from: CreatedFrom = None,
    created_to: CreatedTo = None,
    path_prefix: Under = "/",
    memory_id: Annotated[str | None, Field(max_length=200, description="Only versions of this memory")] = None,
    operation: Annotated[Operation | None, Field(description="Only versions of this kind")] = None,
    session_id: Annotated[
        str | None, Field(max_length=255, description="Only versions written in this session")
    ] = None,
    api_key_id: Annotated[str | None, Field(max_length=255, description="Only versions written with this key")] = None,
    service_account_id: Annotated[
        str | None, Field(max_length=255, description="Only versions written by this service account")
    ] = None,
    actor: Annotated[
        ActorPattern | None, Field(description="Only versions by actors that match, such as session:*")
    ] = None,
    source: Annotated[
        NamePattern | None, Field(description="Only versions with a source that matches, such as web:*")
    ] = None,
    session: Annotated[NamePattern | None, Field(description="Only versions of a session that matches")] = None,
    integration: Annotated[
        NamePattern | None, Field(description="Only versions written through an integration")
    ] = None,
    flag: Annotated[NamePattern | None, Field(description="Only versions with a flag of a kind that matches")] = None,
    trust: Annotated[Level | None, Field(description="Only versions at this level of trust")] = None,
) -> AnswerPage[VersionObject]:
    """List the versions of memories, newest first."""
    named = {"session": session_id, "api_key": api_key_id, "service_account": service_account_id}
    actors = [str(named_actor(kind, name)) for kind, name in named.items() if name is not None]
    pattern = actor or (actors[0] if actors else None)  # the names themselves may contain * and ?
    only = LogFilter(pattern, created_from, created_to, operation, source, session, integration, flag, trust)
    within = "" if path_prefix == ROOT else f"{path_prefix}/"
    of = f"{call.path} {memory_id} {only} {actors} {within}"
    before = start_of(page, of) or None
    is_full, store = view == "full", call.store
    count = min(limit, FULL_LIMIT) if is_full else limit

    def fits(version: Version) -> bool:
        return version.path.startswith(within) and all(each == str(version.actor or "") for each in actors)

    def work(snapshot: Snapshot) -> tuple[list[VersionObject], str | None]:
        select, settings = partial(snapshot.versions, memory_id=memory_id), core_of(store).settings_of(snapshot)
        found = page_of(select, only, settings, fits=fits, oldest_first=False, after=before, limit=count)
        return [
            VersionObject.of(each, memory_store_id=store.id, content=_text(snapshot, each) if is_full else None)
            for each in found.items
        ], found.next

    data, following = core_of(store).result_of(Read("log", work))
    return AnswerPage[VersionObject](data=data, next_page=next_of(following, of))


def _text(snapshot: Snapshot, version: Version) -> str | None:
    if version.operation == "deleted" or version.redacted_at is not None:
        return None
    data = snapshot.version(version.id)[1]
    return None if data is None else decoded(data)


@route("GET", VERSION, READ)
def retrieve_memory_version(call: RouteCall, view: Full = "full") -> VersionObject:
    """Retrieve a version."""
    version_id, store = call.ids["memory_version_id"], call.store
    check_version_id(version_id)
    with finding(NO_VERSION):
        version, text = core_of(store).result_of(read_version(version_id))
    content = text if view == "full" else None
    return VersionObject.of(version, store.trust.contributors(version), memory_store_id=store.id, content=content)


def check_version_id(*ids: str) -> None:
    """Raise `HttpError` 404 if a text is not the id of a version."""
    if not all(map(VERSION_ID.fullmatch, ids)):
        raise missing(NO_VERSION)


@route("POST", f"{VERSION}/redact", ERASE)
def redact_memory_version(call: RouteCall) -> VersionObject:
    """Permanently remove the content, path, size and hash of a version.

    If the version is redacted already, nothing changes.
    """
    version_id, store = call.ids["memory_version_id"], call.store
    with finding(NO_VERSION):
        store.history.redact([version_id])
        found = core_of(store).result_of(
            Read("show", lambda snapshot: snapshot.version(version_id)[0], facts_of=version_fact)
        )
    return VersionObject.of(found, memory_store_id=store.id, content=None)


@route("POST", f"{STORE}/redact", ERASE)
def redact_versions(call: RouteCall, body: VersionRedaction) -> VersionsRedacted:
    """Permanently remove the content, path, size and hash of several versions, all or none."""
    if (body.memory_version_ids is None) == (body.path is None):
        raise invalid("memory_version_ids: specify memory_version_ids or path, but not both")
    ids = body.memory_version_ids or ()
    check_version_id(*ids)
    removed = call.store.history.redact(ids, all_of=body.path)
    return VersionsRedacted.of(removed)
