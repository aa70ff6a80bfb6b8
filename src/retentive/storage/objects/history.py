"""The versions of a memory store in object storage: those of the log, and older ones in a tree of chunks.

The tree is in the order of ids, oldest first, and knows of each part its newest version. So what is asked for between
two ids is found without reading the rest.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice

from retentive.storage.contract import Version
from retentive.storage.objects.compaction import Sizes, evenly, made_chunk, made_node
from retentive.storage.objects.immutables import Immutables
from retentive.storage.objects.records import MemoryEntry, Record, Ref

_AHEAD = 16  # chunks read at once, when it comes to that

Levels = Sequence[Sequence[Ref]]


class History:
    """All versions of one state; `latest` are those of the log, newest first."""

    def __init__(self, levels: Levels, latest: Sequence[Record], objects: Immutables) -> None:
        self._levels = levels
        self._latest = latest
        self._objects = objects

    def between(self, *, after: str | None = None, before: str | None = None) -> Iterator[Record]:
        """Versions with ids strictly between, newest first."""
        return self._between("" if after is None else after + "\0", before)

    def since(self, version_id: str) -> Iterator[Record]:
        """The version with this id and all after it, newest first."""
        return self._between(version_id, None)

    def of_memory(self, memory_id: str, *, after: str | None = None, before: str | None = None) -> Iterator[Record]:
        """Versions of one memory, newest first."""
        for record in self.between(after=after, before=before):
            if record.memory == memory_id:
                yield record
                if record.first:
                    return

    def record(self, version_id: str) -> Record | None:
        """The version with this id, if there is one."""
        found = next((record for record in self._latest if record.id == version_id), None)
        if found is not None:
            return found
        for ref in self._chunks(version_id, version_id):
            chunk = self._objects.chunk(ref)
            at = bisect_left(chunk, version_id, key=_id)
            if at < len(chunk) and chunk[at].id == version_id:
                return chunk[at]
        return None

    def heads(self, before: str, present: Iterable[MemoryEntry], strays: Collection[str]) -> Iterator[Version]:
        """Of each memory the newest version with an id below `before`, if it is no deletion.

        Of a memory that has not changed since, that is the version it is `present` with. `strays` are those that are
        not present though their newest version is no deletion.
        """
        begun, changed = set(), set(strays)
        for record in self.since(before):
            changed.add(record.memory)
            if record.first:
                begun.add(record.memory)
        yield from (
            entry.as_version() for entry in present if entry.version < before and entry.id not in changed | begun
        )
        sought = changed - begun
        older = self.between(before=before)
        while sought and (found := next(older, None)) is not None:
            if found.memory in sought:
                sought.discard(found.memory)
                if found.operation != "deleted":
                    yield found.version()

    def shared_texts(self, going: Sequence[Record]) -> tuple[set[str], set[str]]:
        """Which texts of versions that go are those of versions that stay, and the versions that wrote them."""
        ids, memories = {record.id for record in going}, {record.memory for record in going}
        texts = {record.text for record in going if record.text is not None}
        stay, oldest = set[str](), dict[str, str]()
        every = self.between()
        while memories and (found := next(every, None)) is not None:
            if found.text in texts and found.text is not None:
                oldest[found.text] = found.id
                if found.id not in ids:
                    stay.add(found.text)
            if found.first:
                memories.discard(found.memory)
        return stay, {oldest[text] for text in stay}

    # -- the tree --------------------------------------------------------------------------------------------

    def _between(self, least: str, before: str | None) -> Iterator[Record]:
        for record in self._latest:
            if record.id < least:
                return
            if before is None or record.id < before:
                yield record
        chunks = self._chunks(least, before)
        ahead = 1
        while refs := list(islice(chunks, ahead)):
            for chunk in self._objects.chunks(refs):
                low = bisect_left(chunk, least, key=_id)
                high = len(chunk) if before is None else bisect_left(chunk, before, key=_id)
                yield from reversed(chunk[low:high])
            ahead = min(2 * ahead, _AHEAD)

    def _chunks(self, least: str, before: str | None) -> Iterator[Ref]:
        """The chunks that may have ids from `least` on and below `before` (or that id itself), newest first."""
        every = [(ref, depth) for depth in reversed(range(len(self._levels))) for ref in self._levels[depth]]
        return self._chunks_of(every, least, before)

    def _chunks_of(self, parts: Sequence[tuple[Ref, int]], least: str, before: str | None) -> Iterator[Ref]:
        low = bisect_left(parts, least, key=_last)
        high = len(parts) if before is None else bisect_left(parts, before, key=_last) + 1
        for ref, depth in reversed(parts[low:high]):
            if depth == 0:
                yield ref
            else:
                yield from self._chunks_of([(one, depth - 1) for one in self._objects.node(ref)], least, before)


def _id(record: Record) -> str:
    return record.id


def _last(part: tuple[Ref, int]) -> str:
    return part[0].last


class Rewriting:
    """A history in which some versions become others, or none. Of the tree, only what leads to them is made anew.

    `objects` are to be written, named with their kind; `replaced` are names of chunks and nodes that go.
    """

    def __init__(
        self, objects: Immutables, sizes: Sizes, edit: Callable[[Record], Record | None], *, folds: int
    ) -> None:
        self._objects = objects
        self._sizes = sizes
        self._edit = edit
        self._folds = folds
        self.objects: dict[str, bytes] = {}
        self.replaced: list[str] = []

    def levels(self, levels: Levels, version_ids: Collection[str]) -> tuple[tuple[Ref, ...], ...]:
        """The tree with these versions edited, all of which are in it."""
        ids, made = sorted(version_ids), list(levels)
        for depth in reversed(range(len(levels))):
            if levels[depth]:
                end = bisect_right(ids, levels[depth][-1].last)
                made[depth] = self._parts(levels[depth], depth, ids[:end])
                ids = ids[end:]
        return tuple(map(tuple, made))

    def _parts(self, refs: Sequence[Ref], depth: int, ids: Sequence[str]) -> list[Ref]:
        shares = list(_shares(refs, ids))
        self.replaced += [ref.name for ref, share in zip(refs, shares, strict=True) if share]
        if depth == 0:
            return self._chunks(refs, shares)
        made: list[Ref] = []
        for ref, share in zip(refs, shares, strict=True):
            if not share:
                made.append(ref)
            elif parts := self._parts(self._objects.node(ref), depth - 1, share):
                made.append(made_node(parts, self.objects, folds=self._folds))
        return made

    def _chunks(self, refs: Sequence[Ref], shares: Sequence[Sequence[str]]) -> list[Ref]:
        """Chunks that are edited one after the other are divided anew, so that what was thinned is not scattered."""
        read = iter(self._objects.chunks([ref for ref, share in zip(refs, shares, strict=True) if share]))
        made: list[Ref] = []
        run: list[Record] = []
        for ref, share in zip(refs, shares, strict=True):
            if share:
                run += self._edited(next(read), set(share))
            else:
                made += self._divided(run)
                made.append(ref)
                run = []
        return [*made, *self._divided(run)]

    def _edited(self, records: Iterable[Record], ids: Collection[str]) -> list[Record]:
        found = [self._edit(record) if record.id in ids else record for record in records]
        return [record for record in found if record is not None]

    def _divided(self, records: Sequence[Record]) -> list[Ref]:
        return [made_chunk(part, self.objects, folds=self._folds) for part in evenly(records, self._sizes.chunk)]


def _shares(refs: Sequence[Ref], ids: Sequence[str]) -> Iterator[Sequence[str]]:
    """Which of the ids fall into each part."""
    at = 0
    for ref in refs:
        end = bisect_right(ids, ref.last, at)
        yield ids[at:end]
        at = end
