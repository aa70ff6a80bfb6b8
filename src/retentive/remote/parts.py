"""Parts of a memory store on a server: its history, proposals, trust, memories by their ids, and the audit log."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TypeAlias, Unpack, cast

from retentive.audit import chain
from retentive.audit.chain import AuditEntry, Head
from retentive.audit.reader import Audit, Problem, ProblemKind, Verified
from retentive.engine.visibility import Level, author_of, check_level, trust_levels
from retentive.errors import InvalidInput, NotFound, Unavailable
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
    unsupported,
)
from retentive.remote.client import Conflicts
from retentive.review.proposals import DecisionOutcome, Proposal, ProposedChange
from retentive.review.session import Review
from retentive.review.trust import DoubtedMemory, Trust
from retentive.store.by_id import ById
from retentive.values import diff
from retentive.values.listing import ListPage
from retentive.values.patterns import check_trust_pattern
from retentive.values.provenance import Contributor, Origin, origin_of
from retentive.values.records import Memory, Version, Written, as_actor
from retentive.wire.base import Answer, AnswerPage
from retentive.wire.history import (
    BlameObject,
    ChangeFeed,
    ChangeResult,
    ConfirmationResult,
    DecisionObject,
    DoubtedObject,
    ProposalObject,
    QuarantineResult,
    VersionObject,
    VersionsRedacted,
)
from retentive.wire.memories import MemoryDeleted, MemoryObject
from retentive.wire.stores import AuditReport, MemoryErased, SettingsObject

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


class RemoteReview(RemotePart, Review):
    """Review over HTTP. One call can accept or refuse only one proposal, so the mode `partial` is `merge`."""

    @like(Review.pending)
    async def pending(self, actor: Who) -> list[Proposal]:
        who = as_actor(actor)
        query = {"actor": None if who is None else str(who)}
        found = await self._store.pages(AnswerPage[ProposalObject], "/proposals", query)
        return [each.value(number=number) for number, each in enumerate(found)]

    @like(Review.show)
    async def show(self, proposal_id: str) -> tuple[Proposal, list[tuple[ProposedChange, str | None, str | None]]]:
        try:
            found = await self._store.get(ProposalObject, f"/proposals/{segment(proposal_id)}")
        except NotFound:
            raise NotFound(f"there is no proposal {proposal_id} that awaits review") from None
        proposal = found.value(number=0)
        return proposal, [
            (change, each.before, each.after) for change, each in zip(proposal.changes, found.changes, strict=True)
        ]

    @like(Review.accept)
    async def accept(self, ids: Iterable[str] | None, actor: Who, proposed_by: Who, mode: Mode) -> DecisionOutcome:
        body = {"merge": mode in {"merge", "partial"}, "force": mode == "force"}
        return await self._decided("accept", ids, actor, proposed_by, body)

    @like(Review.refuse)
    async def refuse(self, ids: Iterable[str] | None, actor: Who, proposed_by: Who) -> DecisionOutcome:
        return await self._decided("refuse", ids, actor, proposed_by)

    async def _decided(
        self, verb: str, ids: Iterable[str] | None, actor: Who, proposed_by: Who, body: JsonFields | None = None
    ) -> DecisionOutcome:
        chosen = [ids] if isinstance(ids, str) else [] if ids is None else list(dict.fromkeys(ids))
        if len(chosen) != 1 or proposed_by is not None:
            raise no_route(f"a call to {verb} several proposals")
        try:
            path = f"/proposals/{segment(chosen[0])}/{verb}"
            return (await self._store.post(DecisionObject, path, body, actor)).value()
        except Conflicts as error:
            return error.answer.decision()

    decisions = unsupported("review.decisions")


class RemoteTrust(RemotePart, Trust):
    """Trust over HTTP."""

    @like(Trust.doubted)
    async def doubted(self, under: str, level: Level | None) -> list[DoubtedMemory]:
        check_level(level)
        query = {"path_prefix": above(under), "level": level}
        return _below(under, await self._store.pages(AnswerPage[DoubtedObject], "/doubted_memories", query))

    @like(Trust.page)
    async def page(
        self, under: str, level: Level | None, after: str, limit: int | None
    ) -> ListPage[DoubtedMemory, str]:
        check_level(level)
        if limit is not None and limit < 1:
            raise InvalidInput(f"the limit must be at least 1, not {limit}")
        query = {"path_prefix": above(under), "level": level, "limit": min(limit or 100, 100), "page": after or None}
        found = await self._store.get(AnswerPage[DoubtedObject], "/doubted_memories", query)
        return ListPage(tuple(_below(under, found.data)), found.next_page)

    @like(Trust.contributors)
    async def contributors(self, recorded: Version | Memory) -> Sequence[Contributor]:
        version_id = recorded.id if isinstance(recorded, Version) else recorded.version_id
        return (await self._store.version(version_id)).provenance.contributors

    @like(Trust.levels)
    async def levels(self, versions: Iterable[Version]) -> list[Level]:
        level_of = trust_levels((await self._store.get(SettingsObject, "/settings")).value())
        return [level_of(author_of(each)) for each in versions]

    @like(Trust.confirm)
    async def confirm(self, path: str, actor: Who) -> list[str]:
        try:
            found = await self._store.post(ConfirmationResult, "/trust/confirm", {"path": sent_path(path)}, actor)
        except NotFound:
            raise NotFound(f"there is no memory at {parsed(path).written}") from None
        return found.paths

    @like(Trust.quarantine)
    async def quarantine(self, pattern: str, actor: Who) -> bool:
        body = {"pattern": check_trust_pattern(pattern)}
        return (await self._store.post(QuarantineResult, "/trust/quarantine", body, actor)).changed

    @like(Trust.release)
    async def release(self, pattern: str, actor: Who) -> bool:
        body = {"pattern": check_trust_pattern(pattern)}
        return (await self._store.post(QuarantineResult, "/trust/release", body, actor)).changed


def _below(under: str, given: Iterable[DoubtedObject]) -> list[DoubtedMemory]:
    """Return only the memories at or below a path. This is needed because the route can select only by directory."""
    top = f"{parsed(under).text}/"
    return [found for each in given if f"{(found := each.value()).path}/".startswith(top)]


class RemoteById(RemotePart, ById):
    """Access by id over HTTP. The server refuses a text with sensitive values; a local store may redact them."""

    async def _found(self, memory_id: str) -> MemoryObject:
        try:
            return await self._store.get(MemoryObject, f"/memories/{segment(memory_id)}")
        except NotFound:
            raise NotFound(f"there is no memory {memory_id}") from None

    @like(ById.get)
    async def get(self, memory_id: str) -> tuple[Memory, str]:
        found = await self._found(memory_id)
        return found.value(), found.content or ""

    @like(ById.update)
    async def update(
        self, memory_id: str, text: str | None, path: str | None, if_sha256: str | None, actor: Who,
        **origin: Unpack[Origin],
    ) -> Written:  # fmt: skip
        if text is None and path is None:
            raise InvalidInput("specify a text, a path or both")
        before = await self._found(memory_id)
        condition = None if if_sha256 is None else {"type": "content_sha256", "content_sha256": if_sha256}
        target = None if path is None else sent_path(path)
        body = {"content": text, "path": target, "precondition": condition, **origin_of(**origin)}
        answer = await self._store.post(MemoryObject, f"/memories/{segment(memory_id)}", body, actor)
        found, is_changed = answer.value(), answer.memory_version_id != before.memory_version_id
        return Written(found.path, found.version_id, int(is_changed), memory_id=found.id, memory=found)

    @like(ById.delete)
    async def delete(self, memory_id: str, if_sha256: str | None, actor: Who, **origin: Unpack[Origin]) -> Written:
        found = (await self._found(memory_id)).value()
        query = {"expected_content_sha256": if_sha256, **origin_of(**origin)}
        await self._store.call(MemoryDeleted, "DELETE", f"/memories/{segment(memory_id)}", actor, query=query)
        return Written(found.path, found.version_id, 1, memory_id=found.id, memory=found)


class RemoteAudit(RemotePart, Audit):
    """Audit log over HTTP. It has no anchors, because anchors need direct access to the storage."""

    @like(Audit.entries)
    async def entries(self, since: datetime | None) -> Iterator[AuditEntry]:
        return iter([entry for _, entry in await self._exported(since)])

    @like(Audit.export)
    async def export(self, since: datetime | None) -> Iterator[str]:
        return iter([stored for stored, _ in await self._exported(since)])

    async def _exported(self, since: datetime | None) -> list[tuple[str, AuditEntry]]:
        with tempfile.TemporaryFile() as sink:
            await self._store.call(Answer, "GET", "/audit/export", query={"since": since}, sink=sink)
            sink.seek(0)
            return [_entry(line) for line in sink]

    @like(Audit.verify)
    async def verify(self, expect: Iterable[Head | str], anchor: str | None, key: str | None) -> Verified:
        if anchor is not None or key is not None:
            raise no_route("`audit.verify` with an anchor")
        heads = [str(Head.parse(each) if isinstance(each, str) else each) for each in expect]
        found = await self._store.get(AuditReport, "/audit/verify", {"expect": ",".join(heads) or None})
        unaudited = [await self._store.version(each) for each in found.unaudited_memory_version_ids]
        head = None if found.head is None else Head.parse(found.head)
        return Verified(found.entries, _problem(found.problem), head, tuple(unaudited))

    anchor = unsupported("audit.anchor")


def _entry(line: bytes) -> tuple[str, AuditEntry]:
    given = json.loads(line)
    paths = "" if given["paths"] is None else json.dumps({"paths": given["paths"]})
    entry = chain.parsed(f"{given['stored']}\n{paths}")
    if entry is None:
        raise Unavailable("the server answered with an entry of the audit log that cannot be parsed")
    return given["stored"], entry


def _problem(text: str | None) -> Problem | None:
    """Return the problem that a text such as `entry 3: altered` describes."""
    if text is None:
        return None
    number, _, what = text.removeprefix("entry ").partition(": ")
    return Problem(cast("ProblemKind", what), int(number))
