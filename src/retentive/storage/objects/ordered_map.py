"""Copy-on-write ordered map: a tree of immutable pages, and an overlay with the latest edits.

This module does no I/O. A function of the type `Pages` loads the pages, and a `Rebuild` has the pages to write. The
tree refers to a page by the lowest key that is in the page now, so no trace of a removed key remains.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from operator import itemgetter
from typing import NamedTuple, TypeAlias, TypeVar

from retentive.storage.objects.records import Edits, MapValue, Page, Ref, encode_page, new_name

T = TypeVar("T")
AHEAD = 16  # maximum number of pages that a scan loads at once


class Tree(NamedTuple):
    """Root of a tree of pages. `refs` refer to the pages of the first level. At depth 0, these pages are leaves."""

    depth: int = 0
    refs: tuple[Ref, ...] = ()


Pages: TypeAlias = Callable[[Sequence[Ref]], list[Page]]
"""Function that loads the pages to which a sequence of references refers."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Maximum number of rows in a log (`log`), items in a leaf (`page`), and pages below an inner node (`fan_out`).

    With the default values, a manifest has some tens of KB at most, and a compaction of 10,000 memories rewrites about
    40 pages. When the log had half this size and 16 threads wrote, compactions made one sixth of all requests.
    """

    log: int = 256
    page: int = 256
    fan_out: int = 64


class OrderedMap:
    """Ordered map that consists of a tree and of edits that are not in the tree yet (`overlay`).

    The value None in the overlay removes a key. `pages` is the function that loads pages of the tree.
    """

    def __init__(self, tree: Tree, overlay: Edits, pages: Pages) -> None:
        self._tree = tree
        self._overlay = overlay
        self._pages = pages

    def get(self, key: str) -> MapValue | None:
        return self.get_all([key])[0]

    def get_all(self, keys: Sequence[str]) -> list[MapValue | None]:
        """Return the values of keys, or None for a key that is not in the map.

        Needs one round trip for each level of the tree.
        """
        found = {key: self._overlay.get(key) for key in keys}
        level = [(Page(refs=self._tree.refs), [key for key in found if key not in self._overlay])]
        for _ in range(self._tree.depth + 1 if self._tree.refs else 0):
            below: dict[Ref, list[str]] = {}
            for page, sought in level:
                below |= {page.refs[at]: share for at, share in _shares(page.refs, sought).items()}
            level = list(zip(self._pages(list(below)), below.values(), strict=True))
        for page, sought in level:
            found |= {key: page.get(key) for key in sought}
        return [found[key] for key in keys]

    def chunks(self, low: str, high: str, *, reverse: bool = False) -> Iterator[list[tuple[str, MapValue]]]:
        """Yield the items with `low <= key < high`, one list for each leaf. Each list is in ascending order.

        With `reverse`, the list of the last leaf comes first. Leaves are loaded in groups: the first group has one
        leaf, and each group has twice as many as the group before, but at most `AHEAD`.
        """
        ahead = 1
        own = sorted(key for key in self._overlay if low <= key < high)
        if not self._tree.refs:
            yield self._merged([], own)
            return
        leaves = self._leaves(self._tree.refs, self._tree.depth, low, high, reverse=reverse)
        while found := list(islice(leaves, ahead)):
            for leaf, (_, least, most) in zip(self._pages([ref for ref, _, _ in found]), found, strict=True):
                edited = own[bisect_left(own, least) : bisect_left(own, most)]
                items = leaf.between(least, most)
                yield self._merged(items, edited) if edited else items
            ahead = min(2 * ahead, AHEAD)

    def values(self, low: str, high: str, *, reverse: bool = False) -> Iterator[MapValue]:
        """Yield the values of the keys with `low <= key < high`, in key order or in reverse order."""
        for chunk in self.chunks(low, high, reverse=reverse):
            yield from (value for _, value in (reversed(chunk) if reverse else chunk))

    def has_any(self, low: str, high: str) -> bool:
        """Return True if the map has a key with `low <= key < high`."""
        return any(self.chunks(low, high))

    def _merged(self, items: Iterable[tuple[str, MapValue]], edited: Sequence[str]) -> list[tuple[str, MapValue]]:
        replaced = set(edited)  # the overlay may have got more keys since `edited` was read from it
        kept = [item for item in items if item[0] not in replaced]
        kept += [(key, value) for key in edited if (value := self._overlay[key]) is not None]
        return sorted(kept, key=itemgetter(0))

    def _leaves(
        self, refs: Sequence[Ref], depth: int, low: str, high: str, *, reverse: bool
    ) -> Iterator[tuple[Ref, str, str]]:
        """Yield references to those leaves below the pages `refs` that may have keys with `low <= key < high`.

        A leaf covers a part of this range. The lower and upper bounds of this part are yielded with the reference.
        `depth` is the number of levels between `refs` and the leaves.
        """
        start = _index(refs, low)
        end = max(bisect_left(refs, high, key=itemgetter(0)), start + 1)
        for at in reversed(range(start, end)) if reverse else range(start, end):
            least = low if at == start else refs[at].first
            most = high if at + 1 == end else refs[at + 1].first
            if depth == 0:
                yield refs[at], least, most
            else:
                below = self._pages([refs[at]])[0].refs
                yield from self._leaves(below, depth - 1, least, most, reverse=reverse)


def _index(refs: Sequence[Ref], key: str) -> int:
    return max(bisect_right(refs, key, key=itemgetter(0)) - 1, 0)


class Rebuild:
    """Result of applying edits to a tree: the new tree and its new pages. Pages without edits are reused.

    `written` has the new pages and their bytes, by name. They are uploaded later. `generation` is the number of
    compactions of the store so far.
    """

    def __init__(self, tree: Tree, edits: Edits, *, pages: Pages, sizes: Sizes, generation: int) -> None:
        self.edits = edits
        self._pages = pages
        self._sizes = sizes
        self._generation = generation
        self.written: dict[str, tuple[bytes, Page]] = {}
        self.tree = self._grown(self._level(tree.refs, tree.depth, sorted(edits)), tree.depth)

    def _grown(self, refs: Sequence[Ref], depth: int) -> Tree:
        """Return a tree with the pages `refs` at level `depth`, and add or remove levels above them as needed."""
        while len(refs) > self._sizes.fan_out:
            depth, refs = depth + 1, self._new_nodes(refs)
        while depth and len(refs) == 1:
            _, written = self.written.pop(refs[0].name, (b"", None))
            depth, refs = depth - 1, (written or self._pages(refs)[0]).refs
        return Tree(depth if refs else 0, tuple(refs))

    def _level(self, refs: Sequence[Ref], depth: int, keys: Sequence[str]) -> list[Ref]:
        """Apply the edits of `keys` to the pages `refs` of one level, and return references to the resulting pages.

        Adjacent pages with edits are joined, and split again into pages of nearly equal size. `depth` is 0 for leaves.
        """
        if not keys:
            return list(refs)
        if not refs:
            return self._new_leaves(self._edited(Page(), keys))
        shares = _shares(refs, keys)
        pages = iter(self._pages([refs[at] for at in sorted(shares)]))
        made: list[Ref] = []
        for is_touched, run in groupby(range(len(refs)), key=shares.__contains__):
            if not is_touched:
                made += [refs[at] for at in run]
            elif depth:
                below = [ref for at in run for ref in self._level(next(pages).refs, depth - 1, shares[at])]
                made += self._new_nodes(below)
            else:
                made += self._new_leaves([item for at in run for item in self._edited(next(pages), shares[at])])
        return made

    def _edited(self, leaf: Page, keys: Sequence[str]) -> list[tuple[str, MapValue]]:
        items: dict[str, MapValue | None] = dict(zip(leaf.keys, leaf.values, strict=True))
        items |= {key: self.edits[key] for key in keys}
        return sorted(((key, value) for key, value in items.items() if value is not None), key=itemgetter(0))

    def _new_leaves(self, items: Sequence[tuple[str, MapValue]]) -> list[Ref]:
        parts = _evenly(items, self._sizes.page)
        return [self._new(Page([key for key, _ in part], [value for _, value in part])) for part in parts]

    def _new_nodes(self, refs: Sequence[Ref]) -> list[Ref]:
        return [self._new(Page(refs=part)) for part in _evenly(refs, self._sizes.fan_out)]

    def _new(self, page: Page) -> Ref:
        data = encode_page(page)
        name = new_name(self._generation, data)
        self.written[name] = data, page
        return Ref(page.refs[0].first if page.refs else page.keys[0], name)


def _shares(refs: Sequence[Ref], keys: Iterable[str]) -> dict[int, list[str]]:
    """Group keys by the index (in `refs`) of the page to which they belong.

    A key that precedes the lowest key of the first page belongs to the first page.
    """
    found: dict[int, list[str]] = {}
    for key in keys:
        found.setdefault(_index(refs, key), []).append(key)
    return found


def _evenly(items: Sequence[T], most: int) -> Iterator[Sequence[T]]:
    """Split a sequence into parts of nearly equal length, with at most `most` items each."""
    parts = -(-len(items) // most)
    for number in range(parts):
        yield items[number * len(items) // parts : (number + 1) * len(items) // parts]
