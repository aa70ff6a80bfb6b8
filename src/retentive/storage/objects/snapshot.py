"""Snapshot of a memory store in object storage."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, takewhile
from typing import Unpack, cast

from retentive.errors import Damaged, NotFound
from retentive.storage.contract import (
    Entry,
    Memory,
    Selection,
    Snapshot,
    State,
    Usage,
    Version,
    to_datetime,
    verified,
    verify_version,
)
from retentive.storage.objects.manifest import Manifest
from retentive.storage.objects.ordered_map import OrderedMap
from retentive.storage.objects.reader import Reader
from retentive.storage.objects.records import MEMORY, VERSION, MapValue, TextRef, VersionRow, record_key
from retentive.storage.packs import Packing
from retentive.values.listing import listed
from retentive.values.listing import one_level as one_level_of
from retentive.values.paths import ROOT, ancestors
from retentive.values.records import time_in_id

_TEXTS_AT_ONCE = 64
_BYTES_AT_ONCE = 8 * 1024 * 1024
_ALL_VERSIONS = VERSION + chr(0x10FFFF)


class ObjectsSnapshot(Snapshot):
    """Snapshot of a memory store in the state that one manifest describes."""

    def __init__(self, manifest: Manifest, reader: Reader) -> None:
        self.manifest = manifest
        self._reader = reader
        self._map = OrderedMap(manifest.tree, manifest.log, reader.pages)

    @property
    def state(self) -> State:
        manifest = self.manifest
        usage = Usage(manifest.memories, manifest.size_bytes)
        return State(manifest.revision, manifest.settings, manifest.seal, manifest.properties, usage)

    def get(self, path: str) -> Entry:
        row = self._row(MEMORY + path)
        if row is not None:
            memory, data = next(self._with_texts([row]))
            return Entry(memory, data)
        ancestor = filter(None, self._map.get_all([MEMORY + one for one in ancestors(path)]))
        above = next((one.path for one in ancestor if isinstance(one, VersionRow)), None)
        return Entry(above=above, below=self._map.has_any(*_below(path)))

    def find(self, memory_id: str) -> Memory | None:
        return next((self._memory(row) for row in self._present(ROOT) if row.memory == memory_id), None)

    def list(
        self, under: str, *, start: str = "", limit: int | None = None, one_level: bool = False, texts: bool = False
    ) -> Iterator[tuple[Memory, bytes | None]]:
        def walk(at: str, size: int | None) -> Iterator[VersionRow]:
            return islice(self._present(under, at), size)

        rows = one_level_of(walk, under, start=start, limit=limit) if one_level else walk(start, limit)
        return self._with_texts(rows) if texts else ((self._memory(row), None) for row in rows)

    def list_at(
        self, before: str, under: str, *, start: str = "", limit: int | None = None, one_level: bool = False
    ) -> Iterator[Version]:
        found = listed(self._present_at(before, under), under, start=start, limit=limit, is_level=one_level)
        return (row.as_version() for row in found)

    def _present_at(self, before: str, under: str) -> Iterator[VersionRow]:
        """Yield the newest version of each memory that existed before the version `before`, if it may be below `under`.

        Reads the versions since then, and older ones only until it has found the memories that changed since then.
        """
        later = [*self._rows(before, None)]
        changed = {row.memory for row in later}
        yield from (row for row in self._present(under) if row.memory not in changed)
        sought, older = changed - {row.memory for row in later if row.is_first}, self._rows("", before)
        while sought and (row := next(older, None)) is not None:
            if row.memory in sought:
                sought.discard(row.memory)
                if row.operation != "deleted" and row.redacted_at is None:
                    yield row

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
            of_memory = (row for row in rows if row.memory == memory_id)
            rows = of_memory if oldest_first else _until_first(of_memory)
        if path is not None:
            below = path if path.endswith("/") else None
            rows = (row for row in rows if (row.path == path if below is None else row.path.startswith(below)))
        chosen = (row.as_version() for row in rows)
        return islice(chosen, selection.get("limit"))

    def version(self, version_id: str) -> tuple[Version, bytes | None]:
        row = self._row(VERSION + version_id)
        if row is None:
            raise NotFound(f"there is no version {version_id}")
        if row.text is not None and row.text.is_packed:
            ids, text = self.texts_in(row.text.pack)[row.text.offset]
            return verify_version(row.as_version(), self.packing.stored(ids.split()[0], text))
        return verify_version(row.as_version(), None if row.text is None else self._reader.texts([row.text])[0])

    @property
    def packing(self) -> Packing:
        """How the compressed packs of the store are encoded."""
        return self._reader.packing(self._reader.store_id, self.manifest.seal)

    def texts_in(self, name: str) -> Sequence[tuple[str, bytes]]:
        """Return the texts of a compressed pack, each with the ids of the versions that have it."""
        texts = cast("list[tuple[str, bytes]] | None", self._reader.cache.get((self._reader.store_id, name)))
        if texts is None:
            texts = list(self.packing.decode(self._reader.packed(name)).items())
            self.keep_pack(name, texts)
        return texts

    def keep_pack(self, name: str, texts: Sequence[tuple[str, bytes]]) -> None:
        """Cache the texts of a compressed pack."""
        self._reader.cache.put((self._reader.store_id, name), texts, sum(len(text) for _, text in texts))

    def superseded_texts(self) -> set[TextRef]:
        """Return the texts of all versions, except those of existing memories."""
        current = {row.text for row in self._present(ROOT)}
        return {row.text for row in self._rows("", None) if row.text and row.text not in current}

    def get_record(self, kind: str, key: str) -> str | None:
        value = self._map.get(record_key(kind, key))
        return None if value is None else self._contents([value])[0]

    def records(self, kind: str, *, after: str = "", limit: int | None = None) -> Iterator[tuple[str, str]]:
        start = record_key(kind, "")
        chunks = self._map.chunks(start + after + "\0" if after else start, start[:-1] + "\1")
        items = islice(chain.from_iterable(chunks), limit)
        while some := list(islice(items, _TEXTS_AT_ONCE)):
            keys = (key.removeprefix(start) for key, _ in some)
            yield from zip(keys, self._contents([value for _, value in some]), strict=True)

    def _row(self, key: str) -> VersionRow | None:
        return cast("VersionRow | None", self._map.get(key))

    def _present(self, under: str, start: str = "") -> Iterator[VersionRow]:
        low, high = _below(under)
        return cast("Iterator[VersionRow]", self._map.values(max(low, MEMORY + start), high))

    def _memory(self, row: VersionRow) -> Memory:
        """Return the memory whose newest version is `row`. It is as old as its id, or as its oldest version."""
        born = time_in_id(row.memory)
        if born is None:
            versions = self._rows("", None, reverse=False)
            born = next((each.at for each in versions if each.memory == row.memory), row.at)
        return Memory.of(row.as_version(), to_datetime(born))

    def _with_texts(self, rows: Iterable[VersionRow]) -> Iterator[tuple[Memory, bytes]]:
        for group in _groups(rows):
            if any(row.text is None for row in group):
                raise Damaged("a text of the memory store is missing")
            texts = self._reader.texts([row.text or TextRef() for row in group])
            for memory, data in zip(map(self._memory, group), texts, strict=True):
                yield memory, verified(data, memory.sha256, memory.seal, memory.path)

    def _rows(self, least: str, before: str | None, *, reverse: bool = True) -> Iterator[VersionRow]:
        """Return the rows of the versions with `least <= id < before`, newest first.

        With `reverse=False`, the oldest version comes first.
        """
        high = _ALL_VERSIONS if before is None else VERSION + before
        return cast("Iterator[VersionRow]", self._map.values(VERSION + least, high, reverse=reverse))

    def _of_revision(self, version_id: str) -> Sequence[VersionRow]:
        """Return the rows of all versions that were committed together with the version `version_id`, newest first.

        In the order of ids, these versions are adjacent.
        """
        row = self._row(VERSION + version_id)
        if row is None:
            return []
        revision = row.revision
        newer = takewhile(lambda each: each.revision == revision, self._rows(version_id, None, reverse=False))
        older = takewhile(lambda each: each.revision == revision, self._rows("", version_id))
        return [*reversed([*newer]), *older]

    def _contents(self, values: Sequence[MapValue]) -> Sequence[str]:
        """Return the values of records. `values` has their forms in the map: a long value is a reference to a pack."""
        texts = iter(self._reader.texts([value for value in values if isinstance(value, TextRef)]))
        return [value if isinstance(value, str) else next(texts).decode(errors="surrogatepass") for value in values]


def _until_first(rows: Iterable[VersionRow]) -> Iterator[VersionRow]:
    """Yield the rows of one memory, newest first, up to its first version."""
    for row in rows:
        yield row
        if row.is_first:
            return


def _below(path: str) -> tuple[str, str]:
    """Return bounds `low` and `high`: the map keys of memories strictly below a path have `low <= key < high`."""
    return f"{MEMORY}{path}/", f"{MEMORY}{path}0"  # "0" is the character after "/"


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
