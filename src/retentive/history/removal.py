"""Permanent removal: redaction of versions, erasure of memories, and purging of their bytes from storage."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from retentive.audit.chain import withhold
from retentive.engine.access_times import KIND as ACCESSED
from retentive.engine.core import StoreCore
from retentive.engine.guard import Guard, Rules
from retentive.engine.operation import Operation, Outcome, Plan, Write
from retentive.engine.trust import forgotten
from retentive.engine.visibility import CONFIRMED
from retentive.errors import InvalidInput, NotFound, PermissionDenied, ReadOnly
from retentive.history.versions import versions_of
from retentive.review.proposals import forget_proposals
from retentive.storage import capabilities
from retentive.storage.contract import Actor, Entry, Snapshot, Transaction, Version
from retentive.storage.lookup import find_version, locate
from retentive.storage.paging import all_versions
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.records import Recorded

R = TypeVar("R")
TOMBSTONE = "tombstone"
"""Kind of the records that are tombstones. A tombstone contains the actor who erased a memory, and the time."""
PENDING, ERASING = "removal", "erasing"


@dataclass(frozen=True, slots=True)
class Removed:
    """Result of a removal. `versions` is the number of removed versions.

    If `pending` is true, the storage may still contain their bytes in free pages or logs, for example because a reader
    still needs them. The next removal or `retentive doctor` purges these bytes.
    """

    versions: int
    pending: bool


@dataclass(frozen=True, slots=True)
class Redact(Write[tuple[list[str], list[int]]]):
    """Remove the text, path, size and hash of the versions in `version_ids`.

    If the path `all_of` is set, all versions of the existing and deleted memories at or below this path are redacted
    instead, except the newest version of each existing memory.

    The result is the ids of the redacted versions, and the numbers of the audit entries whose paths were removed.
    """

    name = "redact"
    needs_external_edits = True
    only_removes = True
    under_review = "refuse"
    allowed_when_archived = True
    version_ids: tuple[str, ...]
    now: float
    all_of: MemoryPath | None = None

    def facts(self, result: Any) -> Mapping[str, object]:
        """Return the ids of the versions, and the numbers of the audit entries whose paths were removed."""
        return {"redacted": result[0], "withheld": result[1]}

    def facts_to_keep(self, outcome: Outcome[Any], after: Snapshot) -> Mapping[str, object]:
        """Return the ids of the versions and the numbers of the audit entries. A repeated request needs them."""
        return self.facts(outcome.value())

    def result_from(
        self, facts: Mapping[str, Any], recorded: Sequence[Recorded], view: Snapshot
    ) -> tuple[list[str], list[int]]:
        """Return the result of the first run."""
        return facts["redacted"], facts["withheld"]

    def decide(self, view: Snapshot, guard: Guard) -> Plan[tuple[list[str], list[int]]]:
        """Redact all versions or none. Raises `NotFound`, `InvalidInput` and `ReadOnly`."""
        asked = self.version_ids if self.all_of is None else _older(view, self.all_of)
        checked = [_redactable(view, guard, version_id) for version_id in asked]
        todo = [version for version in checked if version.redacted_at is None]
        ids = [version.id for version in todo]
        if not todo:
            return Plan((ids, []))
        withheld, records = traces_of(view, todo, self.now)
        return Plan((ids, withheld), records=records, redact=ids, event=("redacted", ids))


def traces_of(
    view: Snapshot, versions: Sequence[Version], now: float
) -> tuple[list[int], list[tuple[str, str, str | None]]]:
    """Return the records to write when versions are redacted.

    They remove the proposals that are based on their texts, and the paths of audit entries. The first result has the
    numbers of these entries.
    """
    withheld, records = withhold(
        view, {version.path for version in versions if locate(view, version.path).memory is None}
    )
    forgotten_proposals = forget_proposals(view, {(version.memory_id, version.sha256) for version in versions})
    return withheld, [*records, *forgotten_proposals, (PENDING, "since", f"{now:.6f}")]


def _redactable(view: Snapshot, guard: Guard, version_id: str) -> Version:
    version = find_version(view, version_id)
    memory = view.find(version.memory_id)
    if memory is not None and memory.version_id == version_id:
        raise InvalidInput(
            f"{version_id} is the newest version of a memory and cannot be redacted; first write a new version, or"
            " delete the memory"
        )
    _check_may_change(guard, [(version if memory is None else memory).path])
    return version


def _older(view: Snapshot, path: MemoryPath) -> list[str]:
    """Return the ids of the versions of the memories at or below a path, except the newest one of existing memories."""
    versions = list(versions_of(view, path))
    if not versions:
        raise NotFound(f"{path.written} has no versions")
    present = {memory.version_id for memory, _ in view.list(ROOT)}
    return [version.id for version in versions if version.id not in present and version.redacted_at is None]


@dataclass(frozen=True, slots=True)
class Erase(Write[tuple[list[str], list[int], list[str]]]):
    """Delete a memory or the memories below a directory, and record that they and their versions must be removed.

    `finish` then removes them: a directory of files first has to make the deletions durable. The result is the memory
    ids, the numbers of the audit entries whose paths were removed, and the ids of the versions.
    """

    name = "erase"
    needs_external_edits = True
    only_removes = True
    under_review = "refuse"
    allowed_when_archived = True
    target: MemoryPath | str  # path of a memory or a directory, or id of a memory

    def facts(self, result: Any) -> Mapping[str, object]:
        """Return the ids of the memories and their versions, and the audit entries whose paths were removed."""
        ids = result[0]
        erased = {"memory": ids[0]} if len(ids) == 1 else {"memories": ids}
        return {**erased, "withheld": result[1], "erased": result[2]}

    def facts_to_keep(self, outcome: Outcome[Any], after: Snapshot) -> Mapping[str, object]:
        """Return the memory ids, the version ids and the audit entry numbers. A repeated request needs them."""
        result = outcome.value()
        return {"memories": result[0], "withheld": result[1], "erased": result[2]}

    def result_from(
        self, facts: Mapping[str, Any], recorded: Sequence[Recorded], view: Snapshot
    ) -> tuple[list[str], list[int], list[str]]:
        """Return the result of the first run."""
        return facts["memories"], facts["withheld"], facts["erased"]

    def decide(self, view: Snapshot, guard: Guard) -> Plan[tuple[list[str], list[int], list[str]]]:
        """Delete all memories or none. Raises `ReadOnly`, and `NotFound` if there never was such a memory."""
        ids, directory = _to_erase(view, self.target)
        versions = [version for memory_id in ids for version in view.versions(memory_id=memory_id)]
        if not versions:
            raise NotFound(f"there is no memory {ids[0]}")
        present = [memory for memory_id in ids if (memory := view.find(memory_id)) is not None]
        last = {version.memory_id: version.path for version in reversed(versions)}
        _check_may_change(guard, (last | {memory.id: memory.path for memory in present}).values())
        by = json.dumps({"by": None if guard.actor is None else str(guard.actor)})

        def afterwards(after: Snapshot, recorded: Sequence[Recorded]) -> Plan[tuple[list[str], list[int], list[str]]]:
            withheld, records = withhold(after, {version.path for version in versions}, directory=directory)
            if directory is not None:
                records += forget_proposals(after, directory=directory)
            records += [(ERASING, memory_id, by) for memory_id in ids]
            erased = [version.id for memory_id in ids for version in after.versions(memory_id=memory_id)]
            return Plan((ids, withheld, erased), records=records, event=("erased", ids))

        return Plan((ids, [], []), guard.delete(view, present), afterwards=afterwards)


@dataclass(frozen=True, slots=True)
class EraseStore(Write[None]):
    """Check that an actor may erase the whole store. `retentive.Retentive.erase` then removes the store."""

    name = "erase.store"
    only_removes = True
    under_review = "refuse"
    allowed_when_archived = True

    def decide(self, view: Snapshot, guard: Guard) -> Plan[None]:
        """Raise `ReadOnly` if the settings forbid the erasure."""
        check_erasable(view, guard)
        return Plan(None)


def check_erasable(found: Snapshot, rules: Rules) -> None:
    """Raise `ReadOnly` if the store, or one of its existing or deleted memories, is read-only."""
    if rules.settings.read_only:
        raise ReadOnly("the memory store is read-only")
    paths = {memory.path for memory, _ in found.list(ROOT)} | {version.path for version in all_versions(found)} - {""}
    if not all(map(rules.may_change, paths)):
        raise ReadOnly("the memory store cannot be erased, because an existing or deleted memory in it is read-only")


def _to_erase(view: Snapshot, target: MemoryPath | str) -> tuple[list[str], str | None]:
    """Return the ids of the memories to erase. If `target` is a directory, also return its path."""
    if isinstance(target, str):
        return [target], None
    entry = Entry(below=True) if target.is_root else locate(view, target.text)
    if entry.memory is not None:
        return [entry.memory.id], None
    ids = [] if target.is_root else memories_below(view, target)
    if ids:
        return ids, target.text
    last = None if entry.below else next(view.versions(path=target.text, limit=1), None)
    hint = "" if last is None else f"; the last memory at this path had the id {last.memory_id}"
    raise NotFound(f"there is no memory at {target.written}{hint}")


def memories_below(found: Snapshot, directory: MemoryPath) -> list[str]:
    """Return the ids of the memories below a directory, and of deleted memories whose last path was below it."""
    below = f"{directory.text}/"
    ids = dict.fromkeys(version.memory_id for version in found.versions(path=below))
    last = {memory_id: next(found.versions(memory_id=memory_id, limit=1)) for memory_id in ids}
    return [memory_id for memory_id, version in last.items() if version.path.startswith(below)]


def _check_may_change(guard: Guard, paths: Iterable[str]) -> None:
    if not all(map(guard.may_change, paths)):
        raise ReadOnly("the memory is read-only")


def redact(
    context: StoreCore,
    version_ids: Sequence[str],
    actor: Actor | str | None,
    *,
    all_of: MemoryPath | None = None,
) -> Removed:
    """Remove the text, path, size and hash of versions. Actor and time are kept. All are redacted, or none.

    Raises `ReadOnly`. Raises `NotFound` for an unknown version, and `InvalidInput` for the newest version of an
    existing memory.
    """
    ids = (version_ids,) if isinstance(version_ids, str) else tuple(dict.fromkeys(version_ids))
    redacted, _ = _run(context, Redact(ids, context.clock(), all_of), actor)
    return Removed(len(redacted), pending=not finish(context))


def erase(context: StoreCore, target: MemoryPath | str, actor: Actor | str | None) -> Removed:
    """Remove a memory, or the present and deleted memories below a directory, with all their versions.

    With a directory, the proposals and the paths in the audit log that name something at or below it are removed too.
    Raises `ReadOnly`, and `NotFound` if there never was such a memory.
    """
    ids, _, erased = _run(context, Erase(target), actor)
    context.backend.put_side_records(context.id, ACCESSED, dict.fromkeys(ids))
    return Removed(len(erased), pending=not finish(context))


def _run(context: StoreCore, operation: Operation[R], actor: Actor | str | None) -> R:
    try:
        return context.result_of(operation, actor)
    except PermissionDenied as error:
        raise InvalidInput(str(error)) from None


def finish(context: StoreCore) -> bool:
    """Complete interrupted and pending removals. Return True if nothing is pending afterwards."""
    for memory_id in context.read(lambda snapshot: [key for key, _ in snapshot.records(ERASING)]):
        context.follow_up(partial(_erase, memory_id=memory_id, now=context.clock()), may_use_reserve=True)
    since = context.read(lambda snapshot: snapshot.get_record(PENDING, "since"))
    if since is None:
        return True
    if not capabilities.purge(context.backend):
        return False
    context.follow_up(partial(_purged, since=since), may_use_reserve=True)
    return True


def _purged(tx: Transaction, since: str) -> None:
    """Delete the record of a pending removal, if its value is still `since`. A later removal may have replaced it."""
    if tx.get_record(PENDING, "since") == since:
        tx.put_record(PENDING, "since", None)


def _erase(tx: Transaction, memory_id: str, now: float) -> None:
    """Remove the versions of a deleted memory and what refers to it, and write its tombstone."""
    began, versions = tx.get_record(ERASING, memory_id), list(tx.versions(memory_id=memory_id))
    if began is None:
        return
    records = [*forget_proposals(tx, [(memory_id, None)]), *forgotten(tx, versions)]
    tx.prune([version.id for version in versions])
    if tx.get_record(CONFIRMED, memory_id) is not None:
        records.append((CONFIRMED, memory_id, None))
    tombstone = json.dumps({"at": round(now), **json.loads(began)})
    records += [(TOMBSTONE, memory_id, tombstone), (ERASING, memory_id, None), (PENDING, "since", f"{now:.6f}")]
    for record in records:
        tx.put_record(*record)
