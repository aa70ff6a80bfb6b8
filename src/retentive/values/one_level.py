"""Listing of one level of a directory, without reading everything in its subdirectories."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from operator import attrgetter
from typing import Protocol, TypeVar

_LEAST_BATCH = 16
_BATCH_IN_LARGE = 4
"""Batch size while the subdirectories to skip contain more memories than a batch."""


class HasPath(Protocol):
    """Object with a path: a memory or a version."""

    @property
    def path(self) -> str:
        """Path of the memory."""


P = TypeVar("P", bound=HasPath)


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
