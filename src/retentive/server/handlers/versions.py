"""Routes of the versions of memories."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice

from retentive.engine.operation import Read
from retentive.engine.queries import read_version, version_fact
from retentive.engine.trust import Levels, author_of
from retentive.history.log import LogFilter
from retentive.server.calls import RouteCall
from retentive.server.cursors import next_of, start_of
from retentive.server.errors import finding, invalid, missing
from retentive.server.route import ERASE, READ, STORE, Routes
from retentive.storage.contract import Snapshot, Version
from retentive.storage.paging import PAGE_VERSIONS
from retentive.store import core_of
from retentive.values.paths import ROOT
from retentive.values.patterns import matches_actor
from retentive.values.text import decoded
from retentive.wire.actors import named_actor
from retentive.wire.base import VERSION_ID, AnswerPage, Full
from retentive.wire.versions import VersionList, VersionObject, VersionRedaction, VersionsRedacted

MAX_SCANNED = 5_000
"""Maximum number of versions read for one filtered page. The page may be empty; the SDK then asks for the next page."""
FULL_LIMIT = 20
NO_VERSION = "memory version"
VERSION = f"{STORE}/memory_versions/{{memory_version_id}}"
route = Routes()


@dataclass(frozen=True, slots=True)
class Conditions:
    """Filters of a list of versions. A filter that is None or empty accepts every version."""

    operation: str | None
    actors: tuple[str, ...]
    pattern: str | None
    since: datetime | None
    until: datetime | None
    prefix: str
    origin: LogFilter
    levels: Levels | None = None

    def fits(self, version: Version) -> bool:
        """Return whether a version passes all filters except `since`."""
        actor = str(version.actor or "")
        return (
            self.operation in {None, version.operation}
            and all(actor == each for each in self.actors)
            and (self.pattern is None or matches_actor(self.pattern, actor))
            and (self.until is None or version.created_at <= self.until)
            and (not self.prefix or version.path.startswith(self.prefix))
            and self.origin.fits(version)
            and (self.levels is None or self.levels.of(author_of(version)) == self.origin.trust)
        )


@route("GET", f"{STORE}/memory_versions", READ)
def list_memory_versions(call: RouteCall, query: VersionList) -> AnswerPage[VersionObject]:
    """List the versions of memories, newest first."""
    named = (
        ("session", query.session_id), ("api_key", query.api_key_id), ("service_account", query.service_account_id)
    )  # fmt: skip
    actors = tuple(str(named_actor(kind, name)) for kind, name in named if name is not None)
    origin = LogFilter(
        source=query.source,
        session=query.session,
        integration=query.integration,
        flag=query.flag,
        trust=query.trust,
    )
    within = "" if query.path_prefix == ROOT else f"{query.path_prefix}/"
    only = Conditions(query.operation, actors, query.actor, query.created_from, query.created_to, within, origin)
    of = f"{call.path} {query.memory_id} {only}"
    before = start_of(query.page, of) or None
    is_full, store = query.view == "full", call.store
    count = min(query.limit, FULL_LIMIT) if is_full else query.limit

    def work(snapshot: Snapshot) -> tuple[list[VersionObject], str | None]:
        levels = None if query.trust is None else Levels(core_of(store).settings_of(snapshot))
        found, following = _page(snapshot, query.memory_id, replace(only, levels=levels), before, count)
        texts = (_text(snapshot, each) if is_full else None for each in found)
        return [VersionObject.of(each, store.id, text) for each, text in zip(found, texts, strict=True)], following

    data, following = core_of(store).result_of(Read("log", work))
    return AnswerPage[VersionObject](data=data, next_page=next_of(following, of))


def _page(
    snapshot: Snapshot, memory_id: str | None, only: Conditions, before: str | None, count: int
) -> tuple[list[Version], str | None]:
    """Return the versions of a page, and the id after which the next page begins.

    The id is None if there is no next page.
    """
    found: list[Version] = []
    last = before
    for scanned, version in enumerate(_versions(snapshot, memory_id, before)):
        if only.since is not None and version.created_at < only.since:
            return found, None
        if len(found) == count or scanned == MAX_SCANNED:
            return found, last
        last = version.id
        if only.fits(version):
            found.append(version)
    return found, None


def _versions(snapshot: Snapshot, memory_id: str | None, before: str | None) -> Iterator[Version]:
    while True:
        page = list(islice(snapshot.versions(memory_id=memory_id, before=before, limit=PAGE_VERSIONS), PAGE_VERSIONS))
        yield from page
        if len(page) < PAGE_VERSIONS:
            return
        before = page[-1].id


def _text(snapshot: Snapshot, version: Version) -> str | None:
    if version.operation == "deleted" or version.redacted_at is not None:
        return None
    data = snapshot.version(version.id)[1]
    return None if data is None else decoded(data)


@route("GET", VERSION, READ)
def retrieve_memory_version(call: RouteCall, query: Full) -> VersionObject:
    """Retrieve a version."""
    version_id, store = call.ids["memory_version_id"], call.store
    check_version_id(version_id)
    with finding(NO_VERSION):
        version, text = core_of(store).result_of(read_version(version_id))
    content = text if query.view == "full" else None
    return VersionObject.of(version, store.id, content, store.trust.contributors(version))


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
    return VersionObject.of(found, store.id, None)


@route("POST", f"{STORE}/redact", ERASE)
def redact_versions(call: RouteCall, body: VersionRedaction) -> VersionsRedacted:
    """Permanently remove the content, path, size and hash of several versions, all or none."""
    if (body.memory_version_ids is None) == (body.path is None):
        raise invalid("memory_version_ids: specify memory_version_ids or path, but not both")
    ids = body.memory_version_ids or ()
    check_version_id(*ids)
    removed = call.store.history.redact(ids, all_of=body.path)
    return VersionsRedacted(versions=removed.versions, pending=removed.pending)
