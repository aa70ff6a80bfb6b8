"""Carries out a restore or undo plan: deletes, moves, recreates and rewrites memories in one transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from retentive.engine.guarded_writer import GuardedWriter, Stored
from retentive.errors import InvalidInput, Refused
from retentive.history.plan import Conflict, State, Targets
from retentive.history.removal import ERASING
from retentive.history.versions import LoggedChange
from retentive.storage.contract import Change, Entry, Memory, Snapshot, Transaction
from retentive.storage.lookup import locate
from retentive.storage.paging import memories_by_id
from retentive.values.paths import MemoryPath, ancestors
from retentive.values.records import Again
from retentive.values.text import decoded

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
    """Return a conflict for each memory that blocks the target path of a step. The keys are memory ids."""
    leaving = {step.before.path for step in todo if step.before is not None and step.what in {"deleted", "moved"}}
    blocking: dict[str, Conflict] = {}
    for step in todo:
        if step.what not in {"made", "moved"}:
            continue
        for memory in _standing(found, step.path):
            if memory.path not in leaving:
                blocking[memory.id] = Conflict(step.path, step.memory_id, f"the memory {memory.path} blocks this path")
    return blocking


def clashing(todo: Sequence[Step]) -> dict[str, Conflict]:
    """Return the conflicts between memories whose target paths are equal or nested. The keys are memory ids.

    The oldest of these memories keeps its path and has no conflict.
    """
    taken: set[str] = set()
    above: set[str] = set()
    clashes: dict[str, Conflict] = {}
    coming = (step for step in todo if step.what in {"made", "moved"})
    for step in sorted(coming, key=lambda step: step.memory_id):
        places = ancestors(step.path)
        if step.path in taken or step.path in above or any(one in taken for one in places):
            reason = "another memory is restored at, above or below this path"
            clashes[step.memory_id] = Conflict(step.path, step.memory_id, reason)
        else:
            taken.add(step.path)
            above.update(places)
    return clashes


def possible(found: Snapshot, todo: Sequence[Step]) -> tuple[list[Step], list[Conflict]]:
    """Return the steps that can be made, and the conflicts of the memories whose steps were left out."""
    left: list[Conflict] = []
    while conflicts := [*in_the_way(found, todo).values(), *clashing(todo).values()]:
        stuck = {each.memory_id: each for each in conflicts}  # without its steps, a memory may be in the way of others
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


def carry_out(tx: Transaction, write: GuardedWriter, todo: Sequence[Step]) -> list[Conflict]:
    """Apply the steps through the guards. Return a conflict for each text that a guard altered.

    Raises `Refused`, and `InvalidInput` for a memory that is being erased.
    """
    erasing = {memory_id for memory_id, _ in tx.records(ERASING)}
    if any(step.what == "made" and step.memory_id in erasing for step in todo):
        raise InvalidInput("a memory that is being erased cannot be restored")
    for step in todo:
        for path in {step.path, step.path if step.before is None else step.before.path}:
            write.check(MemoryPath.known(path))
    write.delete([step.before for step in todo if step.what == "deleted" and step.before is not None])
    moves, circling = _ordered([step for step in todo if step.what == "moved"])
    write.delete([step.before for step in circling if step.before is not None])
    write.move([Change(step.before, step.path) for step in moves])
    made_again = {step.memory_id for step in circling}
    changed = [step for step in todo if step.what == "changed" and step.memory_id not in made_again]
    made = [*circling, *(step for step in todo if step.what == "made")]
    # Texts that shrink are written first, so that no intermediate state exceeds a limit.
    written = [(step, _put(tx, write, locate(tx, step.path), step)) for step in sorted(changed, key=_growth)]
    written += [(step, _put(tx, write, Entry(), step, again=Again(step.memory_id, _born(tx, step)))) for step in made]
    return [Conflict(step.path, step.memory_id, _ALTERED) for step, became in written if became.altered]


def _growth(step: Step) -> int:
    assert step.state is not None
    assert step.before is not None
    return step.state.size_bytes - step.before.size_bytes


def _put(tx: Transaction, write: GuardedWriter, entry: Entry, step: Step, *, again: Again | None = None) -> Stored:
    state = step.state
    assert state is not None
    try:
        version, data = tx.version(state.version_id)
        lineage = [version.provenance_text]
        if state.text is not None and entry.memory is not None:  # merged with the current text
            lineage.append(entry.memory.provenance_text)
        text = decoded(data) if state.text is None else state.text
        return write.put(entry, MemoryPath.known(step.path), text, again=again, lineage=lineage)
    except Refused as refusal:
        raise Refused(refusal.key, **({"path": step.path} | refusal.values)) from None


def _born(found: Snapshot, step: Step) -> datetime:
    if step.before is not None:
        return step.before.created_at
    *_, oldest = found.versions(memory_id=step.memory_id)
    return oldest.created_at


def _ordered(moves: Sequence[Step]) -> tuple[list[Step], list[Step]]:
    """Order the moves so that each target path is free when its move runs.

    The second list contains the moves for which this is impossible, because they form a cycle.
    """
    pending = {step.before.path for step in moves if step.before is not None}
    above = Counter(one for path in pending for one in ancestors(path))
    free: list[Step] = []
    circling: list[Step] = []
    left = list(moves)
    while left:
        going = [step for step in left if not _blocked(step.path, pending, above)] or left[:1]
        (free if not _blocked(going[0].path, pending, above) else circling).extend(going)
        for step in going:
            assert step.before is not None
            pending.discard(step.before.path)
            above.subtract(ancestors(step.before.path))
        gone = {step.memory_id for step in going}
        left = [step for step in left if step.memory_id not in gone]
    return free, circling


def _blocked(path: str, pending: set[str], above: Counter[str]) -> bool:
    return path in pending or above[path] > 0 or any(one in pending for one in ancestors(path))
