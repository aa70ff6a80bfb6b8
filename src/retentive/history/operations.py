"""Operations of the history: restore and undo."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile, zip_longest
from typing import Any, TypeAlias

from retentive.engine.guard import Guard
from retentive.engine.operation import Outcome, Plan, Write
from retentive.engine.pending import is_under_review
from retentive.errors import InvalidInput, NotFound, ReadOnly
from retentive.history.log import LogFilter, grouped
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
from retentive.history.revisions import Moment, Past, Revision, check_kept, moment, named_change, versions_in
from retentive.storage.contract import Snapshot, Version
from retentive.storage.lookup import locate
from retentive.storage.paging import all_versions
from retentive.values.paths import ROOT, MemoryPath

Choose: TypeAlias = Callable[[Snapshot], Iterable[Version]]
"""Function that returns the versions to undo, newest first."""
_REDACTED = "the version that the memory had at that time was redacted"


def restore(path: MemoryPath, to: Revision, mode: Mode) -> Write[RestoreOutcome]:
    """Restore a memory, a directory or the whole store to the state at `to`."""
    check_mode(mode)

    def plan(found: Snapshot) -> tuple[RestoreOutcome, str]:
        conflicts: list[Conflict] = []
        then = moment(found, to, path)
        outcome = planned(found, _then(found, path, then, conflicts), conflicts, mode)
        at = then.at.isoformat(timespec="seconds") if then.version is None else f"r{then.version.revision}"
        return outcome, f"restore to {at}"

    return _planned(Write("restore", partial(_decided, plan, mode), path))


def change_named(change: Revision, path: MemoryPath | None = None) -> Choose:
    """Choose the versions of one change. `HEAD` refers to the history of `path`. Raises `InvalidInput` for a time."""
    if change.is_time:
        raise InvalidInput(f"{change.text} is a time; specify a change instead, such as r1234 or HEAD")
    return lambda found: named_change(found, change, path)


def changes_by(only: LogFilter) -> Choose:
    """Choose all versions that match a filter. The choice raises `NotFound` if there are none."""

    def choose(found: Snapshot) -> list[Version]:
        if chosen := list(only.chosen(all_versions(found))):
            return chosen
        whose = " and ".join(filter(None, [only.actor, only.session and f"the session {only.session}"]))
        raise NotFound(f"there is no matching change by {whose or 'anyone'}; nothing was undone")

    return choose


def newest_change_by(own: str, path: MemoryPath | None) -> Choose:
    """Choose the versions of the newest change by an actor at or below a path."""

    def choose(found: Snapshot) -> list[Version]:
        newest = next((each for each in versions_in(found, path) if str(each.actor) == own), None)
        if newest is None:
            raise NotFound(f"there is no change by {own} to undo")
        return named_change(found, Revision(newest.revision))

    return choose


def undo(
    choose: Choose, mode: Mode, *, path: MemoryPath | None = None, own: str | None = None
) -> Write[RestoreOutcome]:
    """Reverse the versions that `choose` returns, from newest to oldest. If `own` is set, all must be by this actor.

    If a later version builds on a reversed one, this is a conflict. `path` is named in the audit log.
    """
    check_mode(mode)

    def plan(found: Snapshot) -> tuple[RestoreOutcome, str]:
        versions = list(choose(found))
        other = next((version for version in versions if own not in {None, str(version.actor)}), None)
        if other is not None:
            raise ReadOnly(f"r{other.revision} is a change by {other.actor or 'another actor'}, not by {own}")
        ids, wanted, conflicts = {version.id for version in versions}, dict[str, State | None](), list[Conflict]()
        for memory_id, oldest in {version.memory_id: version.id for version in versions}.items():  # newest first
            history, path_of = list[Version](), ""
            for version in all_versions(found, memory_id=memory_id):  # down to the one before, and to a known path
                history.append(version)
                path_of = path_of or version.path
                if version.id < oldest and path_of:
                    break
            try:
                wanted[memory_id] = _reversed(found, history, ids, mode)
            except Clash as clash:
                conflicts.append(Conflict(path_of, memory_id, str(clash)))
        undone = tuple(grouped(found, versions))
        what = undone[0].id if len(undone) == 1 else f"{len(undone)} changes, {undone[-1].id} to {undone[0].id}"
        return replace(planned(found, wanted, conflicts, mode), undone=undone), f"undo of {what}"

    return _planned(Write("undo", partial(_decided, plan, mode), path))


def _planned(write: Write[RestoreOutcome]) -> Write[RestoreOutcome]:
    return replace(
        write,
        facts_kept=_facts,
        rebuilt=_rebuilt,
        under_review="propose",
        allowed_when_archived=False,
        needs_external_edits=True,
        for_paths=True,
    )


def _decided(
    plan: Callable[[Snapshot], tuple[RestoreOutcome, str]], mode: Mode, view: Snapshot, guard: Guard
) -> Plan[RestoreOutcome]:
    """Carry out a plan.

    `plan` returns the steps and the conflicts, and the cause that the log shows, such as `undo of r3`. It raises
    `NotFound` and `ReadOnly`.
    """
    outcome, cause = plan(view)
    if outcome.conflicts:
        return Plan(outcome)
    guard.cause = f"partial {cause}" if mode == "partial" and outcome.left else cause
    changes, altered = applied(view, guard, outcome.steps)
    proposed = bool(changes) and is_under_review(guard.settings, guard.actor)
    return Plan(replace(outcome, left=(*outcome.left, *altered), proposed=proposed), changes)


def _facts(outcome: Outcome[RestoreOutcome], after: Snapshot) -> Mapping[str, object] | None:
    result = outcome.value()
    if result.conflicts or result.proposed or not result.steps:
        return None  # a repeated request runs again, and changes nothing
    reasons = [[each.memory_id, "" if "/" in each.reason else each.reason] for each in result.left]
    return {"revision": after.state.revision, "left": reasons}


def _rebuilt(facts: Mapping[str, Any], view: Snapshot) -> RestoreOutcome:
    versions = named_change(view, Revision(facts["revision"]))
    past = Past(view, min(version.id for version in versions))
    newest = {version.memory_id: state_after(version) for version in reversed(versions)}
    left = [
        Conflict(_last_path(view, memory_id), memory_id, reason or "the memory differs from the requested state")
        for memory_id, reason in facts["left"]
    ]
    return RestoreOutcome(tuple(steps(past, newest)), left=tuple(left))


def _then(found: Snapshot, target: MemoryPath, then: Moment, conflicts: list[Conflict]) -> Wanted:
    """Return the states of the memories at or below a path at an earlier time. Raises `NotFound` if there were none."""
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
    memory = None if target.is_root else Past(found, then.bound).get(target.text).memory
    if memory is not None:
        return {memory.id: State.of(memory)}
    wanted = _directory(found, then.bound, target.text, conflicts)
    is_known = wanted or conflicts or target.is_root
    if not is_known and next(found.list_at(then.bound, target.text, limit=1), None) is None:
        raise NotFound(f"no memory was at or below {target.written} at that time")
    return wanted


def _last_path(found: Snapshot, memory_id: str, under: str = "") -> str:
    """Return the last known path of a memory (below `under`), or "". Paths in redacted versions are unknown."""
    paths = (version.path for version in found.versions(memory_id=memory_id))
    return next((path for path in paths if path and path.startswith(under)), "")


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


def _reversed(found: Snapshot, versions: Sequence[Version], chosen: set[str], mode: Mode) -> State | None:
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
        state = combined(state_after(version), state, before, mode, partial(text_of, found))
    return state
