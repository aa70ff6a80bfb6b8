"""Making things go for good: versions are redacted, memories erased, and nothing of them rests in the storage."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from retentive.engine.access_times import KIND as ACCESSED
from retentive.engine.core import Engine
from retentive.engine.writer import GuardedWriter
from retentive.errors import InvalidInput, NotFound, ReadOnly
from retentive.review.proposals import forget_proposals
from retentive.review.session import is_under_review
from retentive.storage import capabilities
from retentive.storage.contract import Actor, Snapshot, Transaction

TOMBSTONE = "tombstone"
"""Kind of the notes that say who erased which memory, and when."""
PENDING, ERASING = "removal", "erasing"


@dataclass(frozen=True, slots=True)
class Removed:
    """How many versions went. `pending`: bytes of them may still rest in free pages or the log, as somebody reads.

    `retentive doctor` (or the next removal) ends that.
    """

    versions: int
    pending: bool


def redact(store: Engine, version_ids: Sequence[str], who: Actor | None) -> Removed:
    """Remove text, path, size and hash of versions; who changed what when stays. All or nothing.

    Raises `NotFound` for one that is not there, `InvalidInput` for the newest version of a present memory (write a new
    one first, or delete it) and where the memory is read-only, or not the actor's to change.
    """

    check_person(store, who)

    def work(tx: Transaction, write: GuardedWriter) -> int:
        todo = []
        for version_id in dict.fromkeys([version_ids] if isinstance(version_ids, str) else version_ids):
            version, _ = tx.version(version_id)
            memory = tx.find(version.memory_id)
            if memory is not None and memory.version_id == version_id:
                raise InvalidInput(f"{version_id} is what the memory is now: write a new version first, or delete it")
            _check_may_change(write, version.path if memory is None else memory.path)
            if version.redacted_at is None:
                todo.append(version_id)
                forget_proposals(tx, version.memory_id, base_sha256=version.sha256)
        if todo:
            tx.redact(todo, who)
            tx.put_record(PENDING, "since", f"{store.clock():.6f}")
        return len(todo)

    return Removed(store.write(work, who, may_use_reserve=True), pending=not finish(store))


def erase(store: Engine, memory_id: str, who: Actor | None) -> Removed:
    """Remove a memory with all its versions. A tombstone without content says who did it, and when.

    Raises `NotFound` if there never was one, `Refused` if it may not be changed. If it is interrupted, the memory is
    deleted, and `finish` (or erasing it again) removes the rest.
    """

    check_person(store, who)

    def delete(tx: Transaction, write: GuardedWriter) -> None:
        last = next(tx.versions(memory_id=memory_id, limit=1), None)
        if last is None:
            raise NotFound(f"there is no memory {memory_id}")
        memory = tx.find(memory_id)
        _check_may_change(write, last.path if memory is None else memory.path)
        if memory is not None:
            write.delete([memory])
        tx.put_record(ERASING, memory_id, json.dumps({"by": None if who is None else str(who)}))

    store.write(delete, who, may_use_reserve=True)
    versions = store.backend.write(
        store.id, partial(_erase, memory_id=memory_id, now=store.clock()), may_use_reserve=True
    )
    store.backend.put_side_records(store.id, ACCESSED, {memory_id: None})
    return Removed(versions, pending=not finish(store))


def finish(store: Engine) -> bool:
    """End removals that were interrupted or had to wait; whether nothing is pending any more."""
    erasing, since = store.read(_unfinished)
    for memory_id in erasing:
        store.backend.write(store.id, partial(_erase, memory_id=memory_id, now=store.clock()), may_use_reserve=True)
    if erasing:
        _, since = store.read(_unfinished)
    if since is None:
        return True
    if not capabilities.purge(store.backend):
        return False
    store.backend.write(store.id, partial(_purged, since=since))
    return capabilities.purge(store.backend)


def check_person(store: Engine, who: Actor | None) -> None:
    """Refuse an actor whose changes await review: what is removed cannot be taken back."""
    if is_under_review(store.settings(), who):
        raise InvalidInput("an actor whose changes await review cannot remove anything for good")


def _check_may_change(write: GuardedWriter, path: str) -> None:
    """Raise `InvalidInput` where this actor may not change the memory whose history is to lose something."""
    if not write.may_change(path):
        raise ReadOnly("the memory is read-only")


def _unfinished(found: Snapshot) -> tuple[list[str], str | None]:
    return [key for key, _ in found.records(ERASING)], found.get_record(PENDING, "since")


def _purged(tx: Transaction, since: str) -> None:
    """Nothing is pending any more, unless something else was removed meanwhile."""
    if tx.get_record(PENDING, "since") == since:
        tx.put_record(PENDING, "since", None)


def _erase(tx: Transaction, memory_id: str, now: float) -> int:
    """Remove the versions of a deleted memory, and what else names it; how many there were."""
    began = tx.get_record(ERASING, memory_id)
    if began is None:
        return 0
    ids = [version.id for version in tx.versions(memory_id=memory_id)]
    tx.prune(ids)
    forget_proposals(tx, memory_id)
    tx.put_record(TOMBSTONE, memory_id, json.dumps({"at": round(now), **json.loads(began)}))
    tx.put_record(ERASING, memory_id, None)
    tx.put_record(PENDING, "since", f"{now:.6f}")
    return len(ids)
