"""Operations of the history: log, blame, texts of the past, restore and undo."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any, TypeVar, get_args

from retentive.engine.operation import ReadOperation, WriteOperation
from retentive.engine.writer import GuardedWriter
from retentive.errors import InvalidInput, NotFound
from retentive.history.apply import RestoreOutcome, carry_out, clashing, in_the_way, steps
from retentive.history.past import PastSnapshot, check_kept, check_zone, moment, versions_of
from retentive.history.plan import Mode, Plan, State, restored, undone
from retentive.review.proposals import is_under_review
from retentive.storage.contract import Operation, Snapshot, Transaction, Version
from retentive.storage.paging import all_versions
from retentive.values.paths import MemoryPath
from retentive.values.patterns import check_actor_pattern, matches_actor
from retentive.values.settings import Settings
from retentive.values.text import decoded

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Log(ReadOperation[list[Version]]):
    """List versions, newest first: of the store, of one memory across renames, or of all memories below a directory."""

    name = "log"
    needs_external_edits = True
    path: MemoryPath | None = None
    memory_id: str | None = None
    actor: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    operation: Operation | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        """Raise `InvalidInput` for invalid filters."""
        if self.actor is not None:
            check_actor_pattern(self.actor)
        if self.limit is not None and self.limit < 0:
            raise InvalidInput("the limit must be a whole number from 0")
        if self.operation is not None and self.operation not in get_args(Operation):
            raise InvalidInput(f"the operation must be one of {', '.join(get_args(Operation))}")
        for time in (self.since, self.until):
            check_zone(time)

    def paths(self) -> tuple[str, ...]:
        """The path, if one was given."""
        return () if self.path is None else (self.path.text,)

    def apply(self, snapshot: Snapshot, settings: Settings) -> list[Version]:
        """Read the versions."""
        chosen = versions_of(snapshot, self.path, self.memory_id)
        if self.since is not None:
            chosen = _while_since(chosen, self.since)
        return list(islice(filter(self._fits, chosen), self.limit))

    def _fits(self, version: Version) -> bool:
        actor = "" if version.actor is None else str(version.actor)
        return (
            (self.operation is None or version.operation == self.operation)
            and (self.until is None or version.created_at <= self.until)
            and (self.actor is None or matches_actor(self.actor, actor))
        )


@dataclass(frozen=True, slots=True)
class TextAt(ReadOperation[tuple[Version, str]]):
    """Read the memory that was at a path at a moment, and its text. Raises `NotFound`."""

    name = "text_at"
    path: MemoryPath
    at: datetime | str

    def paths(self) -> tuple[str, ...]:
        """Path of the memory."""
        return (self.path.text,)

    def facts(self, result: Any) -> Mapping[str, object]:
        """Ids of the memory and the version read."""
        return {"read": [result[0].memory_id, result[0].id]}

    def apply(self, snapshot: Snapshot, settings: Settings) -> tuple[Version, str]:
        """Read the version."""
        memory = past_of(snapshot, self.at).get(self.path.text).memory
        if memory is None:
            raise NotFound(f"there was no memory at {self.path.written}")
        version, data = snapshot.version(memory.version_id)
        return version, decoded(data)


@dataclass(frozen=True, slots=True)
class Lineage(ReadOperation[list[tuple[Version, str]]]):
    """Read all versions of the memory at a path with their texts, oldest first, for blame. Raises `NotFound`."""

    name = "blame"
    path: MemoryPath

    def paths(self) -> tuple[str, ...]:
        """Path of the memory."""
        return (self.path.text,)

    def apply(self, snapshot: Snapshot, settings: Settings) -> list[tuple[Version, str]]:
        """Read the versions."""
        memory = snapshot.get(self.path.text).memory
        if memory is None:
            raise NotFound(f"there is no memory at {self.path.written}")
        versions = reversed(list(snapshot.versions(memory_id=memory.id)))
        texts = ((version, snapshot.text(version.id)) for version in versions)
        return [(version, decoded(data)) for version, data in texts if data is not None]


@dataclass(frozen=True, slots=True)
class Restore(WriteOperation[RestoreOutcome]):
    """Restore a memory, a directory or the whole store to a moment."""

    name = "restore"
    needs_external_edits = True
    path: MemoryPath
    to: datetime | str
    mode: Mode = "refuse"

    def __post_init__(self) -> None:
        """Raise `InvalidInput` for an unknown mode."""
        _check_mode(self.mode)

    def paths(self) -> tuple[str, ...]:
        """Path to restore."""
        return (self.path.text,)

    def apply(self, tx: Transaction, writer: GuardedWriter) -> RestoreOutcome:
        """Apply the plan; with conflicts, change nothing."""
        return _carried_out(tx, writer, self.plan(tx), self.mode)

    def plan(self, found: Snapshot) -> Plan:
        """The target state of each memory concerned. Raises `NotFound` if nothing was there at that moment."""
        target, to = self.path, self.to
        before = moment(found, to)
        entry = None if target.is_root else found.get(target.text)
        if entry is not None and entry.memory is not None:
            then = next(found.versions(memory_id=entry.memory.id, before=before, limit=1), None)
            if then is not None and then.operation != "deleted":
                return _one(then, target.text, entry.memory.id)
        check_kept(found, to)
        if entry is not None:
            was = PastSnapshot(found, before).get(target.text).memory
            if was is not None:
                return Plan({was.id: State(was.path, was.version_id, was.sha256, was.size_bytes)})
        known = partial(_known_paths, found)
        made = restored(found.as_of(before), found.memories(target.text), target.text, known)
        if not made.targets and not made.conflicts and not target.is_root:
            raise NotFound(f"there was nothing at {target.written} then")
        return made


@dataclass(frozen=True, slots=True)
class Undo(WriteOperation[RestoreOutcome]):
    """Reverse one change (by the id of one of its versions), or all changes of an actor."""

    name = "undo"
    needs_external_edits = True
    change: str | None = None
    by: str | None = None
    since: datetime | None = None
    mode: Mode = "refuse"

    def __post_init__(self) -> None:
        """Raise `InvalidInput` unless exactly one of `change` and `by` is given."""
        _check_mode(self.mode)
        if (self.change is None) == (self.by is None):
            raise InvalidInput("specify either the change to undo or its actor")
        check_zone(self.since)

    def apply(self, tx: Transaction, writer: GuardedWriter) -> RestoreOutcome:
        """Apply the plan; with conflicts, change nothing."""
        return _carried_out(tx, writer, self.plan(tx), self.mode)

    def plan(self, found: Snapshot) -> Plan:
        """The target state of each memory concerned. Raises `NotFound` for an unknown change."""
        change = self.change
        chosen = _of_change(found, change) if change is not None else _by(found, str(self.by), self.since)
        if not chosen:
            raise NotFound("there is no such change")
        memories = dict.fromkeys(version.memory_id for version in chosen)
        history = {memory: list(found.versions(memory_id=memory)) for memory in memories}
        ids = frozenset(version.id for version in chosen)
        return undone(history, ids, self.mode, lambda version: decoded(found.text(version)))


@dataclass(frozen=True, slots=True)
class Preview(ReadOperation[RestoreOutcome]):
    """Preview a restore or undo."""

    intent: Restore | Undo
    needs_external_edits = True

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name of the operation, marked as a preview."""
        return f"{self.intent.name}.preview"

    def paths(self) -> tuple[str, ...]:
        """Paths of the operation."""
        return self.intent.paths()

    def apply(self, snapshot: Snapshot, settings: Settings) -> RestoreOutcome:
        """Plan the operation without changing anything."""
        return replace(_decided(snapshot, self.intent.plan(snapshot), self.intent.mode), dry_run=True)


@dataclass(frozen=True, slots=True)
class AsOf(ReadOperation[R]):
    """Run another read on the store at a moment."""

    inner: ReadOperation[R]
    at: datetime | str

    @property
    def name(self) -> str:  # type: ignore[override]
        """Name of the other read, marked as a read of the past."""
        return f"{self.inner.name}.as_of"

    def paths(self) -> tuple[str, ...]:
        """Paths of the other read."""
        return self.inner.paths()

    def facts(self, result: Any) -> Mapping[str, object]:
        """Facts of the other read."""
        return self.inner.facts(result)

    def apply(self, snapshot: Snapshot, settings: Settings) -> R:
        """Run the other read on a past snapshot."""
        return self.inner.apply(past_of(snapshot, self.at), settings)


def past_of(found: Snapshot, at: datetime | str) -> PastSnapshot:
    """The store at a moment, as a view of a present snapshot. Raises `InvalidInput` if its versions were pruned."""
    before = moment(found, at)
    check_kept(found, at)
    return PastSnapshot(found, before)


def _check_mode(mode: Mode) -> None:
    if mode not in get_args(Mode):
        raise InvalidInput(f"the mode must be one of {', '.join(get_args(Mode))}")


def _decided(found: Snapshot, made: Plan, mode: Mode) -> RestoreOutcome:
    """The steps of a plan, and the conflicts."""
    todo = steps(found, made.targets)
    blocking, clashes = in_the_way(found, todo), clashing(todo)
    if mode == "force" and (todo or not made.conflicts):
        todo = steps(found, {**made.targets, **dict.fromkeys((*blocking, *clashes))})
        return RestoreOutcome(tuple(todo), left=made.conflicts)
    others = (*(conflict for _, conflict in blocking.values()), *clashes.values())
    return RestoreOutcome(tuple(todo), (*made.conflicts, *others))


def _carried_out(tx: Transaction, writer: GuardedWriter, made: Plan, mode: Mode) -> RestoreOutcome:
    outcome = _decided(tx, made, mode)
    if outcome.conflicts:
        return outcome
    altered = carry_out(tx, writer, outcome.steps, partial(_text_of, tx))
    proposed = bool(writer.recorded) and is_under_review(writer.settings, writer.actor)
    return replace(outcome, left=(*outcome.left, *altered), proposed=proposed)


def _text_of(found: Snapshot, state: State) -> str:
    return decoded(found.text(state.version_id)) if state.text is None else state.text


def _known_paths(found: Snapshot, memory_id: str) -> list[str]:
    """All known paths of a memory, newest first; redacted paths are left out."""
    return [version.path for version in found.versions(memory_id=memory_id) if version.path]


def _one(version: Version, path: str, memory_id: str) -> Plan:
    """The plan for a memory that exists: restore its earlier text."""
    if version.redacted_at is not None:
        raise NotFound(f"what the memory at {path} was then was redacted")
    return Plan({memory_id: State(path, version.id, version.sha256 or "", version.size_bytes or 0)})


def _while_since(versions: Iterator[Version], since: datetime) -> Iterator[Version]:
    for version in versions:
        if version.created_at < since:
            return
        yield version


def _by(found: Snapshot, actor: str, since: datetime | None) -> list[Version]:
    check_actor_pattern(actor)
    versions = all_versions(found)
    return [
        version
        for version in (versions if since is None else _while_since(versions, since))
        if matches_actor(actor, "" if version.actor is None else str(version.actor))
    ]


def _of_change(found: Snapshot, version_id: str) -> list[Version]:
    """All versions of the change that made this one: they share its revision.

    An external edit that a command detected has the same revision but another actor, so it is a change of its own.
    """
    version, _ = found.version(version_id)
    return [other for other in found.versions(revision_of=version_id) if other.actor == version.actor]
