"""Laws of one level of a directory: it agrees with a naive reading of all memories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from retentive.values.listing import directory_of, one_level, path_after

names = st.sampled_from(["a", "b", "a!", "a.", "a0", "é", "z"])
paths = st.lists(names, min_size=1, max_size=3).map(lambda parts: "/memories/" + "/".join(parts))
trees = st.sets(paths, max_size=60) | st.integers(0, 200).map(
    lambda count: {f"/memories/{each // 30:02}/{each}" for each in range(count)}
)


@dataclass(frozen=True)
class Place:
    """A memory with no more than its path."""

    path: str


@given(trees, paths | st.just(""), st.none() | st.integers(0, 40), st.sampled_from(["/memories", "/memories/a"]))
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


@given(paths, paths)
def test_the_path_after_an_entry_is_the_least_one_outside_of_it(path: str, other: str) -> None:
    directory = directory_of("/memories", path)
    entry = directory or path
    is_inside = other.startswith(entry) if directory else other == entry
    assert (other < path_after(entry)) == (is_inside or other < entry)
