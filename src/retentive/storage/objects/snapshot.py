"""Snapshot of a memory store in object storage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice, takewhile
from typing import Unpack, cast

from retentive.errors import Damaged, NotFound
from retentive.storage.contract import (
    Entry,
    Memory,
    Selection,
    Snapshot,
    Usage,
    Version,
    verified,
    verify_version,
)
from retentive.storage.objects.manifest import Manifest
from retentive.storage.objects.ordered_map import OrderedMap
from retentive.storage.objects.reader import Reader
from retentive.storage.objects.records import GARBAGE, MEMORY, VERSION, Edits, MapValue, VersionRow, record_key, text_in
from retentive.storage.sql.snapshot import below
from retentive.values.paths import ROOT, ancestors

_TEXTS_AT_ONCE = 64
_BYTES_AT_ONCE = 8 * 1024 * 1024
_ALL_VERSIONS = VERSION + chr(0x10FFFF)


class ObjectsSnapshot(Snapshot):
    """Snapshot of a memory store in the state that one manifest describes."""

    def __init__(self, manifest: Manifest, reader: Reader) -> None:
        self._manifest = manifest
        self._state = manifest.state
        self._reader = reader
        self._see(manifest.log)

    def _see(self, overlay: Edits) -> None:
        """Set the edits that this snapshot applies to the tree of the manifest when it reads."""
        self._overlay = overlay
        self._map = OrderedMap(self._manifest.tree, overlay, self._reader.pages)

    @property
    def revision(self) -> int:
        return self._state.revision

    @property
    def seal(self) -> str | None:
        return self._manifest.seal

    @property
    def settings(self) -> str | None:
        return self._manifest.settings

    @property
    def properties(self) -> str | None:
        return self._manifest.properties

    def usage(self) -> Usage:
        return Usage(self._state.memories, self._state.size_bytes)

    def get(self, path: str) -> Entry:
        row = self._row_at(path)
        if row is not None:
            memory = row.as_memory()
            return Entry(memory, verified(self._reader.text(_text_of(row)), memory.sha256, memory.seal, memory.path))
        ancestor = filter(None, self._map.get_all([MEMORY + one for one in ancestors(path)]))
        above = next((one.path for one in ancestor if isinstance(one, VersionRow)), None)
        return Entry(above=above, below=self._map.has_any(*_below(path)))

    def memories(self, under: str) -> Iterator[Memory]:
        return (row.as_memory() for row in self._present(under))

    def sizes(self, under: str) -> Iterator[tuple[str, int]]:
        return ((row.path, row.size or 0) for row in self._present(under))

    def walk(
        self, under: str, *, start: str = "", limit: int | None = None, texts: bool = False
    ) -> Iterator[tuple[Memory, bytes | None]]:
        low, high = _below(under)
        found = self._map.values(max(low, MEMORY + start), high, ahead=1)
        rows = cast("Iterator[VersionRow]", islice(found, limit))
        return self._texts_of(rows) if texts else ((row.as_memory(), None) for row in rows)

    def texts(self, under: str) -> Iterator[tuple[Memory, bytes]]:
        return self._texts_of(self._present(under))

    def _texts_of(self, rows: Iterable[VersionRow]) -> Iterator[tuple[Memory, bytes]]:
        for group in _groups(rows):
            texts = self._reader.texts(list(map(_text_of, group)))
            for memory, data in zip(map(VersionRow.as_memory, group), texts, strict=True):
                yield memory, verified(data, memory.sha256, memory.seal, memory.path)

    def find(self, memory_id: str) -> Memory | None:
        recent = (row for row in self._overlay.values() if isinstance(row, VersionRow) and row.memory == memory_id)
        chosen = max(recent, key=lambda row: row.id, default=None)
        if chosen is not None and self._row_at(chosen.path) == chosen:
            return chosen.as_memory()
        if chosen is not None and chosen.operation == "deleted" and chosen.redacted_at is None:
            return None
        return next((row.as_memory() for row in self._present(ROOT) if row.memory == memory_id), None)

    def _row_at(self, path: str) -> VersionRow | None:
        return cast("VersionRow | None", self._map.get(MEMORY + path))

    def _present(self, under: str) -> Iterator[VersionRow]:
        return cast("Iterator[VersionRow]", self._map.values(*_below(under)))

    def versions(self, **selection: Unpack[Selection]) -> Iterator[Version]:
        revision_of, memory_id, path = selection.get("revision_of"), selection.get("memory_id"), selection.get("path")
        after, before = selection.get("after"), selection.get("before")
        oldest_first = selection.get("oldest_first", False)
        rows = self._rows("" if after is None else after + "\0", before, reverse=not oldest_first)
        if revision_of is not None:
            low, high = after or "", before or chr(0x10FFFF)
            found = [row for row in self._of_revision(revision_of) if low < row.id < high]
            rows = reversed(found) if oldest_first else iter(found)
        if memory_id is not None:
            rows = _of_memory(rows, memory_id, until_first=not oldest_first)
        chosen = (row.as_version() for row in rows if path is None or row.path == path)
        return islice(chosen, selection.get("limit"))

    def as_of(self, before: str) -> Iterator[Version]:
        if self._manifest.has_gaps:
            yield from super().as_of(before)
            return
        begun, changed = set[str](), set[str]()
        for row in self._rows(before, None):
            (begun if row.first else changed).add(row.memory)
        for row in self._present(ROOT):  # memories without later versions
            if row.id < before and row.memory not in changed | begun:
                yield row.as_version()
        sought, older = changed - begun, self._rows("", before)
        while sought and (found := next(older, None)) is not None:
            if found.memory in sought:
                sought.discard(found.memory)
                if found.operation != "deleted":
                    yield found.as_version()

    def version(self, version_id: str) -> tuple[Version, bytes | None]:
        row = self._row(version_id)
        if row is None:
            raise NotFound(f"there is no version {version_id}")
        return verify_version(row.as_version(), None if row.text is None else self._reader.text(row.text))

    def _row(self, version_id: str) -> VersionRow | None:
        return cast("VersionRow | None", self._map.get(VERSION + version_id))

    def _rows(self, least: str, before: str | None, *, reverse: bool = True) -> Iterator[VersionRow]:
        """Return the rows of the versions with `least <= id < before`, newest first.

        With `reverse=False`, the oldest version comes first.
        """
        high = _ALL_VERSIONS if before is None else VERSION + before
        return cast("Iterator[VersionRow]", self._map.values(VERSION + least, high, reverse=reverse, ahead=1))

    def _of_revision(self, version_id: str) -> list[VersionRow]:
        """Return the rows of all versions that were committed together with the version `version_id`, newest first.

        In the order of ids, these versions are adjacent.
        """
        row = self._row(version_id)
        if row is None:
            return []
        since = cast("Iterator[VersionRow]", self._map.values(VERSION + version_id, _ALL_VERSIONS, ahead=1))
        newer = list(takewhile(lambda each: each.revision == row.revision, since))
        older = takewhile(lambda each: each.revision == row.revision, self._rows("", version_id))
        return [*reversed(newer), *older]

    def get_record(self, kind: str, key: str) -> str | None:
        value = self._map.get(record_key(kind, key))
        return None if value is None else self._contents([value])[0]

    def records(self, kind: str, *, after: str = "", limit: int | None = None) -> Iterator[tuple[str, str]]:
        return islice(self._records(record_key(kind, ""), after), limit)

    def _records(self, start: str, after: str) -> Iterator[tuple[str, str]]:
        low = start + after + "\0" if after else start
        for chunk in self._map.chunks(low, start[:-1] + "\1"):
            for at in range(0, len(chunk), _TEXTS_AT_ONCE):
                keys, values = zip(*chunk[at : at + _TEXTS_AT_ONCE], strict=True)
                yield from zip((key.removeprefix(start) for key in keys), self._contents(values), strict=True)

    def _contents(self, values: Iterable[MapValue]) -> list[str]:
        """Return the values of records. `values` has their forms in the map: a long value is a reference to a pack."""
        found = [(str(value), text_in(value)) for value in values]
        texts = iter(self._reader.texts([text for _, text in found if text is not None]))
        return [value[1:] if text is None else next(texts).decode(errors="surrogatepass") for value, text in found]

    def garbage(self) -> list[str]:
        """Return references to the texts that should be erased."""
        return [key[1:] for chunk in self._map.chunks(GARBAGE, MEMORY) for key, _ in chunk]


def _of_memory(rows: Iterable[VersionRow], memory_id: str, *, until_first: bool) -> Iterator[VersionRow]:
    for row in rows:
        if row.memory == memory_id:
            yield row
            if row.first and until_first:
                return


def _below(path: str) -> tuple[str, str]:
    """Return bounds `low` and `high`: the map keys of memories strictly below a path have `low <= key < high`."""
    low, high = below(path)
    return MEMORY + low, MEMORY + high


def _text_of(row: VersionRow) -> str:
    if row.text is None:
        raise Damaged("a text of the memory store is missing")
    return row.text


def _groups(rows: Iterable[VersionRow]) -> Iterator[list[VersionRow]]:
    """Yield rows in groups of at most 64. A group ends as soon as its texts have 8 MiB."""
    group: list[VersionRow] = []
    for row in rows:
        group.append(row)
        if len(group) == _TEXTS_AT_ONCE or sum(each.size or 0 for each in group) >= _BYTES_AT_ONCE:
            yield group
            group = []
    if group:
        yield group
