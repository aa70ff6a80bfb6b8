"""Plan, conflicts, apply: how a restore or an undo brings memories to earlier states.

A plan has a target for each memory: the state that it must get, or None if it must be deleted. The plan becomes steps,
and the steps become changes that the guard allows. A conflict is the reason why a memory cannot be changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal, TypeAlias

from retentive.engine.guard import Guard, Guarded
from retentive.engine.pending import Pending
from retentive.engine.visibility import Filtered
from retentive.errors import InvalidInput, Refused
from retentive.history.removal import ERASING
from retentive.history.versions import LoggedChange, changed_between
from retentive.storage.contract import Change, Entry, Memory, Snapshot, Version
from retentive.storage.lookup import locate
from retentive.storage.paging import memories_by_id
from retentive.values import diff
from retentive.values.paths import ROOT, MemoryPath, ancestors
from retentive.values.records import Again
from retentive.values.text import decoded

Mode: TypeAlias = Literal["refuse", "merge", "force", "partial"]
_REDACTED = "the version that the memory had at that time was redacted"


@dataclass(frozen=True, slots=True)
class State:
    """Target state of a memory. If `text` is None, the memory gets the text of the version."""

    path: str
    version_id: str
    sha256: str
    size_bytes: int
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Conflict:
    """Reason why a memory cannot be restored, or why a change to it cannot be undone."""

    path: str
    memory_id: str
    reason: str


Targets: TypeAlias = Mapping[str, State | None]


@dataclass(frozen=True, slots=True)
class Targeted:
    """Target states of a restore or undo. `targets` has a target for each memory id.

    `undone` lists the changes that an undo reverts, newest first.
    """

    targets: Targets
    conflicts: tuple[Conflict, ...] = ()
    undone: tuple[LoggedChange, ...] = ()


def restored(found: Snapshot, before: str, path: str) -> Targeted:
    """Return the plan that restores the directory at `path` to the state before the version id `before`.

    Newer memories are deleted. Memories that were moved into the directory return to their earlier path. Redacted
    memories cannot be restored.
    """
    below = path + "/"
    targets: dict[str, State | None] = {}
    conflicts: list[Conflict] = []
    for memory_id, (then, _) in changed_between(found, before).items():
        memory = found.find(memory_id)
        if memory is not None and not memory.path.startswith(below):
            memory = None
        if then is not None and then.path.startswith(below):
            targets[memory_id] = state_of(then)
        elif then is not None and not then.path:
            paths = [memory.path] if memory is not None else known_paths(found, memory_id)
            place = next((each for each in paths if each.startswith(below)), ROOT if path == ROOT else None)
            if place is not None:
                conflicts.append(Conflict(place, memory_id, _REDACTED))
        elif memory is not None:
            targets[memory_id] = None if then is None else replace(present_state(memory), path=then.path)
    if isinstance(found, Filtered):  # a memory may have been moved to where the caller sees no version of it
        for version in found.list_at(before, path):
            if version.memory_id not in targets and found.find(version.memory_id) is None:
                targets[version.memory_id] = state_of(version)
    return Targeted(targets, tuple(conflicts))


def undone(
    history: Mapping[str, Sequence[Version]],
    chosen: frozenset[str],
    mode: Mode,
    text: Callable[[str], str],
) -> Targeted:
    """Return the plan that undoes the versions in `chosen`. `history` has versions by memory id, newest first.

    Versions are reversed from newest to oldest. If a later version builds on a reversed one, this is a conflict. With
    the modes `merge` and `partial`, the texts are merged by line instead. With the mode `force`, later versions are
    reversed too.
    `text` is a function that returns the text of a version.
    """
    targets: dict[str, State | None] = {}
    conflicts: list[Conflict] = []
    for memory_id, versions in history.items():
        outcome = _Undoing(memory_id, versions, mode, text).run(chosen)
        if isinstance(outcome, Conflict):
            conflicts.append(outcome)
        else:
            targets[memory_id] = outcome
    return Targeted(targets, tuple(conflicts))


class _Stop(Exception):
    """Raised to stop the undo of a memory at a conflict."""


class _Undoing:
    def __init__(self, memory_id: str, versions: Sequence[Version], mode: Mode, text: Callable[[str], str]) -> None:
        self._memory_id = memory_id
        self._versions = versions
        self._mode = mode
        self._text = text
        self._state = state_after(versions[0])

    def run(self, chosen: frozenset[str]) -> State | Conflict | None:
        try:
            for number, version in enumerate(self._versions):
                if version.id in chosen:
                    self._undo(version, self._before(number))
        except _Stop as stop:
            path = next((version.path for version in self._versions if version.path), "")
            return Conflict(path, self._memory_id, str(stop))
        return self._state

    def _before(self, number: int) -> State | None:
        version = self._versions[number]
        if number + 1 == len(self._versions):
            if version.operation != "created":
                raise _Stop("the previous version was pruned")
            return None
        older = self._versions[number + 1]
        if older.redacted_at is not None and older.operation != "deleted":
            raise _Stop("the previous version was redacted")
        return state_after(older)

    def _undo(self, version: Version, before: State | None) -> None:
        if version.redacted_at is not None:
            raise _Stop("the version to undo was redacted")
        after, now = state_after(version), self._state
        if _same(now, after) or _same(now, before):
            self._state = before if _same(now, after) else now
        elif now is None:
            self._forced("a later change deleted the memory", before)
        elif before is None:
            self._forced("a later change modified the memory", None)
        elif after is None:
            self._forced("a later change recreated the memory", now)
        else:
            self._state = replace(self._with_text(now, before, after), path=self._path(now, before, after))

    def _forced(self, reason: str, state: State | None) -> None:
        if self._mode != "force":
            raise _Stop(reason)
        self._state = state

    def _path(self, now: State, before: State, after: State) -> str:
        if before.path in {after.path, now.path}:
            return now.path
        if now.path == after.path:
            return before.path
        if self._mode == "force":
            return now.path
        raise _Stop("a later change renamed the memory")

    def _with_text(self, now: State, before: State, after: State) -> State:
        if before.sha256 in {after.sha256, now.sha256}:
            return now
        if now.sha256 == after.sha256 or self._mode == "force":
            return replace(before, path=now.path)
        if self._mode == "refuse":
            raise _Stop("a later change modified the text")
        merged = diff.merge(self._text_of(after), self._text_of(now), self._text_of(before))
        if merged.text is None:
            first = merged.conflicts[0]
            raise _Stop(f"a later change modified the same lines (from line {first.ours[0] + 1})")
        return replace(now, text=merged.text, sha256="", size_bytes=len(merged.text.encode()))

    def _text_of(self, state: State) -> str:
        return self._text(state.version_id) if state.text is None else state.text


def state_after(version: Version) -> State | None:
    """Return the state that a version recorded; None for a deletion."""
    return None if version.operation == "deleted" else state_of(version)


def state_of(version: Version) -> State:
    """Return the state that a version recorded. The version must not be a deletion."""
    return State(version.path, version.id, version.sha256 or "", version.size_bytes or 0)


def present_state(memory: Memory) -> State:
    """Return the state of a memory."""
    return State(memory.path, memory.version_id, memory.sha256, memory.size_bytes)


def known_paths(found: Snapshot, memory_id: str) -> list[str]:
    """Return all known paths of a memory, newest first. Paths in redacted versions are unknown."""
    return [version.path for version in found.versions(memory_id=memory_id) if version.path]


def _same(one: State | None, other: State | None) -> bool:
    if one is None or other is None:
        return one is other
    return (one.path, one.sha256, one.text) == (other.path, other.sha256, other.text)


What: TypeAlias = Literal["deleted", "moved", "made", "changed"]
_ALTERED = "a guard removed sensitive values from the restored text"


@dataclass(frozen=True, slots=True)
class Step:
    """One write to one memory.

    `path` is the path of the memory after the write. For a deletion, it is the path before the write.
    """

    what: What
    memory_id: str
    path: str
    before: Memory | None
    state: State | None


@dataclass(frozen=True, slots=True)
class RestoreOutcome:
    """Result of a restore or undo, or of its preview. If there are conflicts, nothing was changed.

    `left` lists the memories that still differ from the requested state. There are three possible reasons: redacted
    content cannot be restored, even with `force`; a guard removed sensitive values from a text; or the mode is
    `partial`, and the memory has a conflict.

    `undone` lists the changes that an undo reverts, newest first.
    """

    steps: tuple[Step, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    left: tuple[Conflict, ...] = ()
    dry_run: bool = False
    proposed: bool = False
    """True if the changes were recorded as a proposal because the actor is under review."""
    undone: tuple[LoggedChange, ...] = ()

    @property
    def done(self) -> bool:
        """True if the store now matches the request."""
        return not (self.conflicts or self.left or self.dry_run or self.proposed)


def steps(found: Snapshot, targets: Targets) -> list[Step]:
    """Return the writes that bring memories to their target states. A memory in its target state needs no write."""
    present = memories_by_id(found, targets.keys())
    made: list[Step] = []
    for memory_id, state in targets.items():
        memory = present.get(memory_id)
        if memory is None and state is not None:
            made.append(Step("made", memory_id, state.path, None, state))
        elif memory is not None and state is None:
            made.append(Step("deleted", memory_id, memory.path, memory, None))
        elif memory is not None and state is not None:
            if memory.path != state.path:
                made.append(Step("moved", memory_id, state.path, memory, state))
            if memory.sha256 != state.sha256:
                made.append(Step("changed", memory_id, state.path, memory, state))
    return sorted(made, key=lambda step: (step.path, step.what))


def in_the_way(found: Snapshot, todo: Sequence[Step]) -> dict[str, Conflict]:
    """Return a conflict for each memory that is in the way of a step. The keys are the ids of these memories.

    A memory blocks the target path of a step, or the targets of two steps are equal or nested. The oldest memory then
    keeps its path.
    """
    leaving = {step.before.path for step in todo if step.before is not None and step.what in {"deleted", "moved"}}
    taken, above, blocking = set[str](), set[str](), dict[str, Conflict]()
    coming = (step for step in todo if step.what in {"made", "moved"})
    for step in sorted(coming, key=lambda step: step.memory_id):
        for memory in _standing(found, step.path):
            if memory.path not in leaving:
                blocking[memory.id] = Conflict(step.path, step.memory_id, f"the memory {memory.path} blocks this path")
        places = ancestors(step.path)
        if step.path in taken or step.path in above or any(one in taken for one in places):
            reason = "another memory is restored at, above or below this path"
            blocking[step.memory_id] = Conflict(step.path, step.memory_id, reason)
        else:
            taken.add(step.path)
            above.update(places)
    return blocking


def possible(found: Snapshot, todo: Sequence[Step]) -> tuple[list[Step], list[Conflict]]:
    """Return the steps that can be made, and the conflicts of the memories whose steps were left out."""
    left: list[Conflict] = []
    while conflicts := in_the_way(found, todo):
        stuck = {each.memory_id: each for each in conflicts.values()}  # without its steps, a memory may be in the way
        left += stuck.values()
        todo = [step for step in todo if step.memory_id not in stuck]
    return list(todo), left


def _standing(found: Snapshot, path: str) -> Iterable[Memory]:
    look = locate(found, path)
    if look.memory is not None:
        yield look.memory
    if look.above is not None:
        above = locate(found, look.above).memory
        if above is not None:
            yield above
    if look.below:
        yield from (memory for memory, _ in found.list(path))


def carried_out(view: Snapshot, guard: Guard, todo: Sequence[Step]) -> tuple[Sequence[Change], list[Conflict]]:
    """Return the changes of the steps, and a conflict for each text that the guard altered.

    Raises `Refused`, and `InvalidInput` for a memory that is being erased.
    """
    erasing = {memory_id for memory_id, _ in view.records(ERASING)}
    if any(step.what == "made" and step.memory_id in erasing for step in todo):
        raise InvalidInput("a memory that is being erased cannot be restored")
    for step in todo:
        for path in {step.path, step.path if step.before is None else step.before.path}:
            guard.check(MemoryPath.known(path))
    after, circling = Pending(view), list[Step]()
    after.add(guard.delete(after, [step.before for step in todo if step.what == "deleted" and step.before is not None]))
    moves = [step for step in todo if step.what == "moved"]
    while moves:  # those first whose target path is free
        going = [step for step in moves if next(iter(_standing(after, step.path)), None) is None]
        if going:
            after.add(guard.move(after, [Change(step.before, step.path) for step in going]))
        else:  # the moves form a cycle: one memory is deleted and made again
            going = moves[:1]
            circling += going
            after.add(guard.delete(after, [step.before for step in going if step.before is not None]))
        gone = {step.memory_id for step in going}
        moves = [step for step in moves if step.memory_id not in gone]
    made_again = {step.memory_id for step in circling}
    changed = [step for step in todo if step.what == "changed" and step.memory_id not in made_again]
    altered = []
    # Texts that shrink are written first, so that no intermediate state exceeds a limit.
    for step in (*sorted(changed, key=_growth), *circling, *(step for step in todo if step.what == "made")):
        guarded = _put(view, after, guard, step)
        after.add(guarded.changes)
        if guarded.altered:
            altered.append(Conflict(step.path, step.memory_id, _ALTERED))
    return after.changes, altered


def _growth(step: Step) -> int:
    return (step.state.size_bytes if step.state else 0) - (step.before.size_bytes if step.before else 0)


def _put(view: Snapshot, after: Pending, guard: Guard, step: Step) -> Guarded:
    state, again, entry = step.state, None, Entry()
    assert state is not None
    if step.what == "changed":
        entry = locate(after, step.path)
    else:
        again = Again(step.memory_id, _born(view, step))
    try:
        version, data = view.version(state.version_id)
        lineage = [version.provenance_text]
        if state.text is not None and entry.memory is not None:  # merged with the current text
            lineage.append(entry.memory.provenance_text)
        text = decoded(data) if state.text is None else state.text
        return guard.put(after, entry, MemoryPath.known(step.path), text, again=again, lineage=lineage)
    except Refused as refusal:
        raise Refused(refusal.key, **({"path": step.path} | refusal.values)) from None


def _born(view: Snapshot, step: Step) -> datetime:
    if step.before is not None:
        return step.before.created_at
    return next(view.versions(memory_id=step.memory_id, oldest_first=True, limit=1)).created_at
