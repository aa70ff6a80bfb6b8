"""Listings: rows of a directory view, one level of a directory, and pages of long lists."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter
from typing import Generic, Protocol, TypeVar

_UNITS = ("K", "M", "G", "T")
_LEAST_BATCH = 16
_BATCH_IN_LARGE = 4
"""Batch size while the subdirectories to skip contain more memories than a batch."""


class HasPath(Protocol):
    """Object with a path: a memory or a version."""

    @property
    def path(self) -> str:
        """Path of the memory."""


P = TypeVar("P", bound=HasPath)
T = TypeVar("T")
C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class Listing:
    """Rows of a directory view. The first row is the directory itself.

    `total` is the number of entries in both levels, including entries beyond the row limit.
    """

    rows: tuple[str, ...]
    total: int


def counted(number: int, noun: str, many: str = "") -> str:
    """Return a number with its noun: `1 memory`, `1,200 memories`. `many` is a plural that does not follow the rule."""
    if number != 1 and not many:
        is_ies = noun.endswith("y") and noun[-2] not in "aeo"
        many = f"{noun[:-1]}ies" if is_ies else f"{noun}s"
    return f"{number:,} {noun if number == 1 else many}"


def human_size(size_bytes: int) -> str:
    """Format a size in units of 1,024, such as `512B`, `1.5K` or `12.3M`.

    A size that would round to `1024.0K` is shown as `1.0M`.
    """
    if size_bytes < 1_024:
        return f"{size_bytes}B"
    step = min((size_bytes.bit_length() - 1) // 10, len(_UNITS))
    shown = f"{size_bytes / (1 << 10 * step):.1f}"
    if shown == "1024.0" and step < len(_UNITS):
        return f"1.0{_UNITS[step]}"
    return shown + _UNITS[step - 1]


def listing(path: str, memories: Iterable[tuple[str, int]], *, max_rows: int, shown: str | None = None) -> Listing:
    """Return the rows of a view of the directory `path`. `shown` is the name of the directory in the rows.

    `memories` are the canonical paths and sizes of all memories below the directory, in byte order of the paths. A path
    with a trailing `/` is an empty directory, such as a mount point. In byte order, a directory with its trailing `/`
    comes directly before its contents, so the rows need no sorting. If `max_rows` is 0, all rows are returned.
    """
    sizes: dict[str, int] = {}
    start = len(path) + 1
    whole = 0
    for memory, size in memories:
        whole += size
        first, slash, rest = memory[start:].partition("/")
        if first[0] == "." or first == "node_modules":
            continue
        if not slash:
            sizes[first] = size
            continue
        directory = first + "/"
        sizes[directory] = sizes.get(directory, 0) + size
        second, slash, _ = rest.partition("/")
        if second and second[0] != "." and second != "node_modules":
            row = directory + second + slash
            sizes[row] = sizes.get(row, 0) + size
    names = list(sizes)[: max_rows or None]
    top = path if shown is None else shown
    rows = [f"{human_size(whole)}\t{top}", *[f"{human_size(sizes[name])}\t{top}/{name}" for name in names]]
    return Listing(tuple(rows), len(sizes))


def directory_of(under: str, path: str) -> str | None:
    """Return the directory that contains `path` and is directly in `under`. The result ends with `/`.

    Return None if `path` itself is directly in `under`.
    """
    name, slash, _ = path[len(under) + 1 :].partition("/")
    return f"{under}/{name}/" if slash else None


def path_after(path: str) -> str:
    """Return the first possible path that sorts after the memory at `path`.

    For a directory (a path with a trailing `/`), return the first path after everything in the directory. This is
    correct because no path contains a control character, and because `0` is the character after `/`.
    """
    return path[:-1] + "0" if path.endswith("/") else path + "\x01"


def one_level(
    walk: Callable[[str, int], Iterable[P]], under: str, *, start: str = "", limit: int | None = None
) -> Iterator[P]:
    """Yield the memories directly in `under`, and the first memory of each directory directly in `under`.

    `walk(path, count)` returns the memories that start at `path`, in byte order. It returns `count` or more memories,
    or all if there are fewer. The rest of a directory is skipped. If the current batch ends within the directory,
    `walk` is called again with the path after the directory.
    """
    at_most = _LEAST_BATCH
    left = limit
    while left is None or left > 0:
        wanted = at_most if left is None else min(left, at_most)
        batch = list(islice(walk(start, wanted), wanted))
        found = 0
        for memory in batch:
            if memory.path >= start and (left is None or left > 0):
                yield memory
                start = path_after(directory_of(under, memory.path) or memory.path)
                found += 1
                left = None if left is None else left - 1
        if len(batch) < wanted:
            return
        at_most = _LEAST_BATCH * 8 if found == wanted else _LEAST_BATCH if found > 1 else _BATCH_IN_LARGE


def listed(found: Iterable[P], under: str, *, start: str, limit: int | None, is_level: bool) -> Iterator[P]:
    """Return memories or versions in the order of their paths, as `Snapshot.list` and `Snapshot.list_at` do.

    `found` has all memories or versions, in any order, and maybe others that are not below `under`.
    """
    below = sorted((each for each in found if each.path.startswith(f"{under}/")), key=attrgetter("path"))

    def walk(at: str, size: int | None) -> Iterator[P]:
        return islice(islice(below, bisect_left(below, at, key=attrgetter("path")), None), size)

    return one_level(walk, under, start=start, limit=limit) if is_level else walk(start, limit)


@dataclass(frozen=True, slots=True)
class ListPage(Generic[T, C]):
    """One page of a list. `next` is the cursor of the next page. It is None on the last page."""

    items: tuple[T, ...]
    next: C | None = None

    @classmethod
    def of(cls, found: list[T], limit: int, cursors: list[C]) -> ListPage[T, C]:
        """Return a page with the first `limit` items of `found`. If `found` has more items, there is a next page.

        `cursors` has one cursor for each item: the cursor of a page that starts after the item.
        """
        return cls(tuple(found[:limit]), cursors[limit - 1] if len(found) > limit else None)
