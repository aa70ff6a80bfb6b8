"""The history: differences, undo, restore, changes and blame."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from retentive.engine.lists import StoreEvent
from retentive.history.log import BlameLine
from retentive.history.plan import Conflict, Mode, RestoreOutcome, Step, What
from retentive.values.records import Version
from retentive.wire.actors import ActorObject
from retentive.wire.base import (
    Answer,
    AnyPath,
    Count,
    Moment,
    ObjectOf,
    ShownPath,
    Sourced,
    Time,
    UtcTime,
)
from retentive.wire.versions import VersionObject

_NAMES: dict[What, str] = {"made": "created", "changed": "modified", "moved": "renamed", "deleted": "deleted"}
_STEPS = {name: what for what, name in _NAMES.items()}
StepName = Annotated[
    What,
    BeforeValidator(lambda name, info: _STEPS[name] if info.mode == "json" else name),
    PlainSerializer(_NAMES.__getitem__, return_type=str),
    WithJsonSchema({"type": "string", "enum": list(_STEPS)}),
]


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


class ConflictObject(ObjectOf[Conflict]):
    """Memory that differs from what was asked, and why."""

    path: ShownPath
    memory_id: str
    reason: str


class StepObject(ObjectOf[Step]):
    """Write of an undo or restore."""

    operation: StepName
    memory_id: str
    path: ShownPath
    attributes: ClassVar = {"operation": "what"}

    def value(self, **_: object) -> Step:
        """Return the step, without its states."""
        return super().value(before=None, state=None)


class ChangeResult(ObjectOf[RestoreOutcome]):
    """Answer to an undo or restore."""

    type: Literal["change_result"] = "change_result"
    steps: list[StepObject]
    left: list[ConflictObject]
    proposed: bool
    dry_run: bool


class EventObject(ObjectOf[StoreEvent]):
    """Change that creates no version, such as a redaction. `ids` has at most 100 of the `count` ids."""

    id: str
    type: Literal["memory_store_event"] = "memory_store_event"
    memory_store_id: str
    event: str
    created_at: UtcTime
    created_by: ActorObject
    ids: list[str]
    count: Count

    attributes: ClassVar = {"event": "type", "created_at": "at", "created_by": "actor"}


def change_object(change: Version | StoreEvent, store_id: str) -> VersionObject | EventObject:
    """Return the object of a change."""
    if isinstance(change, Version):
        return VersionObject.of(change, memory_store_id=store_id, content=None)
    return EventObject.of(change, memory_store_id=store_id)


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
    path: ShownPath
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
        return cls(memory_id=memory_id, path=path, lines=shown)
