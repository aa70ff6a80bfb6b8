"""Copies memory stores: reads one as the lines of an archive, and records such lines as a memory store elsewhere."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Self

from retentive.errors import Damaged, InvalidInput
from retentive.storage import capabilities
from retentive.storage.capabilities import below_encryption
from retentive.storage.contract import (
    Actor,
    Backend,
    Imported,
    Kept,
    Memory,
    Snapshot,
    StoreInfo,
    Transaction,
    Usage,
    Version,
)
from retentive.storage.lookup import in_the_way
from retentive.storage.paging import all_versions, batched, memories_by_id
from retentive.transfer.files import TransferProgress
from retentive.transfer.lines import Copied, Header, Line, Record, digest_of, is_absent
from retentive.values.paths import ROOT
from retentive.values.text import is_text

RECORD_KINDS: tuple[str, ...] = (
    "accessed", "audit", "audit.head", "clock", "confirmed", "contributors", "erasing", "freshness",
    "gateway.call", "gateway.rounds", "gateway.until", "history",
    "idempotency", "place", "proposal", "proposal.after", "proposal.before", "proposal.past", "removal", "reviewed",
    "store.event", "store.head", "swept", "tombstone", "transcript", "transcript.entry",
)  # fmt: skip
"""Kinds of records that are copied with a memory store. Add every new kind of `Transaction.put_record` here."""
MARK, UNTIL = "migrated", "until"  # kind and key of the record in the target that has the id of the last copied version
BATCH_VERSIONS, BATCH_BYTES = 300, 4 * 1024 * 1024  # limits of one transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """Copy of one memory store. `added` counts the versions that the target did not have before.

    `revision` is the revision of the source up to which the copy is complete. `digest` is a digest of the paths, ids
    and hashes of the memories.
    """

    id: str
    key: str | None
    revision: int
    memories: int
    size_bytes: int
    versions: int
    added: int
    digest: str

    @classmethod
    def of(cls, header: Header, *, added: int) -> Self:
        """Return the result for a memory store with this header."""
        names = ("id", "key", "revision", "memories", "size_bytes", "versions", "digest")
        return cls(**{name: getattr(header, name) for name in names}, added=added)


def is_raw(backend: Backend, info: StoreInfo) -> bool:
    """Return whether an encrypted memory store is read without keys, and so copied in encrypted form."""
    return info.seal is not None and below_encryption(backend) is backend


def header_of(snapshot: Snapshot, info: StoreInfo, *, raw: bool) -> Header:
    """Return the facts of a memory store."""
    state = snapshot.state
    return Header(
        **{name: getattr(info, name) for name in ("id", "key", "name", "created_at", "workspace_id")},
        **{name: getattr(state, name) for name in ("revision", "settings", "properties")},
        **state.usage._asdict(),
        seal=state.seal if raw else None,
        versions=sum(1 for _ in all_versions(snapshot)),
        digest=_digest(snapshot),
    )


def read_lines(snapshot: Snapshot, *, after: str | None = None, raw: bool) -> Iterator[Line]:
    """Yield the versions after a version, oldest first, with their texts; then the records.

    With `raw`, an encrypted text is yielded as it is stored. Raises `Damaged` if a text is invalid.
    """
    while page := list(snapshot.versions(after=after, limit=BATCH_VERSIONS, oldest_first=True)):
        for known in page:
            version, data = snapshot.version(known.id)
            if not raw and data is not None and not is_text(data):
                raise Damaged(f"the text of version {version.id} is not valid UTF-8 or contains a NUL character")
            yield Copied(version if raw else replace(version, seal=None), data)
        after = page[-1].id
    yield from read_records(snapshot)


def read_records(snapshot: Snapshot) -> Iterator[Record]:
    """Yield the records that a copy of the memory store includes."""
    return (Record(kind, key, value) for kind in RECORD_KINDS for key, value in snapshot.records(kind))


def record_external_edits(backend: Backend, store_id: str) -> None:
    """Read the memory store once.

    If the backend is a directory, it records external edits after this read, in a short transaction of its own.
    """
    backend.read(store_id, lambda snapshot: deque(snapshot.list(ROOT), maxlen=0))


def newest_version(snapshot: Snapshot) -> str | None:
    """Return the id of the newest version, or None if there are no versions."""
    return next((version.id for version in snapshot.versions(limit=1)), None)


def last_copied(snapshot: Snapshot) -> str | None:
    """Return the id of the version that a migration copied last to a memory store, or None."""
    try:
        return snapshot.get_record(MARK, UNTIL)
    except Damaged:  # an earlier run copied in encrypted form and wrote the record; now the store is read with keys
        return None


def newest_in(target: Backend, header: Header) -> str | None:
    """Return the id of the newest version that a memory store has in the target; None if it is not there or is empty.

    Raises `InvalidInput` if a memory store of the target cannot be a copy of the memory store with this header.
    """
    info = target.get_store(header.id)
    if info is None or info.id != header.id:
        info = None if header.key is None else target.get_store(header.key, workspace=header.workspace_id)
    if info is None:
        return None
    if info.erased_at is not None:
        raise InvalidInput(f"the memory store {header.id} was erased in the target, and its id cannot be used again")
    if info.id != header.id:
        raise InvalidInput(f"a different memory store in the target already uses the key {header.key!r}")
    if (info.key, info.workspace_id) != (header.key, header.workspace_id):
        raise InvalidInput(
            f"the memory store {header.id} exists in the target with another key or in another workspace"
        )
    return target.read(header.id, newest_version)


def write_copy(
    target: Backend,
    header: Header,
    lines: Iterable[Line],
    *,
    newest: str | None,
    progress: TransferProgress | None,
    original: Snapshot | None = None,
) -> Copy:
    """Record the lines of a memory store that a copy lacks, create the copy if needed, and verify its memories.

    `newest` is the id of the newest version of the copy, as `newest_in` returns it; earlier versions in the lines are
    skipped. With `original`, the copy also loses the versions that its original has lost since they were copied, and a
    record of the copy has the id of the last copied version. Raises `Damaged` if the copy differs from the original.
    """
    info = target.create_store(
        key=header.key,
        name=header.name,
        seal=header.seal,
        store_id=header.id,
        created_at=header.created_at,
        workspace=header.workspace_id,
    )
    if header.seal is None:
        capabilities.unlock(target, info)
    added, records = 0, list[Record]()

    def new() -> Iterator[Copied]:
        for line in lines:
            if isinstance(line, Record):
                records.append(line)
            elif isinstance(line, Copied) and line.version.id > (newest or ""):
                yield line

    for batch in batched(new(), lambda copied: len(copied.data or b""), most=BATCH_VERSIONS, most_bytes=BATCH_BYTES):
        target.write(header.id, partial(_record, batch=batch, raw=header.seal is not None, mark=original is not None))
        added += len(batch)
        if progress is not None:
            progress(added, header.versions)
    if original is not None:
        _copy_removals(original, target, header)
    target.write(header.id, partial(_write_records, header=header, records=records))
    digest, usage = target.read(header.id, lambda found: (_digest(found), found.state.usage))
    if digest != header.digest or usage != Usage(header.memories, header.size_bytes):
        raise Damaged("the memories of the copy differ from the original")
    return Copy.of(header, added=added)


def _record(tx: Transaction, *, batch: list[Copied], raw: bool, mark: bool) -> None:
    """Record versions with their ids, times and actors.

    A history has gaps where versions were redacted or removed. A redacted version does not say if its memory was
    changed or deleted; the memory is absent until its next version. If the version that moved or deleted a memory was
    removed, the memory stays until a later version needs its path. A deletion then stands for the removed version.
    """
    for copied in batch:
        version, data = copied.version, copied.data
        before, changes, sealing = tx.find(version.memory_id), list[Imported](), None
        if not is_absent(version):
            others = [memory for memory in in_the_way(tx, version.path) if memory.id != version.memory_id]
            earlier = version.id[:-1] + chr(ord(version.id[-1]) - 1)  # sorts after the ids of all earlier versions
            changes = stand_ins(others, earlier, version)
            if data is None:
                raise Damaged(f"version {version.id} in the history has no text, although it is not a deletion")
            if before is not None and before.path != version.path and tx.get(before.path).data == data:
                data = None  # a rename keeps the text
        if raw and version.seal is not None:
            size_bytes, sha256 = (None, None) if data is None else (version.size_bytes, version.sha256)
            kept, data = Kept(data, size_bytes, sha256, version.seal), None
            sealing = partial(lambda stored, *_: stored, kept)
        tx.record([*changes, Imported(version, before, data, sealing)], None)
    if mark:
        tx.put_record(MARK, UNTIL, batch[-1].version.id)


def stand_ins(memories: Iterable[Memory], earlier: str, at: Version) -> list[Imported]:
    """Return deletions that stand for versions that were removed from the history.

    They are redacted versions, because their paths need not be known, and because nothing in them needs encryption.
    Their ids follow `earlier`. Their time and revision are those of the version `at`.
    """
    gone = replace(at, operation="deleted", path="", size_bytes=None, sha256=None, seal=None, provenance_text=None)
    gone = replace(gone, redacted_at=at.created_at)
    return [
        Imported(replace(gone, id=f"{earlier}~{number:06d}", memory_id=memory.id), memory)
        for number, memory in enumerate(memories)
    ]


def _write_records(tx: Transaction, *, header: Header, records: Iterable[Record]) -> None:
    """Write the settings, properties, seal and records of a copy."""
    if (tx.state.settings, tx.state.properties) != (header.settings, header.properties):
        tx.set_metadata(settings=header.settings, properties=header.properties)
    if header.seal is not None and tx.state.seal != header.seal:
        tx.set_metadata(seal=header.seal)
    wanted = {(record.kind, record.key): record.value for record in records}
    present = {(record.kind, record.key): record.value for record in read_records(tx)}
    for place in present.keys() | wanted.keys():
        if present.get(place) != wanted.get(place):
            tx.put_record(*place, wanted.get(place))


def _digest(snapshot: Snapshot) -> str:
    return digest_of(memory for memory, _ in snapshot.list(ROOT))


def _copy_removals(source: Snapshot, target: Backend, header: Header) -> None:
    """Redact or prune versions in the copy if they are redacted or pruned in the source.

    Raises `Damaged` if a version in the copy is missing or differs from its original.
    """

    def facts(version: Version) -> Version:
        return replace(version, seal=version.seal if header.seal else None, redacted_at=None, redacted_by=None)

    def compare(copy: Snapshot) -> tuple[list[Version], dict[Actor | None, list[Version]]]:
        pruned, redacted = list[Version](), dict[Actor | None, list[Version]]()
        originals = all_versions(source)
        original = next(originals, None)
        for copied in all_versions(copy):  # newest first
            if original is None or original.id < copied.id:
                pruned.append(copied)
                continue
            if original.redacted_at is not None and copied.redacted_at is None and original.id == copied.id:
                redacted.setdefault(original.redacted_by, []).append(copied)
            elif facts(original) != facts(copied):
                raise Damaged(f"the copy of version {original.id} is missing or differs from the original")
            original = next(originals, None)
        if original is not None:
            raise Damaged(f"the copy of version {original.id} is missing")
        return pruned, redacted

    pruned, redacted = target.read(header.id, compare)
    if pruned or redacted:
        target.write(header.id, partial(_remove, pruned=pruned, redacted=redacted), may_use_reserve=True)
        target.purge()


def _remove(tx: Transaction, *, pruned: Iterable[Version], redacted: dict[Actor | None, list[Version]]) -> None:
    """Prune and redact versions. A memory whose newest version goes was deleted by a version that is gone too."""
    going = {version.id: version.memory_id for version in chain(pruned, *redacted.values())}
    present = memories_by_id(tx, {*going.values()}).values()
    newest = max(newest_version(tx) or "", last_copied(tx) or "")
    gone = [memory for memory in present if memory.version_id in going]
    deletions = stand_ins(gone, newest, next(tx.versions(limit=1)))
    tx.record(deletions, None)
    for actor, versions in redacted.items():
        tx.redact([version.id for version in versions], actor)
    tx.prune([version.id for version in (*pruned, *(deletion.version for deletion in deletions))])
