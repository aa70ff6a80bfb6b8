"""Operations of the history: restore and undo."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import takewhile, zip_longest
from typing import Any

from retentive.engine.guard import Guard
from retentive.engine.operation import Outcome, Plan, WriteOperation
from retentive.engine.pending import is_under_review
from retentive.errors import InvalidInput, NotFound, ReadOnly
from retentive.history.log import LogFilter
from retentive.history.past import Past, check_kept
from retentive.history.plan import (
    Clash,
    Conflict,
    Mode,
    RestoreOutcome,
    State,
    Wanted,
    applied,
    check_mode,
    combined,
    planned,
    state_after,
    steps,
    text_of,
)
from retentive.history.revisions import Moment, Revision, check_zone, moment, named_change
from retentive.history.versions import grouped, versions_in
from retentive.storage.contract import Snapshot, Version
from retentive.storage.lookup import locate
from retentive.storage.paging import all_versions
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.records import Recorded

_REDACTED = "the version that the memory had at that time was redacted"


class PlannedOperation(WriteOperation[RestoreOutcome]):
    """Restore or undo. It first plans the wanted state of each affected memory, and then the changes to get there."""

    __slots__ = ()
    name: str
    needs_external_edits = True
    for_paths = True
    mode: Mode

    def __post_init__(self) -> None:
        check_mode(self.mode)

    @abstractmethod
    def plan(self, found: Snapshot) -> tuple[RestoreOutcome, str]:
        """Return the steps and the conflicts, and the cause that the log shows, such as `undo of r3`.

        Raises `NotFound` and `ReadOnly`.
        """

    def decide(self, view: Snapshot, guard: Guard) -> Plan[RestoreOutcome]:
        outcome, cause = self.plan(view)
        if outcome.conflicts:
            return Plan(outcome)
        guard.cause = f"partial {cause}" if self.mode == "partial" and outcome.left else cause
        changes, altered = applied(view, guard, outcome.steps)
        proposed = bool(changes) and is_under_review(guard.settings, guard.actor)
        return Plan(replace(outcome, left=(*outcome.left, *altered), proposed=proposed), changes)

    def facts_to_keep(self, outcome: Outcome[Any], after: Snapshot) -> Mapping[str, object] | None:
        result = outcome.value()
        if result.conflicts or result.proposed or not result.steps:
            return None  # a repeated request runs again, and changes nothing
        reasons = [[each.memory_id, "" if "/" in each.reason else each.reason] for each in result.left]
        return {"revision": after.state.revision, "left": reasons}

    def result_from(self, facts: Mapping[str, Any], recorded: Sequence[Recorded], view: Snapshot) -> RestoreOutcome:
        versions = named_change(view, Revision(facts["revision"]))
        past = Past(view, min(version.id for version in versions))
        newest = {version.memory_id: state_after(version) for version in reversed(versions)}
        left = [
            Conflict(_last_path(view, memory_id), memory_id, reason or "the memory differs from the requested state")
            for memory_id, reason in facts["left"]
        ]
        return RestoreOutcome(tuple(steps(past, newest)), left=tuple(left))


def _last_path(found: Snapshot, memory_id: str, under: str = "") -> str:
    """Return the last known path of a memory (below `under`), or "". Paths in redacted versions are unknown."""
    paths = (version.path for version in found.versions(memory_id=memory_id))
    return next((path for path in paths if path and path.startswith(under)), "")


@dataclass(frozen=True, slots=True)
class Restore(PlannedOperation):
    """Restore a memory, a directory or the whole store to the state at `to`."""

    name = "restore"
    path: MemoryPath
    to: Revision
    mode: Mode = "refuse"

    def plan(self, found: Snapshot) -> tuple[RestoreOutcome, str]:
        conflicts: list[Conflict] = []
        then = moment(found, self.to, self.path)
        outcome = planned(found, self._wanted(found, then, conflicts), conflicts, self.mode)
        at = then.at.isoformat(timespec="seconds") if then.version is None else f"r{then.version.revision}"
        return outcome, f"restore to {at}"

    def _wanted(self, found: Snapshot, then: Moment, conflicts: list[Conflict]) -> Wanted:
        target = self.path
        memory = None if target.is_root else locate(found, target.text).memory
        if memory is not None:  # a memory that exists gets its earlier text
            was = next(found.versions(memory_id=memory.id, before=then.bound, limit=1), None)
            if was is not None and was.operation != "deleted":
                if was.redacted_at is not None:
                    raise NotFound(f"the version of {target.text} at that time was redacted")
                return {memory.id: replace(State.of(was), path=target.text)}
        if then.version is not None:  # works even if versions of other memories were pruned
            was = next(found.versions(memory_id=then.version.memory_id, before=then.bound, limit=1), None)
            if was is not None and was.path == target.text and was.operation != "deleted":
                return {was.memory_id: State.of(was)}
        check_kept(found, then)
        if not target.is_root:
            memory = Past(found, then.bound).get(target.text).memory
            if memory is not None:
                return {memory.id: State.of(memory)}
        wanted = _directory(found, then.bound, target.text, conflicts)
        is_known = wanted or conflicts or target.is_root
        if not is_known and next(found.list_at(then.bound, target.text, limit=1), None) is None:
            raise NotFound(f"no memory was at or below {target.written} at that time")
        return wanted


def _directory(found: Snapshot, before: str, path: str, conflicts: list[Conflict]) -> Wanted:
    """Return the states that memories at or below `path` had before the version id `before`.

    Newer memories are deleted. Memories that were moved into the directory return to their earlier path. Redacted
    memories cannot be restored, and become conflicts.
    """
    wanted: dict[str, State | None] = {each.memory_id: State.of(each) for each in found.list_at(before, path)}
    present = {memory.id: memory for memory, _ in found.list(path)}
    since = takewhile(lambda each: each.id >= before, all_versions(found))
    gone = {each.memory_id for each in since if each.operation == "deleted"}
    for memory_id in sorted((present.keys() | gone) - wanted.keys()):
        memory, was = present.get(memory_id), next(found.versions(memory_id=memory_id, before=before, limit=1), None)
        if was is not None and was.redacted_at is not None and was.operation != "deleted":
            place = _last_path(found, memory_id, f"{path}/") if memory is None else memory.path
            if place or path == ROOT:
                conflicts.append(Conflict(place or ROOT, memory_id, _REDACTED))
        elif memory is not None:
            if was is None or was.operation == "deleted":
                wanted[memory_id] = None
            else:
                wanted[memory_id] = replace(State.of(memory), path=was.path)
    return wanted


@dataclass(frozen=True, slots=True)
class Undo(PlannedOperation):
    """Reverse one change, or all changes of an actor, of a session, or of an actor in a session.

    - `change` is the revision of the change. If `path` is given, the revision refers to the history of this path.
    - `by` is a pattern for the actor, and `session` is a pattern for the session. With `since`, earlier changes are not
      reversed.
    - If `own` is set, the change must be by this actor. If nothing else selects changes, the newest change by this
      actor is reversed.
    """

    name = "undo"
    change: Revision | None = None
    by: str | None = None
    since: datetime | None = None
    mode: Mode = "refuse"
    path: MemoryPath | None = None
    own: str | None = None
    session: str | None = None

    def __post_init__(self) -> None:
        PlannedOperation.__post_init__(self)
        if self.change is not None and self.change.is_time:
            raise InvalidInput(f"{self.change.text} is a time; specify a change instead, such as r1234 or HEAD")
        check_zone(self.since)

    def plan(self, found: Snapshot) -> tuple[RestoreOutcome, str]:
        """Return the steps and the conflicts. Raises `NotFound` for an unknown change, and `ReadOnly`.

        Versions are reversed from newest to oldest. If a later version builds on a reversed one, this is a conflict.
        """
        chosen = self._chosen(found)
        if not chosen:
            raise NotFound("no matching change was found; nothing was undone")
        other = next((version for version in chosen if self.own not in {None, str(version.actor)}), None)
        if other is not None:
            raise ReadOnly(f"r{other.revision} is a change by {other.actor or 'another actor'}, not by {self.own}")
        ids = {version.id for version in chosen}
        wanted: dict[str, State | None] = {}
        conflicts: list[Conflict] = []
        for memory_id, oldest in {version.memory_id: version.id for version in chosen}.items():  # newest first
            versions: list[Version] = []
            for version in all_versions(found, memory_id=memory_id):  # down to the one before, and to a known path
                versions.append(version)
                if version.id < oldest and any(each.path for each in versions):
                    break
            try:
                wanted[memory_id] = self._reversed(found, versions, ids)
            except Clash as clash:
                path = next((version.path for version in versions if version.path), "")
                conflicts.append(Conflict(path, memory_id, str(clash)))
        undone = tuple(grouped(found, chosen))
        what = undone[0].id if len(undone) == 1 else f"{len(undone)} changes, {undone[-1].id} to {undone[0].id}"
        return replace(planned(found, wanted, conflicts, self.mode), undone=undone), f"undo of {what}"

    def _reversed(self, found: Snapshot, versions: Sequence[Version], chosen: set[str]) -> State | None:
        """Return the state of a memory without the chosen ones of its versions, newest first. Raises `Clash`."""
        state = state_after(versions[0])
        for version, older in zip_longest(versions, versions[1:]):
            if version.id not in chosen:
                continue
            if older is None and version.operation != "created":
                raise Clash("the previous version was pruned")
            if older is not None and older.redacted_at is not None and older.operation != "deleted":
                raise Clash("the previous version was redacted")
            if version.redacted_at is not None:
                raise Clash("the version to undo was redacted")
            before = None if older is None else state_after(older)
            state = combined(state_after(version), state, before, self.mode, partial(text_of, found))
        return state

    def _chosen(self, found: Snapshot) -> list[Version]:
        """Return the versions to reverse, newest first. Raises `NotFound` for an unknown change."""
        if self.change is not None:
            return named_change(found, self.change, self.path)
        if self.by is not None or self.session is not None:
            return list(LogFilter(self.by, self.since, session=self.session).chosen(all_versions(found)))
        newest = next((each for each in versions_in(found, self.path) if str(each.actor) == self.own), None)
        if newest is None:
            raise NotFound(f"there is no change by {self.own} to undo")
        return named_change(found, Revision(newest.revision))
