"""Rows of a directory view: two levels of names with sizes, computed from the memories below the directory.

Pure functions.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

_UNITS = ("K", "M", "G", "T")
_MAX_KNOWN, _MAX_KEPT_ROWS = 16, 2_000  # some 3 MB at most


@dataclass(frozen=True, slots=True)
class Listing:
    """Rows of a directory view, the directory itself first, and the total number of rows without a limit."""

    rows: tuple[str, ...]
    total: int


class KnownListings:
    """Cache of the listings of directories, by the state of the memories and all arguments. Threads may share it."""

    def __init__(self) -> None:
        self._known: dict[tuple[Hashable, ...], Listing] = {}

    def get(self, *key: Hashable) -> Listing | None:
        """The listing that was added with this key, or None."""
        return self._known.get(key)

    def add(self, found: Listing, *key: Hashable) -> None:
        """Add a listing, unless it is too long to be kept."""
        if len(found.rows) <= _MAX_KEPT_ROWS:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._known[key] = found


def human_size(size_bytes: int) -> str:
    """Format a size as `512B`, `1.5K` or `12.3M`: units of 1,024, one decimal, `1.0M` instead of `1024.0K`."""
    if size_bytes < 1_024:
        return f"{size_bytes}B"
    step = min((size_bytes.bit_length() - 1) // 10, len(_UNITS))
    shown = f"{size_bytes / (1 << 10 * step):.1f}"
    if shown == "1024.0" and step < len(_UNITS):
        return f"1.0{_UNITS[step]}"
    return shown + _UNITS[step - 1]


def listing(path: str, memories: Iterable[tuple[str, int]], *, max_rows: int, shown: str | None = None) -> Listing:
    """Rows for the directory `path`, which the caller sees as `shown`.

    `memories` are the canonical paths and sizes of all memories below the directory, in byte order of the paths. A path
    with a trailing `/` is an empty directory, such as a mount point. In this order, the row of a directory with its
    trailing `/` comes directly before the rows of its contents, so no sorting is needed. `max_rows` = 0 shows all rows.
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
