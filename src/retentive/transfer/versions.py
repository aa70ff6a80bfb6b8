"""Copies histories between memory stores. Versions are read oldest first and recorded one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

from retentive.errors import Damaged, NotFound
from retentive.storage.contract import Imported, Kept, Memory, Sealing, Snapshot, Transaction, Version
from retentive.storage.paging import PAGE_VERSIONS, version_pages
from retentive.values.text import is_text

MARK, UNTIL = "migrated", "until"  # kind and key of the record in the target that has the id of the last copied version
BATCH_VERSIONS, BATCH_BYTES = 300, 4 * 1024 * 1024  # limits of one transaction, which never splits a revision

T = TypeVar("T")
Range: TypeAlias = "tuple[str | None, str | None]"


@dataclass(frozen=True, slots=True)
class ImportedVersion:
    """Version to record. Its text is in `data`, or `text_of` is the id of an imported version with the same text.

    If `raw` is True, `data` is encrypted. It is then stored unchanged, together with the seal.
    """

    version: Version
    data: bytes | None
    text_of: str | None = None
    raw: bool = False


class VersionIndex:
    """Index of the versions after a given version: ranges of their ids. The versions themselves are read on demand."""

    def __init__(self, snapshot: Snapshot, *, after: str | None = None) -> None:
        self.count = 0
        self.ranges: list[Range] = []
        upper: str | None = None

        def read(before: str | None) -> list[Version]:
            return list(snapshot.versions(after=after, before=before, limit=PAGE_VERSIONS))

        for page in version_pages(read):
            if self.ranges:
                self.ranges[-1] = (page[0].id, self.ranges[-1][1])
            self.count += len(page)
            self.ranges.append((after, upper or page[0].id + "!"))  # "!" sorts after this id and before every later id
            upper = page[-1].id

    def oldest_first(self, read: Callable[[Range], Sequence[Version]]) -> Iterator[Version]:
        """Yield the versions, oldest first. `read` returns the versions in a range of ids, newest first."""
        for ids in reversed(self.ranges):
            yield from reversed(read(ids))


def versions_between(snapshot: Snapshot, ids: Range) -> list[Version]:
    """Return the versions strictly between two ids, newest first."""
    return list(snapshot.versions(after=ids[0], before=ids[1]))


def batches(items: Iterable[T], version_of: Callable[[T], Version]) -> Iterator[list[T]]:
    """Yield the items in batches. Each batch is for one transaction and ends at the end of a revision."""
    batch: list[T] = []
    size = 0
    for item in items:
        version = version_of(item)
        full = len(batch) >= BATCH_VERSIONS or size >= BATCH_BYTES
        if full and version.revision != version_of(batch[-1]).revision:
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += version.size_bytes or 0
    if batch:
        yield batch


def load(snapshot: Snapshot, version_id: str, *, raw: bool) -> tuple[Version, bytes | None]:
    """Return a version and its text. Raises `NotFound`. Raises `Damaged` if the text is invalid.

    With `raw`, an encrypted text is returned as it is stored.
    """
    version, data = snapshot.version(version_id)
    if raw:
        return version, data
    if data is not None and not is_text(data):
        raise Damaged(f"the text of version {version_id} is not valid UTF-8 or contains a NUL character")
    return replace(version, seal=None), data


def load_all(snapshot: Snapshot, batch: Sequence[Version], *, raw: bool) -> list[ImportedVersion]:
    """Return the versions of a batch with their texts. Versions that were removed during the copy are left out."""
    loaded: list[ImportedVersion] = []
    for known in batch:
        with suppress(NotFound):
            version, data = load(snapshot, known.id, raw=raw)
            loaded.append(ImportedVersion(version, data, raw=raw))
    return loaded


def record_imported(tx: Transaction, imported: Iterable[ImportedVersion]) -> None:
    """Record versions with their ids, times and actors. The oldest version must come first.

    A history has gaps where versions were redacted or removed. A redacted version does not say if its memory was
    changed or deleted; the memory is absent until its next version. If the version that moved or deleted a memory was
    removed, the memory stays until a later version needs its path.
    """
    for one in imported:
        tx.record([*_freeing(tx, one.version), _change(tx, one)], None)


def missing_deletion(memory: Memory, version_id: str, at: Version) -> Imported:
    """Return a deletion that stands for versions that were removed from the history.

    It is a redacted version, because its path need not be known, and because nothing in it needs encryption. Its time
    and revision are those of the version `at`.
    """
    redacted = replace(
        at,
        id=version_id,
        memory_id=memory.id,
        operation="deleted",
        path="",
        size_bytes=None,
        sha256=None,
        seal=None,
        redacted_at=at.created_at,
        provenance_text=None,
    )
    return Imported(redacted, memory)


def _change(tx: Transaction, one: ImportedVersion) -> Imported:
    version = one.version
    before = tx.find(version.memory_id)
    if version.redacted_at is not None or version.operation == "deleted":
        return Imported(version, before, sealing=_sealing(one, None))
    data = one.data if one.text_of is None else tx.version(one.text_of)[1]
    if data is None:
        raise Damaged(f"version {version.id} in the history has no text, although it is not a deletion")
    if before is not None and before.path != version.path and tx.get(before.path).data == data:
        return Imported(version, before, sealing=_sealing(one, None))
    sealing = _sealing(one, data)
    return Imported(version, before, data if sealing is None else None, sealing)


def _freeing(tx: Transaction, version: Version) -> list[Imported]:
    """Return deletions of the memories that are in conflict with a version: those at, above or below its path.

    The versions that moved or deleted these memories are in a gap of the history. The ids of the deletions sort before
    that of `version`, and after those of all earlier versions.
    """
    if version.redacted_at is not None or version.operation == "deleted":
        return []
    entry = tx.get(version.path)
    above = None if entry.above is None else tx.get(entry.above).memory
    below = (memory for memory, _ in tx.list(version.path)) if entry.below else ()
    found = [memory for memory in (entry.memory, above, *below) if memory is not None]
    others = [memory for memory in found if memory.id != version.memory_id]
    earlier = version.id[:-1] + chr(ord(version.id[-1]) - 1)
    return [missing_deletion(memory, f"{earlier}~{number:06d}", version) for number, memory in enumerate(others)]


def _sealing(one: ImportedVersion, data: bytes | None) -> Sealing | None:
    """Return the sealing that stores an encrypted version unchanged, or None if the version is not encrypted."""
    if not one.raw or one.version.seal is None:
        return None
    version = one.version
    size, sha256 = (None, None) if data is None else (version.size_bytes, version.sha256)
    return lambda _memory, _version: Kept(data, size, sha256, version.seal)
