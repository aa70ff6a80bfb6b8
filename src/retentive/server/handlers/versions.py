"""Handlers of the routes for the versions of memories."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice

from retentive.engine.operation import Read
from retentive.engine.queries import read_version, version_fact
from retentive.engine.trust import Level, Levels, author_of
from retentive.errors import NotFound
from retentive.history.log import LogFilter
from retentive.server import cursors, objects
from retentive.server.calls import Json, RouteCall
from retentive.server.errors import invalid, missing
from retentive.server.objects import NO_VERSION, memory_version, prefix_of, tool_path
from retentive.storage.contract import Snapshot, Version
from retentive.storage.paging import PAGE_VERSIONS
from retentive.store import core_of
from retentive.values.patterns import matches_actor
from retentive.values.text import decoded

MAX_SCANNED = 5_000
"""Maximum number of versions read for one filtered page. The page may be empty; the SDK then asks for the next page."""
FULL_LIMIT = 20


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


def list_memory_versions(
    call: RouteCall,
    *,
    memory_id: str | None,
    operation: str | None,
    session_id: str | None,
    api_key_id: str | None,
    service_account_id: str | None,
    actor: str | None,
    source: str | None,
    session: str | None,
    integration: str | None,
    flag: str | None,
    trust: Level | None,
    path_prefix: str,
    created_at_gte: datetime | None,
    created_at_lte: datetime | None,
    view: str,
    limit: int,
    page: str | None,
) -> Json:
    """List the versions that pass the filters, newest first."""
    named = (("session", session_id), ("api_key", api_key_id), ("service_account", service_account_id))
    actors = tuple(str(objects.actor_with(kind, name)) for kind, name in named if name is not None)
    prefix = prefix_of(path_prefix)
    origin = LogFilter(source=source, session=session, integration=integration, flag=flag, trust=trust)
    within = prefix if path_prefix != "/" else ""
    only = Conditions(operation, actors, actor, created_at_gte, created_at_lte, within, origin)
    of = f"{call.path} {memory_id} {only}"
    before = None if page is None else cursors.decode(page, of, 1)[0]
    is_full, store = view == "full", call.store
    count = min(limit, FULL_LIMIT) if is_full else limit

    def work(snapshot: Snapshot) -> tuple[list[Json], str | None]:
        levels = None if trust is None else Levels(core_of(store).settings_of(snapshot))
        found, following = _page(snapshot, memory_id, replace(only, levels=levels), before, count)
        return [memory_version(each, store.id, _text(snapshot, each) if is_full else None) for each in found], following

    data, following = core_of(store).found(Read("log", work))
    return {"data": data, "next_page": None if following is None else cursors.encode([following], of)}


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


def retrieve_memory_version(call: RouteCall, *, view: str) -> Json:
    """Return one version of a memory, with its content if `view` is `full`."""
    version_id, store = call.ids["memory_version_id"], call.store
    if not objects.VERSION_ID.fullmatch(version_id):
        raise missing(NO_VERSION)
    try:
        version, text = core_of(store).found(read_version(version_id))
    except NotFound:
        raise missing(NO_VERSION) from None
    return memory_version(version, store.id, text if view == "full" else None, store.trust.contributors(version))


def redact_versions(call: RouteCall, *, memory_version_ids: tuple[str, ...] | None, path: str | None) -> Json:
    """Permanently remove the content of versions. Pass either their ids, or the path of a memory or directory."""
    if (memory_version_ids is None) == (path is None):
        raise invalid("memory_version_ids: specify memory_version_ids or path, but not both")
    ids, all_of = memory_version_ids or (), None if path is None else tool_path(path)
    if not all(map(objects.VERSION_ID.fullmatch, ids)):
        raise missing(NO_VERSION)
    removed = call.store.history.redact(ids, all_of=all_of)
    return {"type": "versions_redacted", "versions": removed.versions, "pending": removed.pending}


def redact_memory_version(call: RouteCall) -> Json:
    """Permanently remove the text, path, size and hash of a version.

    If the version is redacted already, nothing changes.
    """
    version_id, store = call.ids["memory_version_id"], call.store
    try:
        store.history.redact([version_id])
        found = core_of(store).found(
            Read("show", lambda snapshot: snapshot.version(version_id)[0], facts_of=version_fact)
        )
    except NotFound:
        raise missing(NO_VERSION) from None
    return memory_version(found, store.id, None)
