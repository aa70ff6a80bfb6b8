"""Permanent removal: redaction of versions, erasure of memories, and purging of their bytes from storage."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from retentive.audit.chain import withhold
from retentive.engine.access_times import KIND as ACCESSED
from retentive.engine.citations import forget_checks
from retentive.engine.core import StoreCore
from retentive.engine.guard import Guard
from retentive.engine.operation import Plan, Write
from retentive.engine.visibility import CONFIRMED, forgotten
from retentive.errors import InvalidInput, NotFound, ReadOnly
from retentive.gateway.records import forget
from retentive.history.revisions import versions_of
from retentive.review.proposals import forget_proposals
from retentive.storage.contract import Actor, Entry, Snapshot, Transaction, Version
from retentive.storage.lookup import find_version, locate
from retentive.storage.paging import all_versions, memories_by_id
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.records import Recorded, name_of
from retentive.values.text import plain_name

TOMBSTONE = "tombstone"
"""Kind of the records that are tombstones: the actor who erased a memory, the time, and the reason if it was given."""
PENDING, ERASING = "removal", "erasing"
_Facts: TypeAlias = Mapping[str, Any]
"""Result of a removal: ids of memories and versions, and the numbers of the audit entries without paths since then."""


@dataclass(frozen=True, slots=True)
class Removed:
    """Result of a removal. `versions` is the number of removed versions.

    If `pending` is true, the storage may still contain their bytes in free pages or logs, for example because a reader
    still needs them. The next removal or `retentive doctor` purges these bytes.
    """

    versions: int
    pending: bool


def redact(version_ids: Sequence[str], now: float, all_of: MemoryPath | None = None) -> Write[_Facts]:
    """Remove the text, path, size and hash of the versions in `version_ids`: all or none.

    If the path `all_of` is given, all versions of the existing and deleted memories at or below this path are redacted
    instead, except the newest version of each existing memory.
    """

    def work(view: Snapshot, guard: Guard) -> Plan[_Facts]:
        if all_of is None:
            versions = [find_version(view, version_id) for version_id in version_ids]
        else:
            versions = list(versions_of(view, all_of))
            if not versions:
                raise NotFound(f"{all_of.written} has no versions")
        present = memories_by_id(view, {version.memory_id for version in versions})
        newest = {memory.version_id for memory in present.values()}
        if all_of is not None:
            versions = [version for version in versions if version.id not in newest and version.redacted_at is None]
        for version in versions:
            if version.id in newest:
                raise InvalidInput(
                    f"{version.id} is the newest version of a memory and cannot be redacted; first write a new version,"
                    " or delete the memory"
                )
            _check_may_change(guard, [present.get(version.memory_id, version).path])
        todo = [version for version in versions if version.redacted_at is None]
        ids = [version.id for version in todo]
        if not todo:
            return Plan({"redacted": ids, "withheld": []})
        withheld, records = traces_of(view, todo, now)
        result = {"redacted": ids, "withheld": withheld}
        return Plan(result, records=records, redact=ids, event=("redacted", ids))

    return _removal(Write("redact", work))


def _removal(operation: Write[_Facts]) -> Write[_Facts]:
    return replace(
        operation,
        facts=lambda facts: facts,
        facts_kept=lambda outcome, _: outcome.value(),
        rebuilt=lambda facts, _: facts,
        needs_external_edits=True,
        only_removes=True,
    )


def traces_of(
    view: Snapshot, versions: Sequence[Version], now: float
) -> tuple[list[int], list[tuple[str, str, str | None]]]:
    """Return the records to write when versions are redacted.

    They remove the proposals that are based on their texts, and the paths of audit entries. The first result has the
    numbers of these entries.
    """
    withheld, records = withhold(
        view,
        {version.path for version in versions if locate(view, version.path).memory is None},
        ids={version.id for version in versions},
    )
    forgotten_proposals = forget_proposals(view, {(version.memory_id, version.sha256) for version in versions})
    forgotten_calls = forget(view, {version.path for version in versions}, now)
    checks = forget_checks(view, versions)
    return withheld, [*records, *forgotten_proposals, *forgotten_calls, *checks, (PENDING, "since", f"{now:.6f}")]


def erase(target: MemoryPath | str, reason: str | None = None) -> Write[_Facts]:
    """Delete a memory or the memories below a directory, and record that they and their versions must be removed.

    `target` is the path of a memory or a directory, or the id of a memory. `finish` then removes them: a directory of
    files first has to make the deletions durable. The tombstones and the audit entry have the `reason`, without
    sensitive values. Raises `InvalidInput` for a reason that is no line of at most 255 characters.
    """
    if reason is not None:
        plain_name("the reason", reason)

    def work(view: Snapshot, guard: Guard) -> Plan[_Facts]:
        ids, directory = _to_erase(view, target)
        versions = [version for memory_id in ids for version in view.versions(memory_id=memory_id)]
        if not versions:
            raise NotFound(f"there is no memory {ids[0]}")
        present = [memory for memory_id in ids if (memory := view.find(memory_id)) is not None]
        last = {version.memory_id: version.path for version in reversed(versions)}
        _check_may_change(guard, (last | {memory.id: memory.path for memory in present}).values())
        why = {} if reason is None else {"reason": guard.shown(reason)}
        by = json.dumps({"by": name_of(guard.actor), **why})

        def afterwards(after: Snapshot, recorded: Sequence[Recorded]) -> Plan[_Facts]:
            withheld, records = withhold(
                after,
                {version.path for version in versions},
                directory=directory,
                ids={version.id for version in versions},
            )
            if directory is not None:
                records += forget_proposals(after, directory=directory)
            records += [(ERASING, memory_id, by) for memory_id in ids]
            erased = [version.id for memory_id in ids for version in after.versions(memory_id=memory_id)]
            result = {"memories": ids, "withheld": withheld, "erased": erased, **why}
            return Plan(result, records=records, event=("erased", ids))

        return Plan({"memories": ids, "withheld": [], "erased": []}, guard.delete(view, present), afterwards=afterwards)

    return _removal(Write("erase", work))


def erase_store() -> Write[None]:
    """Check that an actor may erase the whole store. `retentive.Retentive.erase` then removes the store.

    Raises `ReadOnly` if the store, or one of its existing or deleted memories, is read-only.
    """

    def work(view: Snapshot, guard: Guard) -> Plan[None]:
        if guard.settings.read_only:
            raise ReadOnly("the memory store is read-only")
        paths = {memory.path for memory, _ in view.list(ROOT)} | {version.path for version in all_versions(view)} - {""}
        if not all(map(guard.may_change, paths)):
            why = "because an existing or deleted memory in it is read-only"
            raise ReadOnly(f"the memory store cannot be erased, {why}")
        return Plan(None)

    return Write("erase.store", work, only_removes=True)


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


def remove(context: StoreCore, operation: Write[_Facts], actor: Actor | str | None) -> Removed:
    """Run a removal and complete it. Raises its errors."""
    result = context.result_of(operation, actor)
    return Removed(len(result["erased" if "memories" in result else "redacted"]), pending=not finish(context))


def finish(context: StoreCore) -> bool:
    """Complete interrupted and pending removals. Return True if nothing is pending afterwards."""
    for memory_id in context.read(lambda snapshot: [key for key, _ in snapshot.records(ERASING)]):
        context.follow_up(partial(_erase, memory_id=memory_id, now=context.clock()), may_use_reserve=True)
    since = context.read(lambda snapshot: snapshot.get_record(PENDING, "since"))
    if since is None:
        return True
    if not context.backend.purge():
        return False

    def purged(tx: Transaction) -> None:
        if tx.get_record(PENDING, "since") == since:  # a later removal may have replaced it
            tx.put_record(PENDING, "since", None)

    context.follow_up(purged, may_use_reserve=True)
    return True


def _erase(tx: Transaction, memory_id: str, now: float) -> None:
    """Remove the versions of a deleted memory and what refers to it, and write its tombstone."""
    began, versions = tx.get_record(ERASING, memory_id), list(tx.versions(memory_id=memory_id))
    if began is None:
        return
    tombstone = json.dumps({"at": round(now), **json.loads(began)})
    records: list[tuple[str, str, str | None]] = [
        *forget_proposals(tx, [(memory_id, None)]),
        *forgotten(tx, versions),
        *forget_checks(tx, versions),
        *forget(tx, {version.path for version in versions}, now),
        (CONFIRMED, memory_id, None),
        (ACCESSED, memory_id, None),
        (TOMBSTONE, memory_id, tombstone),
        (ERASING, memory_id, None),
        (PENDING, "since", f"{now:.6f}"),
    ]
    tx.prune([version.id for version in versions])
    for record in records:
        tx.put_record(*record)
