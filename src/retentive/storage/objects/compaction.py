"""How the log of a root becomes pages and history. Pure: what must be read comes in, what must be written goes out.

A fold holds for every later state of the store until another fold, since others only add to the log behind it. So who
folds need not be alone in the store.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from retentive.storage.objects.manifest import Root
from retentive.storage.objects.records import (
    MemoryEntry,
    Page,
    PageRef,
    Record,
    Ref,
    changes_of,
    encode_chunk,
    encode_node,
    encode_page,
    name_for,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sizes:
    """When the log is folded, and into what. A root stays within some tens of KB by these."""

    log: int = 128
    page: int = 256
    chunk: int = 256
    fan_out: int = 32


@dataclass(frozen=True, slots=True)
class Fold:
    """The first `count` versions of the log, as pages and history.

    `objects` are to be written before it is used; they are named with their kind, as in `pages/`.
    """

    folds: int
    count: int
    pages: tuple[PageRef, ...]
    history: tuple[tuple[Ref, ...], ...]
    objects: Mapping[str, bytes]

    def fits(self, root: Root) -> bool:
        """Whether nobody else has folded since."""
        return root.folds == self.folds and len(root.log) >= self.count

    def applied(self, root: Root) -> Root:
        """The same state, with a shorter log."""
        log = root.log[self.count :]
        return replace(
            root, folds=root.folds + 1, pages=self.pages, history=self.history, log=log, changed=changes_of(log)
        )


def due(before: Root, after: Root, sizes: Sizes) -> bool:
    """Whether a write made the log long enough to be folded by its writer; again and again, should one have failed."""
    return len(after.log) // sizes.log > len(before.log) // sizes.log


def fold(root: Root, sizes: Sizes, load: Callable[[Sequence[PageRef]], Sequence[Page]]) -> Fold:
    """The whole log of a root as pages and history; `load` reads pages."""
    objects: dict[str, bytes] = {}
    pages = _pages(root, sizes, load, objects)
    history = _history(root, sizes, objects)
    return Fold(root.folds, len(root.log), pages, history, objects)


def _pages(
    root: Root, sizes: Sizes, load: Callable[[Sequence[PageRef]], Sequence[Page]], objects: dict[str, bytes]
) -> tuple[PageRef, ...]:
    touched = _touched(root, sizes)
    loaded = dict(zip(touched, load([root.pages[at] for at in touched if at < len(root.pages)]), strict=False))
    made: list[PageRef] = []
    run: list[MemoryEntry] = []
    first = ""
    for at in range(max(len(root.pages), 1)):
        if at not in touched:
            made += _written(run, first, sizes, objects, folds=root.folds)
            run = []
            if at < len(root.pages):
                made.append(root.pages[at])
            continue
        if not run and root.pages:
            first = root.pages[at].first
        run += _merged(loaded.get(at), touched[at])
    made += _written(run, first, sizes, objects, folds=root.folds)
    if made:
        made[0] = made[0]._replace(first="")
    return tuple(made)


def _touched(root: Root, sizes: Sizes) -> dict[int, dict[str, Record | None]]:
    """The changes by the number of the page they fall into; with a page that may get small, one beside it."""
    touched: dict[int, dict[str, Record | None]] = {}
    firsts = [ref.first for ref in root.pages]
    for path in sorted(root.changed):
        touched.setdefault(max(bisect_right(firsts, path) - 1, 0), {})[path] = root.changed[path]
    for at, changes in list(touched.items()):
        left = root.pages[at].length - sum(record is None for record in changes.values()) if root.pages else 0
        if left < sizes.page // 4 and len(root.pages) > 1:
            touched.setdefault(at + 1 if at + 1 < len(root.pages) else at - 1, {})
    return dict(sorted(touched.items()))


def _merged(page: Page | None, changes: Mapping[str, Record | None]) -> list[MemoryEntry]:
    entries = {} if page is None else dict(zip(page.paths, page.entries, strict=True))
    added = False
    for path, record in changes.items():
        if record is None:
            entries.pop(path, None)
        else:
            added = added or path not in entries
            entries[path] = record.entry()
    return sorted(entries.values()) if added else list(entries.values())


def _written(
    run: Sequence[MemoryEntry], first: str, sizes: Sizes, objects: dict[str, bytes], *, folds: int
) -> Iterator[PageRef]:
    for number, entries in enumerate(evenly(run, sizes.page)):
        data = encode_page(entries)
        name = name_for(data, folds=folds)
        objects[f"pages/{name}"] = data
        yield PageRef(entries[0].path if number else first, name, len(entries))


def _history(root: Root, sizes: Sizes, objects: dict[str, bytes]) -> tuple[tuple[Ref, ...], ...]:
    """The tree that grows at its right: level 0 are chunks, and what is full there becomes a node of level 1."""
    levels = [list(level) for level in root.history] or [[]]
    for records in evenly([record for record in root.log if record.is_version], sizes.chunk):
        levels[0].append(made_chunk([record._replace(left=None) for record in records], objects, folds=root.folds))
    for depth in range(64):
        while len(levels[depth]) > sizes.fan_out:
            full, levels[depth] = levels[depth][: sizes.fan_out], levels[depth][sizes.fan_out :]
            if depth + 1 == len(levels):
                levels.append([])
            levels[depth + 1].append(made_node(full, objects, folds=root.folds))
        if depth + 1 == len(levels):
            break
    return tuple(map(tuple, levels))


def made_chunk(records: Sequence[Record], objects: dict[str, bytes], *, folds: int) -> Ref:
    """A new chunk of the history."""
    return _made(records[-1].id, encode_chunk(records), len(records), objects, folds=folds)


def made_node(refs: Sequence[Ref], objects: dict[str, bytes], *, folds: int) -> Ref:
    """A new node over chunks or nodes."""
    return _made(refs[-1].last, encode_node(refs), sum(ref.length for ref in refs), objects, folds=folds)


def _made(last: str, data: bytes, length: int, objects: dict[str, bytes], *, folds: int) -> Ref:
    name = name_for(data, folds=folds)
    objects[f"history/{name}"] = data
    return Ref(last, name, length)


def evenly(items: Sequence[T], most: int) -> Iterator[Sequence[T]]:
    """Parts of about the same length, none longer than `most`."""
    parts = -(-len(items) // most)
    for number in range(parts):
        yield items[number * len(items) // parts : (number + 1) * len(items) // parts]
