"""History of a memory store on a server."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn, Unpack

from retentive.errors import InvalidInput, NotFound
from retentive.history.differences import Differences, MemoryDifference
from retentive.history.history import History
from retentive.history.log import BlameLine, Feed, LogFilter, no_memory
from retentive.history.plan import Mode, RestoreOutcome
from retentive.history.removal import Removed
from retentive.history.revisions import Named, Revision, as_revision
from retentive.history.versions import LoggedChange
from retentive.remote import comparing, objects
from retentive.remote.methods import RemotePart, exchange, get, no_route, post
from retentive.remote.requests import HttpExchange, JsonBody, segment
from retentive.values import diff
from retentive.values.listing import ListPage
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.provenance import Origin, origin_of
from retentive.values.records import Actor, Operation, Version
from retentive.wire.administration import MemoryErased
from retentive.wire.base import AnswerPage
from retentive.wire.errors import ErrorAnswer
from retentive.wire.history import BlameObject, ChangeFeed, ChangeResult
from retentive.wire.memories import MemoryObject
from retentive.wire.versions import VersionObject, VersionsRedacted

if TYPE_CHECKING:
    from retentive.engine.trust import Level


class RemoteHistory(RemotePart, History):
    """History over HTTP. Operations for which the server has no route raise `InvalidInput`."""

    def __getattr__(self, name: str) -> NoReturn:
        if name == "_context":
            raise no_route("this part of the history")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @exchange
    def log(
        self,
        path: str | None = None,
        *,
        memory_id: str | None = None,
        actor: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        operation: Operation | None = None,
        source: str | None = None,
        session: str | None = None,
        integration: str | None = None,
        flag: str | None = None,
        trust: Level | None = None,
        limit: int | None = None,
    ) -> HttpExchange[list[Version]]:
        """Return versions, newest first.

        Without arguments, return the versions of all memories. With `path`, return the versions of the memory at the
        path, or of all memories below it. Earlier versions of a renamed memory are included.
        """
        only = LogFilter(actor, since, until, operation, source, session, integration, flag, trust)
        return (yield from self._logged(path, memory_id, only, limit))

    def _logged(
        self, path: str | None, memory_id: str | None, only: LogFilter, limit: int | None
    ) -> HttpExchange[list[Version]]:
        query = yield from self._query(path, memory_id, only)
        return [] if query is None else (yield from comparing.versions_of(self._store, query, limit))

    def _query(self, path: str | None, memory_id: str | None, only: LogFilter) -> HttpExchange[JsonBody | None]:
        """Return the query that selects the versions of a log, or None if no memory was ever at the path."""
        query: JsonBody = {
            "actor": only.actor,
            "operation": only.operation,
            **{name: getattr(only, name) for name in ("source", "session", "integration", "flag", "trust")},
            "created_at[gte]": objects.time_text(only.since),
            "created_at[lte]": objects.time_text(only.until),
        }
        if path is None or memory_id is not None:
            return {**query, "memory_id": memory_id}
        at = yield from self._at_or_below(path)
        return None if at is None else query | at

    def _at_or_below(self, path: str) -> HttpExchange[JsonBody | None]:
        """Return the query fields that select the versions of a path, or None if no memory was ever there.

        The fields select the memory at the path, or all memories below it, or the last memory that was deleted there.
        """
        target = objects.parsed(path)
        if target.is_root:
            return {}
        try:
            basic = {"path": objects.api_path(target), "view": "basic"}
            memory = yield from get(self._store, MemoryObject, "/memory", basic)
        except NotFound:
            below = {"path_prefix": objects.prefix(target)}
            if (yield from comparing.versions_of(self._store, below, 1)):
                return below
        else:
            return {"memory_id": memory.id}
        above = objects.api_path(target).rpartition("/")[0] + "/"
        for each in (yield from comparing.versions_of(self._store, {"path_prefix": above})):
            if each.path == target.text:
                return {"memory_id": each.memory_id}
        return None

    @exchange
    def changes(
        self, path: str | None = None, *, only: LogFilter | None = None, limit: int | None = None
    ) -> HttpExchange[list[LoggedChange]]:
        """Return the versions of `log`, grouped by the command that wrote them. The newest group is the first.

        `limit` is the maximum number of groups. Raises `NotFound` if no memory is or was at or below `path`.
        """
        query = yield from self._query(path, None, only or LogFilter())
        if query is None:
            raise no_memory(objects.parsed(path or ROOT).text)
        found = yield from comparing.versions_of(self._store, query)
        is_whole = not any(value for name, value in query.items() if name != "memory_id")
        before = comparing.befores_in(found) if is_whole else (yield from comparing.befores(self._store, found))
        return comparing.grouped(found, before)[:limit]

    @exchange
    def show(self, revision: Named, path: str | None = None) -> HttpExchange[tuple[Version, str | None]]:
        """Return the version that a revision names, and its text.

        With `path`, only changes at or below that path are counted, so the revision `HEAD` is the newest of them.
        The text is None if the version is a deletion or is redacted.
        """
        change = yield from self._change_named(revision, path)
        if len(change.versions) > 1:
            raise InvalidInput(f"the change {change.id} has several versions; specify the id of one of these versions")
        return (yield from comparing.version_with_text(self._store, change.versions[0].id))

    def _change_named(self, revision: Named, path: str | None) -> HttpExchange[LoggedChange]:
        asked = as_revision(revision)
        query = yield from self._query(path, None, LogFilter())
        if query is None:
            raise NotFound(f"there is no change {asked.text} of {path}")
        return (yield from comparing.named(self._store, query, asked))

    @exchange
    def diff(self, old: str, new: str) -> HttpExchange[list[diff.DiffLine]]:
        """Return a unified diff of the texts of two versions. The text of a deletion is empty."""
        found = yield from self._compared(as_revision(old), as_revision(new))
        if found.reason:
            raise InvalidInput(found.reason)
        first, second = (each.path if each else found.path for each in (found.old, found.new))
        texts = found.old_text or "", found.new_text or ""
        return diff.unified(*texts, old_name=f"{first}@{old}", new_name=f"{second}@{new}")

    def _compared(self, since: Revision, until: Revision) -> HttpExchange[MemoryDifference]:
        if not (since.is_version and until.is_version):
            raise InvalidInput("`diff` compares versions by their ids; to compare changes or times, use `differences`")
        old = (yield from self._change_named(since, None)).versions[0]
        new = (yield from self._change_named(until, None)).versions[0]
        return (yield from comparing.difference(self._store, old, new))

    @exchange
    def differences(
        self,
        path: str | None = None,
        *,
        change: Named | None = None,
        since: Named | None = None,
        until: Named | None = None,
        only: LogFilter | None = None,
    ) -> HttpExchange[Differences]:
        """Return the differences that one change made, or the differences between two versions. They include the texts.

        `since` and `until` must be ids of versions.
        """
        if change is not None:
            found = yield from self._change_named(change, path)
            before = yield from comparing.befores(self._store, found.versions)
            listed = yield from comparing.differences(self._store, found.versions, before)
            return Differences(listed, changes=tuple(comparing.grouped(found.versions, before)))
        ends = [as_revision(each) for each in (since, until) if each is not None]
        if only is not None or path is not None or len(ends) < 2 or not all(each.is_version for each in ends):
            raise no_route("comparing two states")
        return Differences(((yield from self._compared(*ends)),))

    @exchange
    def restore(
        self,
        path: str,
        to: Named,
        *,
        mode: Mode = "refuse",
        dry_run: bool = False,
        actor: Actor | str | None = None,
        **origin: Unpack[Origin],
    ) -> HttpExchange[RestoreOutcome]:
        """Restore a memory, a directory or the whole memory store to an earlier state, as one atomic change.

        The path of the whole memory store is `/memories`.
        """
        body = {"path": objects.api_path(objects.parsed(path)), "at": objects.moment_text(as_revision(to))}
        return (yield from self._changed("restore", body, mode, actor, origin, dry_run=dry_run))

    @exchange
    def undo(
        self,
        change: Named,
        *,
        path: str | None = None,
        mode: Mode = "refuse",
        dry_run: bool = False,
        actor: Actor | str | None = None,
        **origin: Unpack[Origin],
    ) -> HttpExchange[RestoreOutcome]:
        """Undo one whole change. `change` is a revision or the id of a version.

        With `path`, only changes at or below that path are counted, so the revision `HEAD` is the newest of them.
        """
        at = None if path is None else objects.api_path(objects.parsed(path))
        body = {"revision": as_revision(change).text, "path": at}
        return (yield from self._changed("undo", body, mode, actor, origin, dry_run=dry_run))

    @exchange
    def undo_own(
        self,
        change: Named | None = None,
        *,
        path: str | None = None,
        mode: Mode = "refuse",
        request_id: str | None = None,
        actor: Actor | str | None = None,
        **origin: Unpack[Origin],
    ) -> HttpExchange[RestoreOutcome]:
        """Undo a change that the actor of this request has made.

        Without `change`, undo the newest change of that actor. With `path`, consider only changes at or below `path`.
        """
        at = None if path is None else objects.api_path(objects.parsed(path))
        body = {"revision": None if change is None else as_revision(change).text, "path": at, "own": True}
        return (yield from self._changed("undo", body, mode, actor, origin, dry_run=False, request_id=request_id))

    @exchange
    def undo_by(
        self,
        by: str,
        *,
        since: datetime | None = None,
        mode: Mode = "refuse",
        dry_run: bool = False,
        actor: Actor | str | None = None,
        **origin: Unpack[Origin],
    ) -> HttpExchange[RestoreOutcome]:
        """Undo all changes of the actors that match the pattern `by`, newest first, as one change."""
        body = {"actor": by, "since": objects.time_text(since)}
        return (yield from self._changed("undo", body, mode, actor, origin, dry_run=dry_run))

    def _changed(
        self,
        route: str,
        body: JsonBody,
        mode: Mode,
        actor: Actor | str | None,
        origin: Origin,
        *,
        dry_run: bool,
        request_id: str | None = None,
    ) -> HttpExchange[RestoreOutcome]:
        given = {**body, "mode": mode, "dry_run": dry_run, **origin_of(**origin)}
        options: dict[str, Any] = {"returns_conflicts": True}
        if request_id is not None:
            options["key"] = hashlib.sha256(request_id.encode()).hexdigest()
        found: ChangeResult | ErrorAnswer = yield from post(
            self._store, ChangeResult, f"/{route}", given, actor, **options
        )
        return found.restore(dry_run=dry_run) if isinstance(found, ErrorAnswer) else found.outcome()

    @exchange
    def redact(
        self, version_ids: Sequence[str] = (), *, all_of: str | None = None, actor: Actor | str | None = None
    ) -> HttpExchange[Removed]:
        """Permanently remove the text, path, size and hash of several versions.

        If one version cannot be redacted, no version is changed.
        """
        if isinstance(version_ids, str):
            version_ids = (version_ids,)
        path = None if all_of is None else objects.api_path(objects.parsed(all_of))
        body = {"memory_version_ids": list(version_ids) or None, "path": path}
        found = yield from post(self._store, VersionsRedacted, "/redact", body, actor)
        return Removed(found.versions, found.pending)

    @exchange
    def erase(
        self, path: str | None = None, *, memory_id: str | None = None, actor: Actor | str | None = None
    ) -> HttpExchange[Removed]:
        """Permanently remove a memory and all its versions. Raises `NotFound`."""
        if memory_id is None:
            memory_id = (yield from self._store.loaded(path or ""))[0].id
        found = yield from post(self._store, MemoryErased, f"/memories/{segment(memory_id)}/erase", None, actor)
        return Removed(found.versions, found.pending)

    @exchange
    def text_at(self, path: str, at: Named) -> HttpExchange[tuple[Version, str]]:
        """Return the version and the text that the memory at `path` had at the time or revision `at`.

        Raises `NotFound`.
        """
        moment = objects.time_text(at) if isinstance(at, datetime) else str(at)
        query = {"path": objects.api_path(objects.parsed(path)), "at": moment}
        found = yield from get(self._store, MemoryObject, "/memory", query)
        return (yield from self._version(found.memory_version_id)), found.content or ""

    @exchange
    def blame(
        self, path: str, *, source: str | None = None, trust: Level | None = None
    ) -> HttpExchange[list[BlameLine]]:
        """Return each line of the memory at a path, with the version that added the line. Raises `NotFound`."""
        LogFilter(source=source, trust=trust)
        memory_id = (yield from self._store.loaded(path))[0].id
        query = {"source": source, "trust": trust}
        found = yield from get(self._store, BlameObject, f"/memories/{segment(memory_id)}/blame", query)
        versions: dict[str, Version] = {}
        for version_id in dict.fromkeys(each.memory_version_id for each in found.lines):
            versions[version_id] = yield from self._version(version_id)
        return [BlameLine(each.line, each.text, versions[each.memory_version_id]) for each in found.lines]

    def _version(self, version_id: str) -> HttpExchange[Version]:
        path = f"/memory_versions/{segment(version_id)}"
        return (yield from get(self._store, VersionObject, path, {"view": "basic"})).version()

    @exchange
    def page(
        self,
        path: str | None = None,
        *,
        memory_id: str | None = None,
        only: LogFilter | None = None,
        oldest_first: bool = False,
        after: str | None = None,
        limit: int = 20,
    ) -> HttpExchange[ListPage[Version, str]]:
        """Return one page of versions, newest first. A page has at most 100 versions."""
        if oldest_first:
            raise no_route("`history.page` with `oldest_first`")
        if limit < 1:
            raise InvalidInput(f"the limit must be at least 1, not {limit}")
        target = None if path is None else objects.parsed(path)
        query = yield from self._query(None, memory_id, only or LogFilter())
        above = "/" if target is None or target.is_root else objects.api_path(target).rpartition("/")[0] + "/"
        view = {"path_prefix": above, "view": "basic", "limit": min(limit, 100), "page": after}
        found = yield from get(self._store, AnswerPage[VersionObject], "/memory_versions", {**(query or {}), **view})
        versions = (each.version() for each in found.data)
        items = (each for each in versions if target is None or _is_at_or_below(each.path, target))
        return ListPage(tuple(items), found.next_page)

    @exchange
    def feed(self, after: str = "", *, limit: int = 500) -> HttpExchange[Feed]:
        """Return the changes of the memory store after the cursor `after`, oldest first.

        `limit` is the maximum number of changes; the server returns at most 500. A change that created no version is
        returned as an event.
        """
        found = yield from self._fed(after, limit)
        items = (each.version() if isinstance(each, VersionObject) else each.store_event() for each in found.data)
        return Feed(tuple(items), found.next, found.has_gap)

    @exchange
    def newest(self) -> HttpExchange[str]:
        """Return the cursor of the newest change, for `feed`."""
        return (yield from self._fed("", 1)).newest

    def _fed(self, after: str, limit: int) -> HttpExchange[ChangeFeed]:
        if limit < 1 or not ((after.isascii() and after.isalnum()) or not after):
            raise InvalidInput(
                "`limit` must be at least 1; `after` must be the id of a version or event without its prefix"
            )
        query = {"after": after or None, "limit": min(limit, 500)}
        return (yield from get(self._store, ChangeFeed, "/changes", query))


def _is_at_or_below(path: str, target: MemoryPath) -> bool:
    return target.is_root or path == target.text or path.startswith(f"{target.text}/")
