"""History of a memory store on a server. Changes and differences are computed from the versions that it lists."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, TypeAlias, Unpack

from retentive.errors import InvalidInput, NotFound
from retentive.history.differences import Differences, MemoryDifference, difference_of
from retentive.history.history import History
from retentive.history.log import BlameLine, Feed, LogFilter, LoggedChange, check_limit, no_memory
from retentive.history.plan import Mode, RestoreOutcome
from retentive.history.removal import Removed
from retentive.history.revisions import Named, as_revision
from retentive.remote.calls import (
    PAGE,
    JsonFields,
    RemotePart,
    Who,
    above,
    like,
    moment,
    no_route,
    parsed,
    prefix,
    segment,
    sent_path,
)
from retentive.remote.client import Conflicts
from retentive.values import diff
from retentive.values.listing import ListPage
from retentive.values.provenance import Origin, origin_of
from retentive.values.records import Version
from retentive.wire.administration import MemoryErased
from retentive.wire.base import AnswerPage
from retentive.wire.history import BlameObject, ChangeFeed, ChangeResult
from retentive.wire.memories import MemoryObject
from retentive.wire.versions import VersionObject, VersionsRedacted

if TYPE_CHECKING:
    from retentive.engine.visibility import Level

Befores: TypeAlias = Mapping[str, Version | None]
"""Maps the id of a version to the previous version of the same memory. None if there is no previous version."""


class RemoteHistory(RemotePart, History):
    """History over HTTP. Operations for which the server has no route raise `InvalidInput`."""

    @like(History.log)
    async def log(self, path: str | None, memory_id: str | None, limit: int | None, **only: object) -> list[Version]:
        check_limit(limit)
        query = await self._query(path, memory_id, LogFilter(**only))  # type: ignore[arg-type]  # those of `History.log`
        return [] if query is None else await self._store.listed(query, limit)

    async def _query(
        self, path: str | None, memory_id: str | None = None, only: LogFilter | None = None
    ) -> JsonFields | None:
        """Return the query that selects the versions of a log, or None if no memory was ever at the path.

        For a path, these are the versions of the memory at the path, or of all memories below it, or of the last
        memory that was deleted there.
        """
        only = only or LogFilter()
        names = "actor", "operation", "source", "session", "integration", "flag", "trust"
        query: dict[str, object] = {name: getattr(only, name) for name in names}
        query |= {"created_at[gte]": only.since, "created_at[lte]": only.until}
        if path is None or memory_id is not None:
            return {**query, "memory_id": memory_id}
        target, at = parsed(path), sent_path(path)
        if target.is_root:
            return query
        try:
            memory = await self._store.get(MemoryObject, "/memory", {"path": at, "view": "basic"})
        except NotFound:
            if await self._store.listed({"path_prefix": prefix(path)}, 1):
                return {**query, "path_prefix": prefix(path)}
        else:
            return {**query, "memory_id": memory.id}
        for each in await self._store.listed({"path_prefix": above(path)}):
            if each.path == target.text:
                return {**query, "memory_id": each.memory_id}
        return None

    @like(History.changes)
    async def changes(self, path: str | None, only: LogFilter | None, limit: int | None) -> list[LoggedChange]:
        check_limit(limit)
        query = await self._query(path, None, only)
        if query is None:
            raise no_memory(parsed(path or "").text)
        found = await self._store.listed(query)
        is_whole = not any(value for name, value in query.items() if name != "memory_id")
        return _grouped(found, await self._befores(found, is_whole=is_whole))[:limit]

    @like(History.show)
    async def show(self, revision: Named, path: str | None) -> tuple[Version, str | None]:
        change = await self._change_named(revision, path)
        if len(change.versions) > 1:
            raise InvalidInput(f"the change {change.id} has several versions; specify the id of one of these versions")
        return await self._with_text(change.versions[0].id)

    async def _change_named(self, named: Named, path: str | None = None) -> LoggedChange:
        """Return the change that a revision names, with only its versions at or below `path`. Raises `NotFound`."""
        revision, store = as_revision(named), self._store
        query = await self._query(path)
        if query is None:
            raise NotFound(f"there is no change {revision.text} of {path}")
        if isinstance(revision.base, str):
            version, _ = await self._with_text(revision.base)
            return _grouped([version], {})[0]
        if isinstance(revision.base, datetime):
            raise no_route("naming a change by a time")
        number, found, page, changes = revision.base, list[Version](), None, list[LoggedChange]()
        while len(changes) <= revision.back + 1:
            asked = {**query, "limit": PAGE, "page": page}
            answer = await store.get(AnswerPage[VersionObject], "/memory_versions", asked)
            found += [each.value() for each in answer.data]
            changes = [each for each in _grouped(found, {}) if number is None or each.number <= number]
            page = answer.next_page
            if page is None:
                break
        if len(changes) <= revision.back or (number is not None and changes[0].number != number):
            raise NotFound(f"there is no change {revision.text}")
        return changes[revision.back]

    async def _with_text(self, version_id: str) -> tuple[Version, str | None]:
        """Return a version and its text: None if it is a deletion or is redacted. Raises `NotFound`."""
        try:
            found = await self._store.get(VersionObject, f"/memory_versions/{segment(version_id)}")
        except NotFound:
            raise NotFound(f"there is no version {version_id}") from None
        return found.value(), found.content

    async def _befores(self, versions: Sequence[Version], *, is_whole: bool = False) -> Befores:
        """Return, for each version, the previous version of the same memory.

        `is_whole` says that `versions`, newest first, has all versions of each of its memories.
        """
        listed = versions
        if not is_whole:
            ids = dict.fromkeys(each.memory_id for each in versions if each.operation != "created")
            listed = [each for memory_id in ids for each in await self._store.listed({"memory_id": memory_id})]
        later: dict[str, Version] = {}
        found: dict[str, Version | None] = {}
        for each in listed:
            if each.memory_id in later:
                found[later[each.memory_id].id] = each
            later[each.memory_id] = each
        return found

    async def _difference(self, old: Version | None, new: Version | None) -> MemoryDifference:
        """Return the difference between two versions of a memory. On the side of None or a deletion, it has no text."""
        texts: list[str | None] = []
        for side in (old, new):
            if side is None or side.operation == "deleted":
                texts.append(None)
            elif side.redacted_at is not None:
                return difference_of(old, new, reason=f"{side.id} was redacted; its text no longer exists")
            else:
                texts.append((await self._with_text(side.id))[1])
        return difference_of(old, new, texts[0], texts[1])

    @like(History.diff)
    async def diff(self, old: str, new: str) -> list[diff.DiffLine]:
        found = await self._compared(old, new)
        if found.reason:
            raise InvalidInput(found.reason)
        first, second = (each.path if each else found.path for each in (found.old, found.new))
        texts = found.old_text or "", found.new_text or ""
        return diff.unified(*texts, old_name=f"{first}@{old}", new_name=f"{second}@{new}")

    async def _compared(self, *ends: Named) -> MemoryDifference:
        if not all(as_revision(each).is_version for each in ends):
            raise InvalidInput("`diff` compares versions by their ids; to compare changes or times, use `differences`")
        old, new = [(await self._change_named(each)).versions[0] for each in ends]
        return await self._difference(old, new)

    @like(History.differences)
    async def differences(
        self, path: str | None, change: Named | None, since: Named | None, until: Named | None, only: LogFilter | None
    ) -> Differences:
        if change is None:
            ends = [each for each in (since, until) if each is not None and as_revision(each).is_version]
            if only is not None or path is not None or len(ends) < 2:
                raise no_route("comparing two states")
            return Differences((await self._compared(*ends),))
        versions = (await self._change_named(change, path)).versions
        before, found = await self._befores(versions), list[MemoryDifference]()
        for version in reversed(versions):
            earlier = before.get(version.id)
            if earlier is None and version.operation != "created":
                raise InvalidInput(f"the version that precedes {version.id} was pruned (setting keep_versions_days)")
            found.append(await self._difference(earlier, version))
        return Differences(tuple(found), changes=tuple(_grouped(versions, before)))

    @like(History.restore)
    async def restore(
        self, path: str, to: Named, mode: Mode, actor: Who, *, dry_run: bool, **origin: Unpack[Origin]
    ) -> RestoreOutcome:
        body = {"path": sent_path(path), "at": moment(to), "mode": mode, "dry_run": dry_run}
        return await self._changed("/restore", body, actor, origin)

    @like(History.undo)
    async def undo(
        self, change: Named, path: str | None, mode: Mode, actor: Who, *, dry_run: bool, **origin: Unpack[Origin]
    ) -> RestoreOutcome:
        at = None if path is None else sent_path(path)
        body = {"revision": as_revision(change).text, "path": at, "mode": mode, "dry_run": dry_run}
        return await self._changed("/undo", body, actor, origin)

    @like(History.undo_own)
    async def undo_own(
        self, change: Named | None, path: str | None, mode: Mode, request_id: str | None, actor: Who,
        **origin: Unpack[Origin],
    ) -> RestoreOutcome:  # fmt: skip
        at, revision = None if path is None else sent_path(path), None if change is None else as_revision(change).text
        body = {"revision": revision, "path": at, "own": True, "mode": mode}
        key = {} if request_id is None else {"key": hashlib.sha256(request_id.encode()).hexdigest()}
        return await self._changed("/undo", body, actor, origin, **key)

    @like(History.undo_by)
    async def undo_by(
        self, by: str, since: datetime | None, mode: Mode, actor: Who, *, dry_run: bool, **origin: Unpack[Origin]
    ) -> RestoreOutcome:
        body = {"actor": by, "since": since, "mode": mode, "dry_run": dry_run}
        return await self._changed("/undo", body, actor, origin)

    async def _changed(self, path: str, body: JsonFields, actor: Who, origin: Origin, **options: str) -> RestoreOutcome:
        try:
            found = await self._store.post(ChangeResult, path, {**body, **origin_of(**origin)}, actor, **options)
        except Conflicts as error:
            return error.answer.restore(dry_run=body.get("dry_run") is True)
        return found.value()

    @like(History.redact)
    async def redact(self, version_ids: Sequence[str], all_of: str | None, actor: Who) -> Removed:
        ids = [version_ids] if isinstance(version_ids, str) else list(version_ids)
        body = {"memory_version_ids": ids or None, "path": None if all_of is None else sent_path(all_of)}
        found = await self._store.post(VersionsRedacted, "/redact", body, actor)
        return found.value()

    @like(History.erase)
    async def erase(self, path: str | None, memory_id: str | None, actor: Who) -> Removed:
        if memory_id is None:
            memory_id = (await self._store.loaded(path or ""))[0].id
        found = await self._store.post(MemoryErased, f"/memories/{segment(memory_id)}/erase", None, actor)
        return found.value()

    @like(History.text_at)
    async def text_at(self, path: str, at: Named) -> tuple[Version, str]:
        found = await self._store.get(MemoryObject, "/memory", {"path": sent_path(path), "at": moment(at)})
        return await self._store.version(found.memory_version_id), found.content or ""

    @like(History.blame)
    async def blame(self, path: str, source: str | None, trust: Level | None) -> list[BlameLine]:
        LogFilter(source=source, trust=trust)
        memory_id = (await self._store.loaded(path))[0].id
        query = {"source": source, "trust": trust}
        found = await self._store.get(BlameObject, f"/memories/{segment(memory_id)}/blame", query)
        ids = dict.fromkeys(each.memory_version_id for each in found.lines)
        versions = {each: await self._store.version(each) for each in ids}
        return [BlameLine(each.line, each.text, versions[each.memory_version_id]) for each in found.lines]

    @like(History.page)
    async def page(
        self, path: str | None, memory_id: str | None, only: LogFilter | None, after: str | None, limit: int,
        *, oldest_first: bool,
    ) -> ListPage[Version, str]:  # fmt: skip
        if oldest_first:
            raise no_route("`history.page` with `oldest_first`")
        if limit < 1:
            raise InvalidInput(f"the limit must be at least 1, not {limit}")
        query = {
            **(await self._query(None, memory_id, only) or {}),
            "path_prefix": "/" if path is None else above(path),
            "view": "basic",
            "limit": min(limit, 100),
            "page": after,
        }
        found = await self._store.get(AnswerPage[VersionObject], "/memory_versions", query)
        versions, below = (each.value() for each in found.data), "" if path is None else f"{parsed(path).text}/"
        return ListPage(tuple(each for each in versions if f"{each.path}/".startswith(below)), found.next_page)

    @like(History.feed)
    async def feed(self, after: str, limit: int) -> Feed:
        found = await self._fed(after, limit)
        items = (each.value() for each in found.data)
        return Feed(tuple(items), found.next, found.has_gap)

    @like(History.newest)
    async def newest(self) -> str:
        return (await self._fed("", 1)).newest

    async def _fed(self, after: str, limit: int) -> ChangeFeed:
        if limit < 1 or not ((after.isascii() and after.isalnum()) or not after):
            raise InvalidInput(
                "`limit` must be at least 1; `after` must be the id of a version or event without its prefix"
            )
        return await self._store.get(ChangeFeed, "/changes", {"after": after or None, "limit": min(limit, 500)})


def _grouped(versions: Iterable[Version], before: Befores) -> list[LoggedChange]:
    """Return the versions, newest first, grouped by the command that wrote them.

    `before` tells the earlier paths of renamed memories.
    """
    groups: list[list[Version]] = []
    for each in versions:
        if not groups or (groups[-1][0].revision, groups[-1][0].actor) != (each.revision, each.actor):
            groups.append([])
        groups[-1].append(each)
    found = []
    for group in groups:
        pairs = ((each, before.get(each.id)) for each in group if each.operation == "modified" and each.path)
        moved = {each.id: old.path for each, old in pairs if old is not None and old.path not in {"", each.path}}
        found.append(LoggedChange(group[0].revision, group[0].actor, group[0].created_at, tuple(group), moved))
    return found
