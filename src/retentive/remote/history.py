"""The history of a memory store on a server."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn, Unpack

from retentive.errors import InvalidInput, NotFound
from retentive.history.apply import RestoreOutcome
from retentive.history.changes import LoggedChange
from retentive.history.history import History
from retentive.history.plan import Mode
from retentive.history.reads import LogFilter
from retentive.history.removal import Removed
from retentive.history.revisions import At, Named, VersionId, as_revision
from retentive.remote import objects
from retentive.remote.methods import exchange, no_route, pages, unsupported
from retentive.remote.requests import Exchange, Json, Request, segment
from retentive.values import diff
from retentive.values.provenance import Origin
from retentive.values.records import Actor, Operation, Version

if TYPE_CHECKING:
    from retentive.engine.trust.levels import Level
    from retentive.remote.store import RemoteStore

_FULL_ID = 39


class RemoteHistory(History):
    """History over HTTP. What no route offers raises `InvalidInput`."""

    def __init__(self, store: RemoteStore) -> None:
        self._store = store
        self._run: Any = store._run  # noqa: SLF001 - the same exchange mode

    def __repr__(self) -> str:
        return f"<RemoteHistory of {self._store.id}>"

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
    ) -> Exchange[list[Version]]:
        """Versions, newest first: of the store, of one memory across renames, or of all memories below a directory."""
        only = LogFilter(actor, since, until, operation, source, session, integration, flag, trust)
        return (yield from self._logged(path, memory_id, only, limit))

    def _logged(
        self, path: str | None, memory_id: str | None, only: LogFilter, limit: int | None
    ) -> Exchange[list[Version]]:
        if only.source or only.session or only.integration or only.flag or only.trust:
            raise no_route("a log by source, session, integration, flag or trust")
        query: Json = {
            "actor": only.actor,
            "operation": only.operation,
            "created_at[gte]": objects.time_text(only.since),
            "created_at[lte]": objects.time_text(only.until),
        }
        if path is not None and memory_id is None:
            query |= yield from self._at_or_below(path)
        else:
            query["memory_id"] = memory_id
        found = yield from pages(f"{self._store.base}/memory_versions", most=limit, **query)
        return [objects.version(each) for each in found]

    def _at_or_below(self, path: str) -> Exchange[Json]:
        """The part of a query for the memory at a path, those below it, or the last memory that was there."""
        target, base = objects.parsed(path), self._store.base
        if target.is_root:
            return {}
        try:
            memory = yield Request("GET", f"{base}/memory", {"path": objects.api_path(target), "view": "basic"})
        except NotFound:
            below = {"path_prefix": objects.prefix(target)}
            found = yield Request("GET", f"{base}/memory_versions", {**below, "limit": 1})
            if found["data"]:
                return below
        else:
            return {"memory_id": memory["id"]}
        above = objects.api_path(target).rpartition("/")[0] + "/"
        for each in (yield from pages(f"{base}/memory_versions", path_prefix=above)):
            if each["path"] == objects.api_path(target):
                return {"memory_id": each["memory_id"]}
        raise NotFound(f"{target.written} does not exist, and never did")

    @exchange
    def changes(
        self, path: str | None = None, *, only: LogFilter | None = None, limit: int | None = None
    ) -> Exchange[list[LoggedChange]]:
        """The versions of `log`, grouped by command, newest first. `limit` counts changes."""
        found = yield from self._logged(path, None, only or LogFilter(), None)
        return grouped(found)[:limit]

    @exchange
    def show(self, revision: Named, path: str | None = None) -> Exchange[tuple[Version, str | None]]:
        """The version with an id, or the newest one that `HEAD` or `r1234` names, and its text."""
        return (yield from self._shown(revision, path))

    def _shown(self, revision: Named, path: str | None) -> Exchange[tuple[Version, str | None]]:
        version_id = yield from self._version_id(revision, path)
        try:
            found = yield Request("GET", f"{self._store.base}/memory_versions/{segment(version_id)}")
        except NotFound:
            raise NotFound(f"there is no version {version_id}") from None
        return objects.version(found), found["content"]

    def _version_id(self, revision: Named, path: str | None) -> Exchange[str]:
        named = as_revision(revision)
        if isinstance(named.base, VersionId) and not named.back and len(named.base.text) == _FULL_ID:
            return named.base.text
        if isinstance(named.base, At | VersionId):
            raise no_route("a version by time, or by the beginning of its id,")
        listed = yield from self._logged(path, None, LogFilter(), None)
        back, number = named.back, getattr(named.base, "number", None)
        found = [each for each in grouped(listed) if number is None or each.number <= number]
        if len(found) <= back or (number is not None and found[0].number != number):
            raise NotFound(f"there is no change {named.text}")
        if len(found[back].versions) > 1:
            raise InvalidInput(f"the change {found[back].id} has several versions; name one of them by its id")
        return found[back].versions[0].id

    @exchange
    def diff(self, old: str, new: str) -> Exchange[list[diff.DiffLine]]:
        """Unified diff between the texts of two versions. The text of a deletion is empty."""
        before, old_text = yield from self._shown(old, None)
        after, new_text = yield from self._shown(new, None)
        if before.redacted_at is not None or after.redacted_at is not None:
            raise InvalidInput("the text of a version was redacted")
        names = f"{before.path}@{old}", f"{after.path}@{new}"
        return diff.unified(old_text or "", new_text or "", old_name=names[0], new_name=names[1])

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
    ) -> Exchange[RestoreOutcome]:
        """Restore a memory, a directory or the whole store (`/memories`) to a moment. The change is atomic."""
        at = as_revision(to)
        text = at.base.time.isoformat() if isinstance(at.base, At) and not at.back else at.text
        body = {"path": objects.api_path(objects.parsed(path)), "at": text}
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
    ) -> Exchange[RestoreOutcome]:
        """Reverse one whole change, given by a revision (of `path` if one is given) or the id of a version."""
        at = None if path is None else objects.api_path(objects.parsed(path))
        body = {"revision": as_revision(change).text, "path": at}
        return (yield from self._changed("undo", body, mode, actor, origin, dry_run=dry_run))

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
    ) -> Exchange[RestoreOutcome]:
        """Reverse all changes of an actor, from newest to oldest, as one change."""
        body = {"actor": by, "since": objects.time_text(since)}
        return (yield from self._changed("undo", body, mode, actor, origin, dry_run=dry_run))

    def _changed(
        self, route: str, body: Json, mode: Mode, actor: Actor | str | None, origin: Origin, *, dry_run: bool
    ) -> Exchange[RestoreOutcome]:
        if any(origin.values()):
            raise no_route(f"{route} with a source or session")
        sender = self._store.sender(actor)
        given = {**body, "mode": mode, "dry_run": dry_run}
        found = yield Request(
            "POST", f"{self._store.base}/{route}", {}, given, sender, repeats=dry_run, returns_conflicts=True
        )
        return objects.outcome(found, dry_run=dry_run)

    @exchange
    def redact(
        self, version_ids: Sequence[str] = (), *, all_of: str | None = None, actor: Actor | str | None = None
    ) -> Exchange[Removed]:
        """Permanently remove the text, path, size and hash of versions, one after the other."""
        if all_of is not None:
            raise no_route("redact with all_of")
        for version_id in version_ids:
            path = f"{self._store.base}/memory_versions/{segment(version_id)}/redact"
            yield Request("POST", path, actor=self._store.sender(actor), repeats=True)
        return Removed(len(version_ids), pending=False)

    @exchange
    def erase(
        self, path: str | None = None, *, memory_id: str | None = None, actor: Actor | str | None = None
    ) -> Exchange[Removed]:
        """Permanently remove a memory and all its versions. Raises `NotFound`."""
        if memory_id is None:
            memory_id = (yield from self._store.loaded(path or ""))[0].id
        route = f"{self._store.base}/memories/{segment(memory_id)}/erase"
        found = yield Request("POST", route, actor=self._store.sender(actor))
        return Removed(found["versions"], found["pending"])

    page = unsupported("history.page")
    feed = unsupported("history.feed")
    newest = unsupported("history.newest")
    text_at = unsupported("history.text_at")
    differences = unsupported("history.differences")
    blame = unsupported("history.blame")


def grouped(versions: Iterable[Version]) -> list[LoggedChange]:
    """Versions, newest first, by command. A rename is recognized if the version before it is in the list."""
    groups: list[list[Version]] = []
    later: dict[str, Version] = {}
    moved: dict[str, str] = {}
    for each in versions:
        if not groups or (groups[-1][0].revision, groups[-1][0].actor) != (each.revision, each.actor):
            groups.append([])
        groups[-1].append(each)
        after = later.get(each.memory_id)
        if after is not None and after.operation == "modified" and each.path not in {"", after.path} and after.path:
            moved[after.id] = each.path
        later[each.memory_id] = each
    return [
        LoggedChange(
            group[0].revision,
            group[0].actor,
            group[0].created_at,
            tuple(group),
            {each.id: moved[each.id] for each in group if each.id in moved},
        )
        for group in groups
    ]
