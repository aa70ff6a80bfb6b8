"""The history: versions, blame, changes, differences, undo and restore."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field

from retentive.engine.lists import StoreEvent
from retentive.engine.visibility import Level
from retentive.history.differences import MemoryDifference
from retentive.history.log import BlameLine, LoggedChange
from retentive.history.plan import Conflict, Mode, RestoreOutcome, Step, What
from retentive.history.removal import Removed
from retentive.values import diff
from retentive.values.provenance import Contributor, Flag, Provenance
from retentive.values.records import Operation, Version
from retentive.wire import base


class VersionsQuery(base.PageQuery):
    """Which versions to list."""

    view: base.Basic = "basic"
    created_from: base.CreatedFrom = None
    created_to: base.CreatedTo = None
    path_prefix: base.Under = "/"
    path: base.AnyPath | None = Field(None, description="Only of the memory at this path, or of a directory")
    memory_id: str | None = Field(None, max_length=200, description="Only versions of this memory")
    change: str | None = Field(None, max_length=200, description="Only of this change: r1234, or HEAD~2 of `path`")
    operation: Operation | None = Field(None, description="Only versions of this kind")
    session_id: str | None = Field(None, max_length=255, description="Only versions written in this session")
    api_key_id: str | None = Field(None, max_length=255, description="Only versions written with this key")
    service_account_id: str | None = Field(None, max_length=255, description="Only versions of this service account")
    actor: base.ActorPattern | None = Field(None, description="Only versions by actors that match, such as session:*")
    source: base.NamePattern | None = Field(None, description="Only versions with a source that matches, such as web:*")
    session: base.NamePattern | None = Field(None, description="Only versions of a session that matches")
    integration: base.NamePattern | None = Field(None, description="Only versions written through an integration")
    flag: base.NamePattern | None = Field(None, description="Only versions with a flag of a kind that matches")
    trust: Level | None = Field(None, description="Only versions at this level of trust")
    renames: base.QueryFlag = Field(False, description="Include `path_before` of renamed memories")


class VersionRedaction(base.Fields):
    """Versions to redact."""

    memory_version_ids: Annotated[list[str], Field(max_length=100)] | None = Field(None, description="The versions")
    path: base.AnyPath | None = Field(None, description="Instead: all versions at or below a path but the present ones")


class FlagObject(base.ObjectOf[Flag]):
    """Flagged line of a text."""

    line: base.Count
    kind: str


class ContributorObject(base.ObjectOf[Contributor]):
    """Contribution to a text."""

    at: str
    actor: str
    session: str
    source: str


class ProvenanceObject(base.ObjectOf[Provenance]):
    """Origin of a version."""

    integration: str
    tool_use_id: str
    session: str
    source: str
    cause: str
    api_key_id: str = ""
    accepted_by: str = ""
    flags: list[FlagObject]
    contributors: list[ContributorObject]

    def text(self) -> str:
        """Return the text that a local store would keep."""
        made = self.value()
        names = "integration", "tool_use_id", "session", "source", "cause"
        lists = {"key": made.api_key_id, "accepted": made.accepted_by, "flags": made.flags, "by": made.contributors}
        kept = {name: value for name, value in ({name: getattr(made, name) for name in names} | lists).items() if value}
        return json.dumps(kept, separators=(",", ":"))


class VersionObject(base.ObjectOf[Version]):
    """Version of a memory.

    `content` is null if the view is `basic`, and for a deletion. A redacted version has neither path, content, hash
    nor size. Hosted memory stores have neither revisions nor provenance.
    """

    id: str
    type: Literal["memory_version"] = "memory_version"
    memory_id: str
    memory_store_id: str
    operation: Operation
    path: base.ShownPath | None
    content: str | None
    content_sha256: base.Sha256 | None
    content_size_bytes: base.Count | None
    created_at: base.UtcTime
    created_by: base.ActorObject
    redacted_at: base.UtcTime | None
    redacted_by: base.ActorObject
    revision: base.Count = 0
    provenance: ProvenanceObject | None = None
    path_before: base.ShownPath | None = Field(None, exclude_if=lambda value: value is None)

    attributes: ClassVar = {"content_sha256": "sha256", "content_size_bytes": "size_bytes", "created_by": "actor"}

    @classmethod
    def of(cls, given: Version, contributors: Sequence[Contributor] | None = None, **more: object) -> Self:
        """Return the object of a version. `more` has the id of its store, and its text.

        `contributors` lists all contributors, if the provenance of the version does not name them.
        """
        if given.redacted_at is not None:
            more |= {"path": None, "content_sha256": None, "content_size_bytes": None}
        made = given.provenance
        origin = ProvenanceObject.of(made, contributors=contributors or made.contributors)
        return super().of(given, provenance=None if given.provenance_text is None else origin, **more)

    def value(self, **more: object) -> Version:
        """Return the version, without its text."""
        if self.operation == "deleted":
            more |= {"size_bytes": None, "sha256": None}
        text = None if self.provenance is None else self.provenance.text()
        return super().value(path=self.path or "", provenance_text=text, **more)


def change_of(objects: Iterable[VersionObject]) -> LoggedChange:
    """Return a change of which these are the versions, newest first."""
    listed = list(objects)
    versions = tuple(each.value() for each in listed)
    moved = {each.id: each.path_before for each in listed if each.path_before is not None}
    return LoggedChange(versions[0].revision, versions[0].actor, versions[0].created_at, versions, moved)


class RemovedObject(base.ObjectOf[Removed]):
    """Answer to an erasure of a memory, or to a redaction of versions, which has no `id`."""

    type: Literal["memory_erased", "versions_redacted"]
    id: str | None = Field(None, exclude_if=lambda value: value is None)
    versions: base.Count
    pending: bool


class DiffObject(base.Answer):
    """Difference between two versions, with their texts. `reason` tells why they cannot be compared."""

    type: Literal["memory_diff"] = "memory_diff"
    memory_version_id: str
    against_memory_version_id: str | None
    unified: str
    old: VersionObject | None
    new: VersionObject | None
    reason: str | None

    @classmethod
    def of(cls, given: MemoryDifference, *, memory_version_id: str, memory_store_id: str) -> Self:
        """Return the object of a difference."""
        sides = (given.old, given.old_text), (given.new or given.gone, given.new_text)
        old_name, new_name = ("" if each is None else f"{base.api_path(each.path)}@{each.id}" for each, _ in sides)
        lines = diff.unified(given.old_text, given.new_text, old_name=old_name, new_name=new_name)
        old, new = (
            None if each is None else VersionObject.of(each, memory_store_id=memory_store_id, content=text)
            for each, text in sides
        )
        return cls(
            memory_version_id=memory_version_id,
            against_memory_version_id=None if given.old is None else given.old.id,
            unified=diff.as_text(lines),
            old=old,
            new=new,
            reason=given.reason or None,
        )


class Restoring(base.Sourced):
    """Fields of an undo and of a restore."""

    mode: Mode = Field("refuse", description="Treatment of later changes")
    dry_run: bool = Field(False, description="Report the steps, and change nothing")


class UndoRequest(Restoring):
    """Undo of one change, of all changes of an actor, or of one of the caller's own changes."""

    memory_version_id: str | None = Field(None, max_length=200, description="A version of the change")
    revision: str | None = Field(None, max_length=200, description="Name of the change, such as r1234 or HEAD~2")
    path: base.AnyPath | None = Field(None, description="With `revision`: only changes of this path count")
    actor: str | None = Field(None, description="Pattern of actors, such as session:s1")
    since: base.Time | None = Field(None, description="With `actor`: only changes since this time")
    own: bool = Field(False, description="Only a change by the actor itself; without `revision` its newest")


class RestoreRequest(Restoring):
    """Restore of a memory, a directory or the store to an earlier moment."""

    path: base.AnyPath = Field(description="Path of a memory or a directory; `/` is the whole store")
    at: base.Moment = Field(description="Id of a version, a time, or the name of a change, such as r1234")


class ConflictObject(base.ObjectOf[Conflict]):
    """Memory that differs from what was asked, and why."""

    path: base.ShownPath
    memory_id: str
    reason: str


class StepObject(base.ObjectOf[Step]):
    """Write of an undo or restore."""

    operation: What
    memory_id: str
    path: base.ShownPath
    attributes: ClassVar = {"operation": "what"}

    def value(self, **_: object) -> Step:
        """Return the step, without its states."""
        return super().value(before=None, state=None)


class UndoneChange(base.ObjectOf[LoggedChange]):
    """Change that an undo reverts, with its versions, newest first."""

    versions: list[VersionObject]

    @classmethod
    def of(cls, given: LoggedChange, store_id: str) -> Self:  # type: ignore[override]
        """Return the object of a change."""
        pairs = ((each, given.moved_from.get(each.id)) for each in given.versions)
        more = {"memory_store_id": store_id, "content": None}
        return cls(versions=[VersionObject.of(each, None, path_before=before, **more) for each, before in pairs])

    def value(self, **_: object) -> LoggedChange:
        """Return the change."""
        return change_of(self.versions)


class ChangeResult(base.ObjectOf[RestoreOutcome]):
    """Answer to an undo or restore. Only a dry run of an undo lists what would be `undone`."""

    type: Literal["change_result"] = "change_result"
    steps: list[StepObject]
    left: list[ConflictObject]
    undone: list[UndoneChange]
    proposed: bool
    dry_run: bool


class EventObject(base.ObjectOf[StoreEvent]):
    """Change that creates no version, such as a redaction. `ids` has at most 100 of the `count` ids."""

    id: str
    type: Literal["memory_store_event"] = "memory_store_event"
    memory_store_id: str
    event: str
    created_at: base.UtcTime
    created_by: base.ActorObject
    ids: list[str]
    count: base.Count

    attributes: ClassVar = {"event": "type", "created_at": "at", "created_by": "actor"}


def change_object(change: Version | StoreEvent, store_id: str) -> VersionObject | EventObject:
    """Return the object of a change."""
    if isinstance(change, Version):
        return VersionObject.of(change, memory_store_id=store_id, content=None)
    return EventObject.of(change, memory_store_id=store_id)


class ChangeFeed(base.Answer):
    """Changes in their order."""

    data: list[Annotated[VersionObject | EventObject, Field(discriminator="type")]]
    next: str
    newest: str
    has_gap: bool


class BlameLineObject(base.ObjectOf[BlameLine]):
    """Line of a memory, with the version that added it."""

    line: base.Count
    text: str
    version: VersionObject
    attributes: ClassVar = {"line": "number"}


class BlameObject(base.Answer):
    """Lines of a memory."""

    type: Literal["memory_blame"] = "memory_blame"
    memory_id: str
    path: base.ShownPath
    lines: list[BlameLineObject]
