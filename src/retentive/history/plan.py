"""Plan, conflicts, apply: how an operation brings memories to the states that it wants.

An operation wants a state for each memory: the `State` that the memory must get, or None if it must be deleted.
`combined` adapts a wanted state to later changes, `planned` turns the wanted states into steps and conflicts, and
`applied` turns the steps into changes that the guard allows. Restore, undo and `Review.accept` use all three.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Literal, TypeAlias, get_args

from retentive.engine.guard import Guard
from retentive.engine.operation import CommandResult, Plan
from retentive.engine.pending import Pending
from retentive.errors import InvalidInput, Refused
from retentive.history.log import LoggedChange
from retentive.history.removal import ERASING
from retentive.storage.contract import Again, Change, Entry, Memory, Moved, Snapshot, Version, to_datetime
from retentive.storage.lookup import in_the_way, locate
from retentive.storage.paging import memories_by_id
from retentive.values import diff
from retentive.values.paths import MemoryPath, ancestors
from retentive.values.records import By, time_in_id
from retentive.values.text import decoded

Mode: TypeAlias = Literal["refuse", "merge", "force", "partial"]
What: TypeAlias = Literal["deleted", "moved", "made", "changed"]


@dataclass(frozen=True, slots=True)
class State:
    """Wanted state of a memory. If `text` is None, the memory gets the text of the version.

    `provenance_text` is the stored provenance of the text.
    """

    path: str
    version_id: str
    sha256: str
    size_bytes: int
    provenance_text: str | None = None
    text: str | None = None

    @classmethod
    def of(cls, found: Memory | Version) -> State:
        """Return the state of a memory, or the state that a version recorded. The version must not be a deletion."""
        version_id = found.version_id if isinstance(found, Memory) else found.id
        return cls(found.path, version_id, found.sha256 or "", found.size_bytes or 0, found.provenance_text)


class RestoreOptions(By, total=False):
    """Keyword arguments of a restore and an undo. See `History.restore`."""

    mode: Mode
    dry_run: bool


Wanted: TypeAlias = Mapping[str, State | None]
"""Wanted states by memory id."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """Reason why a memory cannot be restored, or why a change to it cannot be undone."""

    path: str
    memory_id: str
    reason: str


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


def check_mode(mode: str) -> None:
    """Raise `InvalidInput` for an unknown mode."""
    if mode not in get_args(Mode):
        raise InvalidInput(f"the mode must be one of {', '.join(get_args(Mode))}")


class Clash(Exception):
    """Raised if a later change prevents a wanted state. The text is the reason."""


def state_after(version: Version) -> State | None:
    """Return the state that a version recorded; None for a deletion."""
    return None if version.operation == "deleted" else State.of(version)


def combined(
    base: State | None, now: State | None, wanted: State | None, mode: Mode, text: Callable[[State], str]
) -> State | None:
    """Return the state `now` with the change from `base` to `wanted`. `text` returns the text of a state.

    Raises `Clash` if a change from `base` to `now` affects the same. With the modes `merge` and `partial`, texts are
    merged by line. With the mode `force`, `wanted` wins.
    """
    was, there, goal = ((state.path, state.sha256) if state is not None else None for state in (base, now, wanted))
    if there == was:
        return wanted
    if there == goal:
        return now
    if now is None or wanted is None or base is None:
        if mode != "force":
            what = "deleted" if now is None else "modified" if wanted is None else "recreated"
            raise Clash(f"a later change {what} the memory")
        return now if base is None else wanted
    if wanted.sha256 in {base.sha256, now.sha256}:
        state = now
    elif now.sha256 == base.sha256 or mode == "force":
        state = wanted
    elif mode == "refuse":
        raise Clash("a later change modified the text")
    else:
        parts = diff.merge_parts(text(base), text(now), text(wanted))
        line = next((part.line for part in parts if part.line is not None), None)
        if line is not None:
            raise Clash(f"a later change modified the same lines (from line {line + 1})")
        merged = "".join(part.ours for part in parts)
        data = merged.encode()
        state = replace(wanted, text=merged, sha256=sha256(data).hexdigest(), size_bytes=len(data))
    is_moved, is_wanted_there = now.path != base.path, wanted.path in {base.path, now.path}
    if is_moved and not is_wanted_there and mode != "force":
        raise Clash("a later change renamed the memory")
    return replace(state, path=now.path if is_moved or is_wanted_there else wanted.path)


def steps(found: Snapshot, wanted: Wanted) -> list[Step]:
    """Return the writes that bring memories to their wanted states. A memory in its wanted state needs no write."""
    present = memories_by_id(found, wanted.keys())
    todo: list[Step] = []
    for memory_id, state in wanted.items():
        memory = present.get(memory_id)
        if memory is None and state is not None:
            todo.append(Step("made", memory_id, state.path, None, state))
        elif memory is not None and state is None:
            todo.append(Step("deleted", memory_id, memory.path, memory, None))
        elif memory is not None and state is not None:
            if memory.path != state.path:
                todo.append(Step("moved", memory_id, state.path, memory, state))
            if memory.sha256 != state.sha256:
                todo.append(Step("changed", memory_id, state.path, memory, state))
    return sorted(todo, key=lambda step: (step.path, step.what))


def planned(found: Snapshot, wanted: Wanted, conflicts: Sequence[Conflict], mode: Mode) -> RestoreOutcome:
    """Return the steps to the wanted states, and the conflicts: the given ones and those of paths that are taken.

    With the mode `force`, memories in the way are deleted. With the mode `partial`, they leave out what they block.
    """
    todo, found_conflicts = steps(found, wanted), list(conflicts)
    if mode == "force" and (todo or not conflicts):
        todo = steps(found, {**wanted, **dict.fromkeys(_blocking(found, todo))})
        return RestoreOutcome(tuple(todo), left=tuple(conflicts))
    while blocking := _blocking(found, todo):
        if mode != "partial":
            found_conflicts += blocking.values()
            break
        stuck = {each.memory_id: each for each in blocking.values()}  # without its steps, a memory may be in the way
        found_conflicts += stuck.values()
        todo = [step for step in todo if step.memory_id not in stuck]
    if mode == "partial" and todo:
        return RestoreOutcome(tuple(todo), left=tuple(found_conflicts))
    return RestoreOutcome(tuple(todo), tuple(found_conflicts))


def _blocking(found: Snapshot, todo: Sequence[Step]) -> dict[str, Conflict]:
    """Return a conflict for each memory that is in the way of a step. The keys are the ids of these memories.

    A memory blocks the path of a step, or the paths of two steps are equal or nested. The oldest memory then keeps its
    path.
    """
    leaving = {step.before.path for step in todo if step.before is not None and step.what in {"deleted", "moved"}}
    taken, above, blocking = set[str](), set[str](), dict[str, Conflict]()
    coming = (step for step in todo if step.what in {"made", "moved"})
    for step in sorted(coming, key=lambda step: step.memory_id):
        for memory in in_the_way(found, step.path):
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


def applied(view: Snapshot, guard: Guard, todo: Sequence[Step]) -> tuple[Sequence[Change], list[Conflict]]:
    """Return the changes of the steps, and a conflict for each text that the guard altered.

    Raises `Refused`, and `InvalidInput` for a memory that is being erased.
    """
    erasing = {memory_id for memory_id, _ in view.records(ERASING)}
    if any(step.what == "made" and step.memory_id in erasing for step in todo):
        raise InvalidInput("a memory that is being erased cannot be restored")
    for step in todo:
        for path in {step.path, step.path if step.before is None else step.before.path}:
            guard.check(MemoryPath.known(path))
    after, altered = Pending(view), list[Conflict]()
    after.add(guard.delete(after, [step.before for step in todo if step.what == "deleted" and step.before is not None]))
    moves = {step.memory_id: (step, step.before) for step in todo if step.what == "moved" and step.before is not None}
    circling: list[Step] = []
    while moves:  # those first whose path is free
        going = [each for each in moves.values() if next(in_the_way(after, each[0].path), None) is None]
        if going:
            after.add(guard.move(after, [Moved(before, step.path) for step, before in going]))
        else:  # the moves form a cycle: one memory is deleted and made again
            going = [next(iter(moves.values()))]
            circling.append(going[0][0])
            after.add(guard.delete(after, [going[0][1]]))
        for step, _ in going:
            del moves[step.memory_id]
    again = {step.memory_id for step in circling}
    changed = [step for step in todo if step.what == "changed" and step.memory_id not in again]
    # Texts that shrink are written first, so that no intermediate state exceeds a limit.
    changed.sort(
        key=lambda each: (each.state.size_bytes if each.state else 0) - (each.before.size_bytes if each.before else 0)
    )
    for step in (*changed, *circling, *(step for step in todo if step.what == "made")):
        guarded = _put(view, after, guard, step)
        after.add(guarded.changes)
        if guarded.result.is_masked:
            reason = "a guard removed sensitive values from the restored text"
            altered.append(Conflict(step.path, step.memory_id, reason))
    return after.changes, altered


def text_of(found: Snapshot, state: State) -> str:
    """Return the text of a state."""
    return decoded(found.version(state.version_id)[1]) if state.text is None else state.text


def _put(view: Snapshot, after: Pending, guard: Guard, step: Step) -> Plan[CommandResult]:
    """Plan the change that writes the text of a step, after the changes so far."""
    state, again, entry = step.state, None, Entry()
    assert state is not None
    if step.what == "changed":
        entry = locate(after, step.path)
    if entry.memory is None:
        oldest = step.before or next(view.versions(memory_id=step.memory_id, oldest_first=True, limit=1), None)
        born = to_datetime(time_in_id(step.memory_id) or 0) if oldest is None else oldest.created_at
        again = Again(step.memory_id, born)
    lineage = [state.provenance_text]
    if state.text is not None and entry.memory is not None:  # merged with the current text
        lineage.append(entry.memory.provenance_text)
    try:
        where = MemoryPath.known(step.path)
        return guard.put(after, entry, where, text_of(view, state), again=again, lineage=lineage)
    except Refused as refusal:
        raise Refused(refusal.key, **({"path": step.path} | refusal.values)) from None
