"""Parts of a memory store on a server: its history, proposals, trust, and memories by their ids.

A method that is not here needs the storage: the inherited one raises `InvalidInput`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby, islice
from typing import Any

from retentive.engine.visibility import Level, check_level
from retentive.errors import InvalidInput
from retentive.history.differences import Differences, MemoryDifference, difference_of
from retentive.history.history import History
from retentive.history.log import BlameLine, Feed, LogFilter, LoggedChange, check_limit, no_memory
from retentive.history.plan import Mode, RestoreOutcome, check_mode
from retentive.history.removal import Removed
from retentive.history.revisions import Named, as_revision
from retentive.remote.calls import (
    JsonFields,
    RemotePart,
    Who,
    like,
    moment,
    no_route,
    parsed,
    prefix,
    segment,
    sent_path,
)
from retentive.remote.client import Conflicts
from retentive.review.proposals import Decision, DecisionOutcome, Proposal, ProposedChange
from retentive.review.session import Review
from retentive.review.trust import DoubtedMemory, Trust
from retentive.store.by_id import ById
from retentive.values import diff
from retentive.values.patterns import check_trust_pattern
from retentive.values.provenance import Contributor
from retentive.values.records import Memory, Version, as_actor
from retentive.values.text import digest
from retentive.wire import history as wire
from retentive.wire import review
from retentive.wire.base import AnswerPage
from retentive.wire.memories import MemoryObject


def _selected(only: LogFilter, **more: object) -> JsonFields:
    """Return the query that selects versions."""
    names = "actor", "operation", "source", "session", "integration", "flag", "trust"
    bounds = {"created_at[gte]": only.since, "created_at[lte]": only.until}
    return {**{name: getattr(only, name) for name in names}, **bounds, **more}


def _path(path: str | None) -> str | None:
    return None if path is None else sent_path(path)


class RemoteHistory(RemotePart, History):
    """History over HTTP."""

    @like(History.log)
    def log(self, path: str | None, memory_id: str | None, limit: int | None, **only: Any) -> list[Version]:
        check_limit(limit)
        query = _selected(LogFilter(**only), path=_path(path), memory_id=memory_id)
        return [each.value() for each in self._store.listed(query, limit)]

    @like(History.changes)
    def changes(self, path: str | None, only: LogFilter | None, limit: int | None) -> list[LoggedChange]:
        check_limit(limit)
        query = _selected(only or LogFilter(), path=_path(path), renames=True)
        groups = groupby(self._store.listed(query), key=lambda each: (each.revision, each.created_by))
        found = [wire.change_of(group) for _, group in islice(groups, limit)]
        if not found and path is not None and not parsed(path).is_root and not self.log(path, limit=1):
            raise no_memory(parsed(path).text)
        return found

    @like(History.show)
    def show(self, revision: Named, path: str | None) -> tuple[Version, str | None]:
        named = as_revision(revision)
        found = [named.text] if named.is_version else [each.id for each in self._changed_by(named, path)]
        if len(found) != 1:
            some = ", ".join(found[:2])
            raise InvalidInput(
                f"{named.text} has {len(found)} versions, such as {some}; specify a version id or a path"
            )
        missing = f"there is no version {found[0]}"
        version = self._store.get(wire.VersionObject, f"/memory_versions/{segment(found[0])}", missing=missing)
        return version.value(), version.content

    def _changed_by(self, change: Named, path: str | None) -> list[wire.VersionObject]:
        query = {"change": as_revision(change).text, "path": _path(path), "renames": True}
        return list(self._store.listed(query))

    @like(History.diff)
    def diff(self, old: str, new: str) -> list[diff.DiffLine]:
        found = self._compared(new, old)
        if found.reason:
            raise InvalidInput(found.reason)
        first, second = (each.path if each else found.path for each in (found.old, found.new))
        texts = found.old_text or "", found.new_text or ""
        return diff.unified(*texts, old_name=f"{first}@{old}", new_name=f"{second}@{new}")

    def _compared(self, *ends: Named) -> MemoryDifference:
        """Compare a version with another one, or with the previous version of its memory."""
        named = [as_revision(each) for each in ends]
        if not all(each.is_version for each in named):
            raise InvalidInput("`diff` compares versions by their ids; to compare changes or times, use `differences`")
        ids = [each.text for each in named]
        query, missing = {"against": ids[-1]} if len(ids) > 1 else {}, f"there is no version {' or '.join(ids)}"
        found = self._store.get(wire.DiffObject, f"/memory_versions/{segment(ids[0])}/diff", query, missing=missing)
        (old, old_text), (new, new_text) = (
            (None, None) if each is None else (each.value(), each.content) for each in (found.old, found.new)
        )
        return difference_of(old, new, old_text, new_text, reason=found.reason or "")

    @like(History.differences)
    def differences(
        self, path: str | None, change: Named | None, since: Named | None, until: Named | None, only: LogFilter | None
    ) -> Differences:
        if change is not None:
            versions = self._changed_by(change, path)
            found = tuple(self._compared(each.id) for each in reversed(versions))
            return Differences(found, changes=(wire.change_of(versions),))
        if only is not None or path is not None or since is None or until is None or not as_revision(since).is_version:
            raise no_route("comparing two states")
        return Differences((self._compared(until, since),))

    @like(History.restore)
    def restore(self, path: str, to: Named, actor: Who = None, **more: Any) -> RestoreOutcome:
        return self._restored("/restore", actor, path=sent_path(path), at=moment(to), **more)

    @like(History.undo)
    def undo(self, change: Named, path: str | None, actor: Who = None, **more: Any) -> RestoreOutcome:
        return self._restored("/undo", actor, revision=as_revision(change).text, path=_path(path), **more)

    @like(History.undo_own)
    def undo_own(
        self, change: Named | None, path: str | None, mode: Mode, request_id: str | None, actor: Who = None,
        **origin: Any,
    ) -> RestoreOutcome:  # fmt: skip
        key = None if request_id is None else digest(request_id)
        revision = None if change is None else as_revision(change).text
        return self._restored("/undo", actor, key, revision=revision, path=_path(path), own=True, mode=mode, **origin)

    @like(History.undo_by)
    def undo_by(self, by: str, actor: Who = None, **more: Any) -> RestoreOutcome:
        return self._restored("/undo", actor, **{**more, "actor": by})

    def _restored(self, route: str, by: Who, key: str | None = None, **body: object) -> RestoreOutcome:
        try:
            return self._store.post(wire.ChangeResult, route, body, by, key=key).value()
        except Conflicts as error:
            conflicts = tuple(each.value() for each in error.conflicts)
            return RestoreOutcome(conflicts=conflicts, dry_run=body.get("dry_run") is True)  # type: ignore[arg-type]

    @like(History.redact)
    def redact(self, version_ids: Sequence[str], all_of: str | None, actor: Who) -> Removed:
        ids = [version_ids] if isinstance(version_ids, str) else list(version_ids)
        body = {"memory_version_ids": ids or None, "path": _path(all_of)}
        return self._store.post(wire.RemovedObject, "/redact", body, actor).value()

    @like(History.erase)
    def erase(self, path: str | None, memory_id: str | None, reason: str | None, actor: Who) -> Removed:
        chosen = memory_id if memory_id is not None else self._store.load(path or "")[0].id
        body = None if reason is None else {"reason": reason}
        return self._store.post(wire.RemovedObject, f"/memories/{segment(chosen)}/erase", body, actor).value()

    @like(History.blame)
    def blame(self, path: str, source: str | None, trust: Level | None) -> list[BlameLine]:
        LogFilter(source=source, trust=trust)
        memory_id = self._store.load(path)[0].id
        query = {"source": source, "trust": trust}
        return [each.value() for each in self._store.get(wire.BlameObject, f"/memories/{memory_id}/blame", query).lines]

    @like(History.feed)
    def feed(self, after: str, limit: int) -> Feed:
        found = self._fed(after, limit)
        return Feed(tuple(each.value() for each in found.data), found.next, found.has_gap)

    @like(History.newest)
    def newest(self) -> str:
        return self._fed("", 1).newest

    def _fed(self, after: str, limit: int) -> wire.ChangeFeed:
        return self._store.get(wire.ChangeFeed, "/changes", {"after": after or None, "limit": min(limit, 500)})


class RemoteReview(RemotePart, Review):
    """Review over HTTP."""

    @like(Review.pending)
    def pending(self, actor: Who, session: str | None) -> list[Proposal]:
        who = as_actor(actor)
        query = {"actor": None if who is None else str(who), "session": session}
        found = self._store.pages(AnswerPage[review.ProposalObject], "/proposals", query)
        return [each.value(number=number) for number, each in enumerate(found)]

    @like(Review.show)
    def show(self, proposal_id: str) -> tuple[Proposal, list[tuple[ProposedChange, str | None, str | None]]]:
        missing = f"there is no proposal {proposal_id} that awaits review"
        found = self._store.get(review.ProposalObject, f"/proposals/{segment(proposal_id)}", missing=missing)
        proposal = found.value(number=0)
        changes = zip(proposal.changes, found.changes, strict=True)
        return proposal, [(change, each.before, each.after) for change, each in changes]

    @like(Review.accept)
    def accept(self, mode: Mode, **of: Any) -> DecisionOutcome:
        check_mode(mode)
        return self._decided("accept", {mode: True} if mode != "refuse" else {}, **of)

    @like(Review.refuse)
    def refuse(self, **of: Any) -> DecisionOutcome:
        return self._decided("refuse", {}, **of)

    @like(Review.decisions)
    def decisions(self) -> list[Decision]:
        return [each.value() for each in self._store.pages(AnswerPage[review.DecidedObject], "/proposal_decisions")]

    def _decided(
        self, verb: str, options: JsonFields, *, ids: Iterable[str] | None, proposed_by: Who = None,
        session: str | None = None, actor: Who = None,
    ) -> DecisionOutcome:  # fmt: skip
        who = as_actor(proposed_by)
        if ids is None and who is None and session is None:
            ids = [each.id for each in self.pending()]
        chosen = [ids] if isinstance(ids, str) else None if ids is None else list(dict.fromkeys(ids))
        if chosen == []:
            return DecisionOutcome()
        body = {"ids": chosen, "actor": None if who is None else str(who), "session": session, **options}
        try:
            return self._store.post(review.DecisionObject, f"/proposals/{verb}", body, actor).value()
        except Conflicts as error:
            return DecisionOutcome(obstacles=tuple(each.value() for each in error.conflicts))  # type: ignore[misc]


class RemoteTrust(RemotePart, Trust):
    """Trust over HTTP."""

    @like(Trust.doubted)
    def doubted(self, under: str, level: Level | None) -> list[DoubtedMemory]:
        check_level(level)
        top = f"{parsed(under).text}/"
        query = {"path_prefix": prefix(under.rpartition("/")[0] or under), "level": level}
        found = (
            each.value() for each in self._store.pages(AnswerPage[review.DoubtedObject], "/doubted_memories", query)
        )
        return [each for each in found if f"{each.path}/".startswith(top)]

    @like(Trust.contributors)
    def contributors(self, recorded: Version | Memory) -> Sequence[Contributor]:
        version_id = recorded.id if isinstance(recorded, Version) else recorded.version_id
        return self._store.history.show(version_id)[0].provenance.contributors

    @like(Trust.confirm)
    def confirm(self, path: str, actor: Who) -> list[str]:
        missing = f"there is no memory at {parsed(path).written}"
        body = {"path": sent_path(path)}
        return self._store.post(review.ConfirmationResult, "/trust/confirm", body, actor, missing=missing).paths

    @like(Trust.quarantine)
    def quarantine(self, pattern: str, actor: Who) -> bool:
        body = {"pattern": check_trust_pattern(pattern)}
        return self._store.post(review.QuarantineResult, "/trust/quarantine", body, actor).changed

    @like(Trust.release)
    def release(self, pattern: str, actor: Who) -> bool:
        body = {"pattern": check_trust_pattern(pattern)}
        return self._store.post(review.QuarantineResult, "/trust/release", body, actor).changed


class RemoteById(RemotePart, ById):
    """Access by id over HTTP, which only reads."""

    @like(ById.get)
    def get(self, memory_id: str) -> tuple[Memory, str]:
        missing = f"there is no memory {memory_id}"
        found = self._store.get(MemoryObject, f"/memories/{segment(memory_id)}", missing=missing)
        return found.value(), found.content or ""
