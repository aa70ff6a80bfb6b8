"""Operations of the history: restore and undo."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain, islice
from typing import Any, get_args

from retentive.engine.guard import Guard
from retentive.engine.operation import Outcome, Plan, Write
from retentive.engine.proposing import is_under_review
from retentive.errors import InvalidInput, NotFound, ReadOnly
from retentive.history.log import LogFilter
from retentive.history.past import Past, check_kept
from retentive.history.plan import (
    Conflict,
    Mode,
    RestoreOutcome,
    Targeted,
    carried_out,
    in_the_way,
    known_paths,
    possible,
    present_state,
    restored,
    state_after,
    state_of,
    steps,
    undone,
)
from retentive.history.revisions import Number, Revision, check_zone, moment, named_change
from retentive.history.versions import Predecessors, grouped, versions_in
from retentive.storage.contract import Snapshot, Version
from retentive.storage.lookup import locate
from retentive.storage.paging import all_versions
from retentive.values.paths import MemoryPath
from retentive.values.records import Recorded
from retentive.values.text import decoded

_EXAMINED = 10_000  # number of versions that `Undo.may_match` examines


class PlannedOperation(Write[RestoreOutcome]):
    """Restore or undo. It first plans the target state of each affected memory, and then the changes to get there."""

    __slots__ = ()
    name: str
    needs_external_edits = True
    for_paths = True
    mode: Mode

    def __post_init__(self) -> None:
        """Raise `InvalidInput` for an unknown mode."""
        if self.mode not in get_args(Mode):
            raise InvalidInput(f"the mode must be one of {', '.join(get_args(Mode))}")

    @abstractmethod
    def plan(self, found: Snapshot) -> Targeted:
        """Return the target state of each affected memory. Raises `NotFound`."""

    @abstractmethod
    def cause(self, found: Snapshot, outcome: RestoreOutcome) -> str:
        """Return the description that the log shows for the operation, such as `undo of r3`."""

    def decided(self, found: Snapshot) -> RestoreOutcome:
        """Return the steps and the conflicts of the plan."""
        made = self.plan(found)
        todo = steps(found, made.targets)
        if self.mode == "partial":
            todo, stuck = possible(found, todo)
            rest = (*made.conflicts, *stuck)
            conflicts, left = ((), rest) if todo else (rest, ())
            return RestoreOutcome(tuple(todo), conflicts, left, undone=made.undone)
        blocking = in_the_way(found, todo)
        if self.mode == "force" and (todo or not made.conflicts):
            todo = steps(found, {**made.targets, **dict.fromkeys(blocking)})
            return RestoreOutcome(tuple(todo), left=made.conflicts, undone=made.undone)
        return RestoreOutcome(tuple(todo), (*made.conflicts, *blocking.values()), undone=made.undone)

    def decide(self, view: Snapshot, guard: Guard) -> Plan[RestoreOutcome]:
        """Return the changes that the plan needs. If the plan has conflicts, nothing is changed."""
        outcome = self.decided(view)
        if outcome.conflicts:
            return Plan(outcome)
        part = "partial " if self.mode == "partial" and outcome.left else ""
        guard.cause = f"{part}{self.cause(view, outcome)}"
        changes, altered = carried_out(view, guard, outcome.steps)
        proposed = bool(changes) and is_under_review(guard.settings, guard.actor)
        return Plan(replace(outcome, left=(*outcome.left, *altered), proposed=proposed), changes)

    def facts_to_keep(self, outcome: Outcome[Any], after: Snapshot) -> Mapping[str, object] | None:
        """Return the revision of the change, and the memories that still differ from the requested state.

        Return None if nothing was changed or if the changes wait for review. In these cases, a repeated request runs
        again, and changes nothing.
        """
        result = outcome.value()
        if result.conflicts or result.proposed or not result.steps:
            return None
        reasons = [[each.memory_id, "" if "/" in each.reason else each.reason] for each in result.left]
        return {"revision": after.state.revision, "left": reasons}

    def result_from(self, facts: Mapping[str, Any], recorded: Sequence[Recorded], view: Snapshot) -> RestoreOutcome:
        """Rebuild the result of the first run from the versions that the first run wrote."""
        versions = named_change(view, Revision(Number(facts["revision"])))
        past = Past(view, min(version.id for version in versions))
        newest = {version.memory_id: version for version in reversed(versions)}
        made = steps(past, {key: state_after(version) for key, version in newest.items()})
        left = [
            Conflict(
                next(iter(known_paths(view, memory_id)), ""),
                memory_id,
                reason or "the memory differs from the requested state",
            )
            for memory_id, reason in facts["left"]
        ]
        return RestoreOutcome(tuple(made), left=tuple(left))


@dataclass(frozen=True, slots=True)
class Restore(PlannedOperation):
    """Restore a memory, a directory or the whole store to the state at `to`."""

    name = "restore"
    path: MemoryPath
    to: Revision
    mode: Mode = "refuse"

    def plan(self, found: Snapshot) -> Targeted:
        """Return the target state of each affected memory. Raises `NotFound` if no memory was there at that time."""
        target = self.path
        then_at = moment(found, self.to, target)
        before = then_at.bound
        entry = None if target.is_root else locate(found, target.text)
        if entry is not None and entry.memory is not None:  # a memory that exists gets its earlier text
            then = next(found.versions(memory_id=entry.memory.id, before=before, limit=1), None)
            if then is not None and then.operation != "deleted":
                if then.redacted_at is not None:
                    raise NotFound(f"the version of {target.text} at that time was redacted")
                return Targeted({entry.memory.id: replace(state_of(then), path=target.text)})
        if then_at.version is not None and (kept := _kept_at(found, target, then_at.version, before)) is not None:
            return Targeted({kept.memory_id: state_of(kept)})  # works even if versions of other memories were pruned
        check_kept(found, then_at)
        if entry is not None:
            was = Past(found, before).get(target.text).memory
            if was is not None:
                return Targeted({was.id: present_state(was)})
        made = restored(found, before, target.text)
        is_known = made.targets or made.conflicts or target.is_root
        if not is_known and next(found.list_at(before, target.text, limit=1), None) is None:
            raise NotFound(f"no memory was at or below {target.written} at that time")
        return made

    def cause(self, found: Snapshot, outcome: RestoreOutcome) -> str:
        """Return a description with the revision or time of the restored state."""
        to = moment(found, self.to, self.path)
        return f"restore to {to.at.isoformat(timespec='seconds') if to.version is None else f'r{to.version.revision}'}"


def _down_to(found: Snapshot, memory_id: str, first: str) -> list[Version]:
    """Return the newest versions of a memory, newest first, as far back as an undo needs them.

    The result includes the version that precedes `first`, and a version whose path is known, if such versions exist.
    Most undos reverse new changes, so few versions are read.
    """
    versions: list[Version] = []
    for version in all_versions(found, memory_id=memory_id):
        versions.append(version)
        if version.id < first and any(each.path for each in versions):
            break
    return versions


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
        """Raise `InvalidInput` if the fields do not select the changes to reverse, or if `change` is a time.

        The valid combinations are `change` alone, `by` alone, `session` alone, `by` with `session`, and `own` alone.
        `own` may also be added to each of the other combinations.
        """
        PlannedOperation.__post_init__(self)
        who = self.by or self.session
        named = (self.change, who, None if self.change or who else self.own)
        if sum(each is not None for each in named) != 1:
            raise InvalidInput("specify what to undo: one change, or all changes of an actor or session")
        if self.change is not None and self.change.is_time:
            raise InvalidInput(f"{self.change.text} is a time; specify a change instead, such as r1234 or HEAD")
        check_zone(self.since)

    def plan(self, found: Snapshot) -> Targeted:
        """Return the target state of each affected memory. Raises `NotFound` for an unknown change."""
        chosen = self._chosen(found)
        if not chosen:
            raise NotFound("no matching change was found; nothing was undone")
        other = next((version for version in chosen if self.own not in {None, str(version.actor)}), None)
        if other is not None:
            raise ReadOnly(f"r{other.revision} is a change by {other.actor or 'another actor'}, not by {self.own}")
        oldest = {version.memory_id: version.id for version in chosen}  # `chosen` is newest first
        history = {memory: _down_to(found, memory, first) for memory, first in oldest.items()}
        ids = frozenset(version.id for version in chosen)
        made = undone(history, ids, self.mode, lambda version: decoded(found.version(version)[1]))
        known = Predecessors(found)
        list(known.watch(chain.from_iterable(history.values())))
        return replace(made, undone=tuple(grouped(chosen, known)))

    def may_match(self, found: Snapshot) -> bool:
        """Return False if no change matches. Unlike `plan`, this reads few versions.

        For an actor or a session, only the newest versions are examined. If none of them matches and there are older
        versions, the result is True. Raises `NotFound` for an unknown change.
        """
        if self.change is not None:
            return moment(found, self.change, self.path).version is not None
        if not (self.by or self.session):
            return True
        versions = all_versions(found)
        examined = islice(versions, _EXAMINED)
        return any(True for _ in self._filter.chosen(examined)) or next(versions, None) is not None

    @property
    def _filter(self) -> LogFilter:
        return LogFilter(self.by, self.since, session=self.session)

    def _chosen(self, found: Snapshot) -> list[Version]:
        """Return the versions to reverse. Raises `NotFound` for an unknown change."""
        if self.change is not None:
            return named_change(found, self.change, self.path)
        if self.by is not None or self.session is not None:
            return list(self._filter.chosen(all_versions(found)))
        newest = next((each for each in versions_in(found, self.path) if str(each.actor) == self.own), None)
        if newest is None:
            raise NotFound(f"there is no change by {self.own} to undo")
        return named_change(found, Revision(Number(newest.revision)))

    def cause(self, found: Snapshot, outcome: RestoreOutcome) -> str:
        """Return a description with the numbers of the reversed changes."""
        newest, oldest = outcome.undone[0], outcome.undone[-1]
        if len(outcome.undone) == 1:
            return f"undo of {newest.id}"
        return f"undo of {len(outcome.undone)} changes, {oldest.id} to {newest.id}"


def _kept_at(found: Snapshot, target: MemoryPath, version: Version, before: str) -> Version | None:
    """Find the memory to which `version` belongs, and return its newest version with an id below `before`.

    Return None if there is no such version, if it is a deletion, or if its path is not `target`.
    """
    then = next(found.versions(memory_id=version.memory_id, before=before, limit=1), None)
    is_there = then is not None and then.path == target.text and then.operation != "deleted"
    return then if is_there else None
