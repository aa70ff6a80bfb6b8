"""Laws of listings, of two levels and of one: every listing agrees with a naive implementation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from retentive.values.listing import directory_of, human_size, listing, one_level, path_after
from support import model
from support.walk import HIDDEN, NAMES_USED

names = st.sampled_from([*NAMES_USED, *HIDDEN, "a!", "a", "a", "b"]).map(lambda name: name.replace("e\u0301", "ë"))
paths = st.lists(names, min_size=1, max_size=5).map(lambda parts: "/memories/" + "/".join(parts))
sizes = st.integers(0, 3_000) | st.sampled_from([1_023, 1_024, 1_048_524, 1_048_525, 2**30])


@st.composite
def trees(draw: st.DrawFn) -> dict[str, int]:
    """Paths with sizes, in which no memory is above another memory."""
    tree: dict[str, int] = {}
    for path, size in draw(st.lists(st.tuples(paths, sizes), max_size=14)):
        if not any(path == one or path.startswith(one + "/") or one.startswith(path + "/") for one in tree):
            tree[path] = size
    return tree


class Sized(model.Model):
    """Model of a store that has sizes instead of texts."""

    def size(self, row: str) -> int:
        sizes_below = ((path, int(text)) for path, text in self.tree.items())
        return sum(size for path, size in sizes_below if path == row or (row[-1] == "/" and path.startswith(row)))


@given(trees(), st.sampled_from(["/memories", "/memories/a", "/memories/.github", "/memories/node_modules"]), st.data())
def test_a_listing_equals_a_naive_one(tree: dict[str, int], path: str, data: st.DataObject) -> None:
    """The listings agree on rows, byte order, truncation, and sizes that include hidden memories."""
    below = sorted(
        ((one, size) for one, size in tree.items() if one.startswith(path + "/")), key=lambda it: it[0].encode()
    )
    max_rows = data.draw(st.sampled_from([0, 1, 2, 1_000]))
    shown = listing(path, below, max_rows=max_rows)
    naive = Sized(list_rows=max_rows, tree={one: str(size) for one, size in tree.items()})
    rows = naive.listing(path).split("\n")[1:]
    notice = rows.pop() if rows[-1].startswith("[Truncated: ") else ""
    assert list(shown.rows) == rows
    assert notice == (
        f"[Truncated: {len(shown.rows) - 1} of {shown.total} entries shown. View a directory below to see the rest.]"
        if len(shown.rows) - 1 < shown.total
        else ""
    )


@given(st.integers(0, 2**60) | st.integers(0, 2**21))
def test_human_sizes_use_the_next_unit_at_1024(size: int) -> None:
    shown = human_size(size)
    assert shown == model.human(size)
    assert shown[-1] == "T" or float(shown[:-1]) < 1_024


short_names = st.sampled_from(["a", "b", "a!", "a.", "a0", "é", "z"])
short_paths = st.lists(short_names, min_size=1, max_size=3).map(lambda parts: "/memories/" + "/".join(parts))
path_sets = st.sets(short_paths, max_size=60) | st.integers(0, 200).map(
    lambda count: {f"/memories/{each // 30:02}/{each}" for each in range(count)}
)


@dataclass(frozen=True)
class Place:
    """A memory with no more than its path."""

    path: str


@given(
    path_sets, short_paths | st.just(""), st.none() | st.integers(0, 40), st.sampled_from(["/memories", "/memories/a"])
)
def test_one_level_equals_a_naive_one(tree: set[str], start: str, limit: int | None, under: str) -> None:
    """It reads from any path on, as many entries as asked, and no more memories than a few for each entry."""
    below = [Place(path) for path in sorted(tree) if path.startswith(under + "/")]
    read = 0

    def walk(at: str, size: int) -> Sequence[Place]:
        nonlocal read
        found = [each for each in below if each.path >= at][:size]
        read += len(found)
        return found

    expected: dict[str, Place] = {}
    for each in below:
        if each.path >= start:
            expected.setdefault(directory_of(under, each.path) or each.path, each)
    assert list(one_level(walk, under, start=start, limit=limit)) == list(expected.values())[:limit]
    assert read <= 200 if limit is None else read <= 16 * (limit + 1)


@given(short_paths, short_paths)
def test_the_path_after_an_entry_is_the_least_one_outside_of_it(path: str, other: str) -> None:
    directory = directory_of("/memories", path)
    entry = directory or path
    is_inside = other.startswith(entry) if directory else other == entry
    assert (other < path_after(entry)) == (is_inside or other < entry)
