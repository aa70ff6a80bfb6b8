"""What a view of a directory shows: two levels of names with sizes, as pure functions over the memories below it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

_UNITS = ("K", "M", "G", "T")


@dataclass(frozen=True, slots=True)
class Listing:
    """The rows of a directory view, the viewed directory first, and how many there would be without a limit."""

    rows: tuple[str, ...]
    total: int


def human_size(size_bytes: int) -> str:
    """`512B`, `1.5K`, `12.3M`: units of 1,024, one decimal; what would round to `1024.0K` is `1.0M`."""
    if size_bytes < 1_024:
        return f"{size_bytes}B"
    step = min((size_bytes.bit_length() - 1) // 10, len(_UNITS))
    shown = f"{size_bytes / (1 << 10 * step):.1f}"
    if shown == "1024.0" and step < len(_UNITS):
        return f"1.0{_UNITS[step]}"
    return shown + _UNITS[step - 1]


def listing(path: str, memories: Iterable[tuple[str, int]], *, max_rows: int, shown: str | None = None) -> Listing:
    """The rows for the directory `path`, which the caller sees as `shown`.

    `memories` are the canonical paths and sizes of all memories below it, in the byte order of the paths; a path with
    a trailing `/` is a directory that is there though nothing lies in it. In that order a directory's row, shown with
    a trailing `/`, comes just before the first of what lies below it, so the rows stand in order as they are met.
    `max_rows` = 0 shows all.
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
