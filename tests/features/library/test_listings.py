"""Listings page by page: every memory that exists throughout is on exactly one page, whatever changes in between."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

import retentive
from retentive import InvalidInput, MemoryStore, NotFound
from retentive.engine.lists import ListedMemory, ListingCursor
from retentive.errors import CursorExpired

PATHS = [f"/memories/{name}" for name in ("a-b", "a.txt", "a/b", "a/b-c", "a/c/d", "a/c/e", "b", "c/d", "é", "z/z")]


def shown(
    store: MemoryStore, limit: int, *, between: Callable[[], object] | None = None, **chosen: object
) -> list[str]:
    """The paths of all pages. `between` runs after each page."""
    found: list[str] = []
    cursor: ListingCursor | None = None
    while True:
        page = store.list_memories(cursor=cursor, limit=limit, **chosen)  # type: ignore[arg-type] # depth, under, texts
        assert len(page.items) <= limit
        found += [each.memory.path if isinstance(each, ListedMemory) else each.path for each in page.items]
        cursor = page.next
        if cursor is None:
            return found
        if between is not None:
            between()


def one_level(paths: list[str], under: str) -> list[str]:
    names = {path[len(under) + 1 :].partition("/") for path in paths if path.startswith(under + "/")}
    return sorted({f"{under}/{name}{slash}" for name, slash, _ in names}, key=str.encode)


COMMANDS = st.lists(
    st.tuples(
        st.sampled_from(["create", "write", "delete", "rename", "move directory", "undo"]),
        st.sampled_from(PATHS),
        st.sampled_from(PATHS),
    ),
    max_size=4,
)


def change(store: MemoryStore, command: str, path: str, other: str) -> None:
    """Run a random change; a refused one changes nothing."""
    try:
        match command:
            case "create" | "write":
                store.write(path, other)
            case "delete":
                store.delete(path)
            case "rename":
                store.rename(path, other)
            case "move directory":
                store.rename(path.rpartition("/")[0], other)
            case "undo":
                store.undo("HEAD", mode="force")
    except (InvalidInput, NotFound):
        pass


@given(
    before=st.sets(st.sampled_from(PATHS)),
    rounds=st.lists(COMMANDS, max_size=12),
    limit=st.integers(1, 4),
    depth=st.integers(0, 1),
)
def test_no_memory_is_missed_or_repeated(
    before: set[str], rounds: list[list[tuple[str, str, str]]], limit: int, depth: int
) -> None:
    """For any changes between the pages, the pages show the memories of the first page's state, each once."""
    with retentive.open("sqlite://") as place:
        store = place.store()
        for path in before:
            store.create(path, path)
        waiting = iter(rounds)
        expected = sorted(before, key=str.encode) if depth == 0 else one_level(sorted(before), "/memories")

        def between() -> None:
            for command, path, other in next(waiting, []):
                change(store, command, path, other)

        assert shown(store, limit, between=between, depth=depth) == expected


def prune(store: MemoryStore) -> None:
    store.change_settings({"keep_versions": 1, "keep_versions_days": 30})
    later = MemoryStore(store._core.backend, store._core.info, clock=lambda: time.time() + 40 * 86_400)
    assert later.sweep(accept_clock=True).versions_pruned == 1


EXPIRING: dict[str, Callable[[MemoryStore], object]] = {
    "redact": lambda store: store.history.redact([store.versions("/memories/b")[-1].id]),
    "erase": lambda store: store.history.erase("/memories/b"),
    "prune": prune,
}


@pytest.mark.parametrize("removal", EXPIRING)
def test_a_cursor_expires_if_a_version_that_it_needs_is_removed(removal: str, store: MemoryStore) -> None:
    for path in PATHS:
        store.create(path, path)
    first = store.list_memories(limit=2)
    store.write("/memories/b", "edited")
    assert len(store.list_memories(cursor=first.next).items) == len(PATHS) - 2
    EXPIRING[removal](store)
    with pytest.raises(CursorExpired):
        store.list_memories(cursor=first.next)
    assert shown(store, 3) == [memory.path for memory in store.memories()]
