"""A history on its way from one memory store to another: read oldest first, and taken over version by version."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeAlias, TypeVar

from retentive.errors import Damaged, NotFound
from retentive.storage.contract import Change, Kept, Memory, Sealing, Snapshot, Transaction, Version
from retentive.storage.paging import PAGE_VERSIONS, version_pages
from retentive.values.records import Again
from retentive.values.text import is_text

BATCH_VERSIONS, BATCH_BYTES = 300, 4 * 1024 * 1024  # of one transaction; one revision is never split

T = TypeVar("T")
Range: TypeAlias = "tuple[str | None, str | None]"
Ages: TypeAlias = Mapping[str, datetime]
"""When each present memory was created: of one whose first versions are gone, these do not tell."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A version to take over. `data` None with `text_of`: the text that this version, there already, left behind.

    `raw`: what rests of a sealed version, to be kept with its seal as it is.
    """

    version: Version
    data: bytes | None
    text_of: str | None = None
    born: datetime | None = None
    raw: bool = False


class History:
    """The versions of a store after one of them, as one snapshot has them; pages of them are read when wanted."""

    def __init__(self, snapshot: Snapshot, *, after: str | None = None) -> None:
        self.count = 0
        self.newest: str | None = None
        self._ranges: list[Range] = []
        upper: str | None = None

        def read(before: str | None) -> list[Version]:
            return list(snapshot.versions(after=after, before=before, limit=PAGE_VERSIONS))

        for page in version_pages(read):
            if self._ranges:
                self._ranges[-1] = (page[0].id, self._ranges[-1][1])
            self.newest = self.newest or page[0].id
            self.count += len(page)
            self._ranges.append((after, upper or page[0].id + "!"))  # right after it: later ones are not of this
            upper = page[-1].id

    def oldest_first(self, read: Callable[[Range], Sequence[Version]]) -> Iterator[Version]:
        """The versions, by way of a function that gives those strictly between two ids, newest first."""
        for between in reversed(self._ranges):
            yield from reversed(read(between))


def between(snapshot: Snapshot, ids: Range) -> list[Version]:
    """The versions strictly between two ids, newest first."""
    return list(snapshot.versions(after=ids[0], before=ids[1]))


def batches(items: Iterable[T], version_of: Callable[[T], Version]) -> Iterator[list[T]]:
    """What is about versions, for one transaction each: some hundred or some MB, and all of a revision together."""
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
    """A version and its text as they are now. Raises `NotFound`, and `Damaged` for no text, or another one."""
    version, data = snapshot.version(version_id)
    if raw:
        return version, data
    if data is not None and hashlib.sha256(data).hexdigest() != version.sha256:
        raise Damaged(f"the text of version {version_id} is not the one that was recorded")
    if data is not None and not is_text(data):
        raise Damaged(f"the text of version {version_id} is no text (UTF-8 without NUL)")
    return replace(version, seal=None), data


def load_all(snapshot: Snapshot, batch: Sequence[Version], born: Ages, *, raw: bool) -> list[Taken]:
    """The versions of a batch with their texts; one that was removed meanwhile is left out."""
    taken: list[Taken] = []
    for known in batch:
        try:
            version, data = load(snapshot, known.id, raw=raw)
        except NotFound:
            continue
        taken.append(Taken(version, data, born=born.get(version.memory_id), raw=raw))
    return taken


def take_over(tx: Transaction, taken: Iterable[Taken]) -> None:
    """Record versions as they were elsewhere, oldest first.

    A history may have gaps, where versions were redacted or removed: what a gap leaves present that is not any more
    is forgotten when the next version shows it.
    """
    for one in taken:
        tx.record([_change(tx, one)], None)


def _change(tx: Transaction, one: Taken) -> Change:
    version = one.version
    before = tx.find(version.memory_id)
    if version.redacted_at is not None:
        if before is not None:  # what it is from here on is not known
            tx.drop([before])
        return Change(None, None, origin=version)
    if version.operation == "deleted":
        return Change(before, None, sealing=_sealing(one, None), origin=version)
    _make_way(tx, version)
    data = one.data if one.text_of is None else tx.text(one.text_of)
    if data is None:
        raise Damaged(f"version {version.id} has no text")
    if before is not None and before.path != version.path:
        if tx.get(before.path).data == data:
            return Change(before, version.path, sealing=_sealing(one, None), origin=version)
        tx.drop([before])
        one, before = replace(one, born=one.born or before.created_at), None
    again = Again(version.memory_id, one.born or version.created_at) if before is None else None
    sealing = _sealing(one, data)
    kept = None if sealing is not None else data
    return Change(before, version.path, kept, sealing=sealing, again=again, origin=version)


def _make_way(tx: Transaction, version: Version) -> None:
    """Forget what stands at, above or below the path of a version: its own end fell into a gap."""
    look = tx.get(version.path)
    gone: list[Memory] = []
    if look.memory is not None and look.memory.id != version.memory_id:
        gone.append(look.memory)
    if look.above is not None and (above := tx.get(look.above).memory) is not None:
        gone.append(above)
    if look.below:
        gone += tx.memories(version.path)
    gone = [memory for memory in gone if memory.id != version.memory_id]
    if gone:
        tx.drop(gone)


def _sealing(one: Taken, data: bytes | None) -> Sealing | None:
    """What keeps a raw version as it is; None for one that is not."""
    if not one.raw or one.version.seal is None:
        return None
    version = one.version
    kept = Kept(data, None if data is None else version.sha256, version.seal)
    return Sealing(None if data is None else version.size_bytes, lambda _memory, _version: kept)
