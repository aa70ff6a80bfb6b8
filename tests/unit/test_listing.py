"""Directory views: formatted sizes, two levels, byte order and hidden entries."""

from __future__ import annotations

import pytest

import retentive
from retentive.values.listing import human_size, listing


@pytest.mark.parametrize(
    ("size_bytes", "shown"),
    [
        (0, "0B"),
        (1, "1B"),
        (1_023, "1023B"),
        (1_024, "1.0K"),
        (1_075, "1.0K"),
        (1_076, "1.1K"),
        (1_536, "1.5K"),
        (4_096, "4.0K"),
        (10_240, "10.0K"),
        (1_048_524, "1023.9K"),
        (1_048_525, "1.0M"),
        (1_048_575, "1.0M"),
        (1_048_576, "1.0M"),
        (12_897_485, "12.3M"),
        (1_073_741_823, "1.0G"),
        (1_073_741_824, "1.0G"),
        (2**40 - 1, "1.0T"),
        (2**40, "1.0T"),
        (2**50, "1024.0T"),
        (5 * 2**50, "5120.0T"),
    ],
)
def test_sizes_have_one_decimal_and_units_of_1024(size_bytes: int, shown: str) -> None:
    """A size that would be rounded to 1024.0K is shown as 1.0M."""
    assert human_size(size_bytes) == shown


def rows(path: str, tree: dict[str, int], max_rows: int = 0) -> list[str]:
    memories = sorted(tree.items(), key=lambda item: item[0].encode())
    below = [(one, size) for one, size in memories if one.startswith(path + "/")]
    return list(listing(path, below, max_rows=max_rows).rows)


def test_rows_are_in_the_byte_order_of_the_paths() -> None:
    """Directories are shown and sorted with a trailing slash."""
    tree = {"/memories/a/x": 1, "/memories/a.txt": 2, "/memories/a b": 3, "/memories/a0": 4, "/memories/B": 5}
    assert rows("/memories", tree) == [
        "15B\t/memories",
        "5B\t/memories/B",
        "3B\t/memories/a b",
        "2B\t/memories/a.txt",
        "1B\t/memories/a/",
        "1B\t/memories/a/x",
        "4B\t/memories/a0",
    ]


def test_two_levels_and_sizes_of_all_depths() -> None:
    tree = {"/memories/a/b/c/d": 1_000, "/memories/a/b/e": 24, "/memories/a/.h": 1}
    assert rows("/memories", tree) == ["1.0K\t/memories", "1.0K\t/memories/a/", "1.0K\t/memories/a/b/"]
    assert rows("/memories/a", tree) == [
        "1.0K\t/memories/a",
        "1.0K\t/memories/a/b/",
        "1000B\t/memories/a/b/c/",
        "24B\t/memories/a/b/e",
    ]


def test_hidden_entries_are_left_out_at_both_levels_but_count() -> None:
    tree = {
        "/memories/.git/x": 1,
        "/memories/.env": 2,
        "/memories/node_modules/m": 4,
        "/memories/a/.h": 8,
        "/memories/a/node_modules": 16,
        "/memories/a/node_modules2": 32,
        "/memories/a/b/.deep": 64,
        "/memories/c/.only": 128,
    }
    assert rows("/memories", tree) == [
        "255B\t/memories",
        "120B\t/memories/a/",
        "64B\t/memories/a/b/",
        "32B\t/memories/a/node_modules2",
        "128B\t/memories/c/",
    ]
    assert rows("/memories/.git", tree) == ["1B\t/memories/.git", "1B\t/memories/.git/x"]
    assert rows("/memories/node_modules", tree) == ["4B\t/memories/node_modules", "4B\t/memories/node_modules/m"]


def test_rows_are_cut_at_the_limit_and_counted_whole() -> None:
    tree = {f"/memories/{number:04d}": 1 for number in range(1_005)}
    memories = sorted(tree.items())
    for max_rows, shown in ((0, 1_005), (1_005, 1_005), (1_004, 1_004), (1, 1)):
        found = listing("/memories", memories, max_rows=max_rows)
        assert (len(found.rows) - 1, found.total) == (shown, 1_005)
    assert listing("/memories", [], max_rows=5).rows == ("0B\t/memories",)


def test_few_and_short_listings_are_kept() -> None:
    store = retentive.open("sqlite://", list_rows=0).store()
    known = store._core.listings
    assert known == {}
    for number in range(40):
        store.create(f"/memories/{number}/a", "")
    for number in range(40):
        shown = store.view(f"/memories/{number}")
        assert store.view(f"/memories/{number}") == shown
        assert 1 <= len(known) < 20
    known.clear()
    for number in range(2_100):
        store.create(f"/memories/long/{number}", "")
    assert len(store.view("/memories/long").splitlines()) == 2_102
    assert known == {}
