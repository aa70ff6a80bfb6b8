"""Rows of a directory view: two levels of names, each with its size."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

_UNITS = ("K", "M", "G", "T")


@dataclass(frozen=True, slots=True)
class Listing:
    """Rows of a directory view. The first row is the directory itself.

    `total` is the number of entries in both levels, including entries beyond the row limit.
    """

    rows: tuple[str, ...]
    total: int


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
