"""Permanent removal: redaction of versions, erasure of memories, and purging of their bytes from storage."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from retentive.audit.chain import withhold
from retentive.engine.access_times import KIND as ACCESSED
from retentive.engine.context import StoreContext
from retentive.engine.events import record_event
from retentive.engine.guarded_writer import GuardedWriter, WriteRules
from retentive.engine.operation import Operation, WriteOperation
from retentive.engine.trust.overlay import CONFIRMED
from retentive.errors import InvalidInput, NotFound, PermissionDenied, ReadOnly
from retentive.history.versions import versions_of
from retentive.review.proposals import forget_proposals
from retentive.storage import capabilities
from retentive.storage.contract import Actor, Entry, Snapshot, Transaction, Version
from retentive.storage.lookup import find_version, locate
from retentive.storage.paging import all_versions
from retentive.values.paths import ROOT, MemoryPath

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
class Redact(WriteOperation[tuple[list[str], list[int]]]):
    """Remove the text, path, size and hash of the versions in `version_ids`.

    If the path `all_of` is set, all versions of the existing and deleted memories at or below this path are redacted
    instead, except the newest version of each existing memory.

    The result is the ids of the redacted versions, and the numbers of the audit entries whose paths were removed.
    """

    name = "redact"
    needs_external_edits = True
    may_use_reserve = True
    under_review = "refuse"
    allowed_when_archived = True
    version_ids: tuple[str, ...]
    now: float
    all_of: MemoryPath | None = None

    def facts(self, result: Any) -> Mapping[str, object]:
        """Return the ids of the versions, and the numbers of the audit entries whose paths were removed."""
        return {"redacted": result[0], "withheld": result[1]}

    def kept(self, result: Any, tx: Transaction) -> Mapping[str, object]:
        """Return the ids of the versions and the numbers of the audit entries. A repeated request needs them."""
        return {"redacted": result[0], "withheld": result[1]}

    def again(self, kept: Mapping[str, Any], tx: Transaction) -> tuple[list[str], list[int]]:
        """Return the result of the first run."""
        return kept["redacted"], kept["withheld"]

    def apply(self, tx: Transaction, writer: GuardedWriter) -> tuple[list[str], list[int]]:
        """Redact all versions or none. Raises `NotFound`, `InvalidInput` and `ReadOnly` before any change."""
        asked = self.version_ids if self.all_of is None else _older(tx, self.all_of)
        checked = [_redactable(tx, writer, version_id) for version_id in asked]
        todo = [version for version in checked if version.redacted_at is None]
        return [version.id for version in todo], redact_versions(tx, todo, writer.actor, self.now)


def redact_versions(tx: Transaction, versions: Sequence[Version], actor: Actor | None, now: float) -> list[int]:
    """Redact versions, and remove the proposals that are based on their texts.

    Returns the numbers of the audit entries whose paths were removed.
    """
    if not versions:
        return []
    forgotten = forget_proposals(tx, {(version.memory_id, version.sha256) for version in versions})
    tx.redact([version.id for version in versions], actor)
    tx.put_record(PENDING, "since", f"{now:.6f}")
    withheld, records = withhold(tx, {version.path for version in versions if locate(tx, version.path).memory is None})
    for record in (*forgotten, *records):
        tx.put_record(*record)
    record_event(tx, "redacted", actor, [version.id for version in versions])  # last, because a new row can move others
    return withheld


def _redactable(tx: Transaction, writer: GuardedWriter, version_id: str) -> Version:
    version = find_version(tx, version_id)
    memory = tx.find(version.memory_id)
    if memory is not None and memory.version_id == version_id:
        raise InvalidInput(
            f"{version_id} is the newest version of a memory and cannot be redacted; first write a new version, or"
            " delete the memory"
        )
    _check_may_change(writer, (version if memory is None else memory).path)
    return version


def _older(tx: Transaction, path: MemoryPath) -> list[str]:
    """Return the ids of the versions of all memories at or below a path, including deleted memories.

    The newest version of each existing memory is left out.
    """
    found = list(versions_of(tx, path))
    if not found:
        raise NotFound(f"{path.written} has no versions")
    present = {memory.version_id for memory, _ in tx.list(ROOT)}
    return [version.id for version in found if version.id not in present and version.redacted_at is None]


@dataclass(frozen=True, slots=True)
class Erase(WriteOperation[tuple[list[str], list[int], list[str]]]):
    """Delete a memory or the memories below a directory, and record that they and their versions must be removed.

    `finish` then removes them. The result is the memory ids, the numbers of the audit entries whose paths were removed,
    and the ids of the versions.
    """

    name = "erase"
    needs_external_edits = True
    may_use_reserve = True
    under_review = "refuse"
    allowed_when_archived = True
    target: MemoryPath | str  # path of a memory or a directory, or id of a memory

    def facts(self, result: Any) -> Mapping[str, object]:
        """Return the ids of the memories and their versions, and the audit entries whose paths were removed."""
        ids = result[0]
        erased = {"memory": ids[0]} if len(ids) == 1 else {"memories": ids}
        return {**erased, "withheld": result[1], "erased": result[2]}

    def kept(self, result: Any, tx: Transaction) -> Mapping[str, object]:
        """Return the memory ids, the version ids and the audit entry numbers. A repeated request needs them."""
        return {"memories": result[0], "withheld": result[1], "erased": result[2]}

    def again(self, kept: Mapping[str, Any], tx: Transaction) -> tuple[list[str], list[int], list[str]]:
        """Return the result of the first run."""
        return kept["memories"], kept["withheld"], kept["erased"]

    def apply(self, tx: Transaction, writer: GuardedWriter) -> tuple[list[str], list[int], list[str]]:
        """Delete all memories or none. Raises `ReadOnly`, and `NotFound` if there never was such a memory."""
        ids, directory = _to_erase(tx, self.target)
        versions = [version for memory_id in ids for version in _versions(tx, memory_id)]
        present = [memory for memory_id in ids if (memory := tx.find(memory_id)) is not None]
        last = {version.memory_id: version.path for version in reversed(versions)}
        for path in (last | {memory.id: memory.path for memory in present}).values():
            _check_may_change(writer, path)
        if present:
            writer.delete(present)
        by = json.dumps({"by": None if writer.actor is None else str(writer.actor)})
        for memory_id in ids:
            tx.put_record(ERASING, memory_id, by)
        erased = [version.id for memory_id in ids for version in tx.versions(memory_id=memory_id)]
        withheld, records = withhold(tx, {version.path for version in versions}, directory=directory)
        if directory is not None:
            records += forget_proposals(tx, directory=directory)
        for record in records:
            tx.put_record(*record)
        record_event(tx, "erased", writer.actor, ids)
        return ids, withheld, erased


@dataclass(frozen=True, slots=True)
class EraseStore(WriteOperation[None]):
    """Check that an actor may erase the whole store. `retentive.Retentive.erase` then removes the store."""

    name = "erase.store"
    may_use_reserve = True
    under_review = "refuse"
    allowed_when_archived = True

    def apply(self, tx: Transaction, writer: GuardedWriter) -> None:
        """Raise `ReadOnly` if the settings forbid the erasure."""
        check_erasable(tx, writer)


def check_erasable(found: Snapshot, rules: WriteRules) -> None:
    """Raise `ReadOnly` if the store, or one of its existing or deleted memories, is read-only."""
    if rules.settings.read_only:
        raise ReadOnly("the memory store is read-only")
    paths = {memory.path for memory, _ in found.list(ROOT)} | {version.path for version in all_versions(found)} - {""}
    if not all(map(rules.may_change, paths)):
        raise ReadOnly("the memory store cannot be erased, because an existing or deleted memory in it is read-only")


def _to_erase(tx: Transaction, target: MemoryPath | str) -> tuple[list[str], str | None]:
    """Return the ids of the memories to erase. If `target` is a directory, also return its path."""
    if isinstance(target, str):
        return [target], None
    entry = Entry(below=True) if target.is_root else locate(tx, target.text)
    if entry.memory is not None:
        return [entry.memory.id], None
    ids = [] if target.is_root else memories_below(tx, target)
    if ids:
        return ids, target.text
    last = None if entry.below else next(tx.versions(path=target.text, limit=1), None)
    hint = "" if last is None else f"; the last memory at this path had the id {last.memory_id}"
    raise NotFound(f"there is no memory at {target.written}{hint}")


def memories_below(found: Snapshot, directory: MemoryPath) -> list[str]:
    """Return the ids of the memories below a directory, and of deleted memories whose last path was below it."""
    last: dict[str, Version] = {}
    for version in all_versions(found):
        last.setdefault(version.memory_id, version)
    return [memory_id for memory_id, version in last.items() if version.path.startswith(f"{directory.text}/")]


def _versions(tx: Transaction, memory_id: str) -> list[Version]:
    versions = list(tx.versions(memory_id=memory_id))
    if not versions:
        raise NotFound(f"there is no memory {memory_id}")
    return versions


def redact(
    context: StoreContext,
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


def erase(context: StoreContext, target: MemoryPath | str, actor: Actor | str | None) -> Removed:
    """Remove a memory, or the present and deleted memories below a directory, with all their versions.

    For each memory, a tombstone without content records the actor and the time. With a directory, the proposals and the
    paths in the audit log that name something at or below it are removed too. Raises `ReadOnly`, and `NotFound` if
    there never was such a memory. If a crash interrupts the erasure, the memories are already deleted. To remove the
    rest, call `finish` or erase them again.
    """
    ids, _, erased = _run(context, Erase(target), actor)
    now = context.clock()
    versions = sum(
        context.follow_up(partial(_erase, memory_id=memory_id, now=now), may_use_reserve=True) for memory_id in ids
    )
    context.backend.put_side_records(context.id, ACCESSED, dict.fromkeys(ids))
    return Removed(versions or len(erased), pending=not finish(context))


def _run(context: StoreContext, operation: Operation[R], actor: Actor | str | None) -> R:
    try:
        return context.result_of(operation, actor)
    except PermissionDenied as error:
        raise InvalidInput(str(error)) from None


def finish(context: StoreContext) -> bool:
    """Complete interrupted and pending removals. Return True if nothing is pending afterwards."""
    erasing, since = context.read(_unfinished)
    for memory_id in erasing:
        prune = partial(_erase, memory_id=memory_id, now=context.clock())
        context.follow_up(prune, may_use_reserve=True)
    if erasing:
        _, since = context.read(_unfinished)
    if since is None:
        return True
    if not capabilities.purge(context.backend):
        return False
    context.follow_up(partial(_purged, since=since), may_use_reserve=True)
    return True


def _check_may_change(writer: GuardedWriter, path: str) -> None:
    if not writer.may_change(path):
        raise ReadOnly("the memory is read-only")


def _unfinished(found: Snapshot) -> tuple[list[str], str | None]:
    return [key for key, _ in found.records(ERASING)], found.get_record(PENDING, "since")


def _purged(tx: Transaction, since: str) -> None:
    """Delete the record of a pending removal, if its value is still `since`. A later removal may have replaced it."""
    if tx.get_record(PENDING, "since") == since:
        tx.put_record(PENDING, "since", None)


def _erase(tx: Transaction, memory_id: str, now: float) -> int:
    """Remove the versions and proposals of a deleted memory, and write its tombstone. Return the number of versions."""
    began = tx.get_record(ERASING, memory_id)
    if began is None:
        return 0
    ids = [version.id for version in tx.versions(memory_id=memory_id)]
    tx.prune(ids)
    for record in forget_proposals(tx, [(memory_id, None)]):
        tx.put_record(*record)
    if tx.get_record(CONFIRMED, memory_id) is not None:
        tx.put_record(CONFIRMED, memory_id, None)
    tx.put_record(TOMBSTONE, memory_id, json.dumps({"at": round(now), **json.loads(began)}))
    tx.put_record(ERASING, memory_id, None)
    tx.put_record(PENDING, "since", f"{now:.6f}")
    return len(ids)
