"""The history: differences, undo, restore, changes and blame."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal, Self

from pydantic import Field

from retentive.engine.events import StoreEvent
from retentive.history.log import BlameLine
from retentive.history.plan import Conflict, Mode, RestoreOutcome, Step, What
from retentive.values.records import Version
from retentive.wire.actors import ActorObject
from retentive.wire.base import (
    Answer,
    AnyPath,
    Count,
    Moment,
    Sourced,
    Time,
    UtcTime,
    api_path,
    tool_path,
)
from retentive.wire.versions import VersionObject

StepName = Literal["created", "modified", "renamed", "deleted"]
_NAMES: dict[What, StepName] = {"deleted": "deleted", "moved": "renamed", "made": "created", "changed": "modified"}
_STEPS = {name: what for what, name in _NAMES.items()}


class DiffObject(Answer):
    """Difference between two versions."""

    type: Literal["memory_diff"] = "memory_diff"
    memory_version_id: str
    against_memory_version_id: str | None
    unified: str


class Restoring(Sourced):
    """Fields of an undo and of a restore."""

    mode: Mode = Field("refuse", description="Treatment of later changes")
    dry_run: bool = Field(False, description="Report the steps, and change nothing")


class UndoRequest(Restoring):
    """Undo of one change, of all changes of an actor, or of one of the caller's own changes."""

    memory_version_id: str | None = Field(None, max_length=200, description="A version of the change")
    revision: str | None = Field(None, max_length=200, description="Name of the change, such as r1234 or HEAD~2")
    path: AnyPath | None = Field(None, description="With `revision`: only changes of this memory or directory count")
    actor: str | None = Field(None, description="Pattern of actors, such as session:s1")
    since: Time | None = Field(None, description="With `actor`: only changes since this time")
    own: bool = Field(False, description="Only a change by the actor itself; without `revision` its newest")


class RestoreRequest(Restoring):
    """Restore of a memory, a directory or the store to an earlier moment."""

    path: AnyPath = Field(description="Path of a memory or a directory; `/` is the whole store")
    at: Moment = Field(description="Id of a version, a time, or the name of a change, such as r1234")


class ConflictObject(Answer):
    """Memory that differs from what was asked, and why."""

    path: str
    memory_id: str
    reason: str

    @classmethod
    def of(cls, conflict: Conflict) -> Self:
        """Return the object of a conflict."""
        return cls(path=api_path(conflict.path), memory_id=conflict.memory_id, reason=conflict.reason)

    def conflict(self) -> Conflict:
        """Return the conflict."""
        return Conflict(tool_path(self.path), self.memory_id, self.reason)


class StepObject(Answer):
    """Write of an undo or restore."""

    operation: StepName
    memory_id: str
    path: str


class ChangeResult(Answer):
    """Answer to an undo or restore."""

    type: Literal["change_result"] = "change_result"
    steps: list[StepObject]
    left: list[ConflictObject]
    proposed: bool
    dry_run: bool

    @classmethod
    def of(cls, outcome: RestoreOutcome) -> Self:
        """Return the object of an outcome without conflicts."""
        steps = [
            StepObject(operation=_NAMES[each.what], memory_id=each.memory_id, path=api_path(each.path))
            for each in outcome.steps
        ]
        left = list(map(ConflictObject.of, outcome.left))
        return cls(steps=steps, left=left, proposed=outcome.proposed, dry_run=outcome.dry_run)

    def outcome(self) -> RestoreOutcome:
        """Return the outcome. Its steps have no states, and the list of the undone changes is empty."""
        steps = (Step(_STEPS[e.operation], e.memory_id, tool_path(e.path), None, None) for e in self.steps)
        left = tuple(each.conflict() for each in self.left)
        return RestoreOutcome(tuple(steps), (), left, self.dry_run, self.proposed)


class EventObject(Answer):
    """Change that creates no version, such as a redaction. `ids` has at most 100 of the `count` ids."""

    id: str
    type: Literal["memory_store_event"] = "memory_store_event"
    memory_store_id: str
    event: str
    created_at: UtcTime
    created_by: ActorObject
    ids: list[str]
    count: Count

    @classmethod
    def of(cls, given: StoreEvent, store_id: str) -> Self:
        """Return the object of an event."""
        return cls(
            id=given.id,
            memory_store_id=store_id,
            event=given.type,
            created_at=given.at,
            created_by=given.actor,
            ids=list(given.ids),
            count=given.count,
        )

    def store_event(self) -> StoreEvent:
        """Return the event."""
        return StoreEvent(self.id, self.event, self.created_at, self.created_by, tuple(self.ids), self.count)


def change_object(change: Version | StoreEvent, store_id: str) -> VersionObject | EventObject:
    """Return the object of a change."""
    if isinstance(change, Version):
        return VersionObject.of(change, store_id, None)
    return EventObject.of(change, store_id)


class ChangeFeed(Answer):
    """Changes in their order."""

    data: list[Annotated[VersionObject | EventObject, Field(discriminator="type")]]
    next: str
    newest: str
    has_gap: bool


class BlameLineObject(Answer):
    """Line of a memory, with the version that added it."""

    line: Count
    text: str
    memory_version_id: str
    created_at: UtcTime
    created_by: ActorObject
    source: str | None
    session: str | None


class BlameObject(Answer):
    """Lines of a memory."""

    type: Literal["memory_blame"] = "memory_blame"
    memory_id: str
    path: str
    lines: list[BlameLineObject]

    @classmethod
    def of(cls, memory_id: str, path: str, lines: Iterable[BlameLine]) -> Self:
        """Return the object of the lines of a memory."""
        shown = [
            BlameLineObject(
                line=each.number,
                text=each.text,
                memory_version_id=each.version.id,
                created_at=each.version.created_at,
                created_by=each.version.actor,
                source=each.version.provenance.source or None,
                session=each.version.provenance.session or None,
            )
            for each in lines
        ]
        return cls(memory_id=memory_id, path=api_path(path), lines=shown)
