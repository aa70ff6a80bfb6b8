"""One level of a directory: the memories directly in it, and the first memory of each directory in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Protocol, TypeVar

_LEAST_BATCH = 16
_BATCH_IN_LARGE = 4
"""Size of a batch while the directories to skip are larger than a batch."""


class HasPath(Protocol):
    """Memory or version with a path."""

    @property
    def path(self) -> str:
        """Path of the memory."""


P = TypeVar("P", bound=HasPath)


def directory_of(under: str, path: str) -> str | None:
    """The directory directly below `under` that contains a path, with `/` at the end. None for a memory in `under`."""
    name, slash, _ = path[len(under) + 1 :].partition("/")
    return f"{under}/{name}/" if slash else None


def path_after(path: str) -> str:
    """The least path that sorts after a memory, or after everything in a directory, whose path ends with `/`.

    This is correct because no path has a control character, and `0` is the character after `/`.
    """
    return path[:-1] + "0" if path.endswith("/") else path + "\x01"


def one_level(
    walk: Callable[[str, int], Iterable[P]], under: str, *, start: str = "", limit: int | None = None
) -> Iterator[P]:
    """The memories directly below `under`, and the first memory of each directory there.

    `walk` returns memories from a path on, in byte order, and at least the given number if there are as many. To skip a
    directory, `walk` is called again with the path after it, unless the directory ends within the batch.
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
