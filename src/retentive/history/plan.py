"""Plans for a restore or undo.

A plan has targets and conflicts. A target is the state that a memory must get, or None if the memory must be deleted. A
conflict is the reason why a memory cannot be changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from retentive.history.versions import LoggedChange, changed_between
from retentive.storage.contract import Memory, Snapshot, Version
from retentive.values import diff
from retentive.values.paths import ROOT

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
class Plan:
    """Plan of a restore or undo. `targets` has a target for each memory id.

    `undone` lists the changes that an undo reverts, newest first.
    """

    targets: Targets
    conflicts: tuple[Conflict, ...] = ()
    undone: tuple[LoggedChange, ...] = ()


def restored(found: Snapshot, before: str, path: str) -> Plan:
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
    return Plan(targets, tuple(conflicts))


def undone(
    history: Mapping[str, Sequence[Version]],
    chosen: frozenset[str],
    mode: Mode,
    text: Callable[[str], str],
) -> Plan:
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
    return Plan(targets, tuple(conflicts))


class _Stop(Exception):
    """Raised to stop the undo of a memory at a conflict."""


class _Undoing:
    def __init__(self, memory_id: str, versions: Sequence[Version], mode: Mode, text: Callable[[str], str]) -> None:
        self._memory_id = memory_id
        self._versions = versions
        self._mode = mode
        self._text = text
        self._state = _state_after(versions[0])

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
        return _state_after(older)

    def _undo(self, version: Version, before: State | None) -> None:
        if version.redacted_at is not None:
            raise _Stop("the version to undo was redacted")
        after, now = _state_after(version), self._state
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


def _state_after(version: Version) -> State | None:
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
