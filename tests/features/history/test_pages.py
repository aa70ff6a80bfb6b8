"""Versions page by page, and the feed of versions and events."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from retentive import InvalidInput, MemoryStore, Retentive
from retentive.engine import lists
from retentive.engine.lists import StoreEvent
from retentive.history import log
from retentive.history.log import LogFilter
from support.places import opened

A, B, C = "/memories/a.md", "/memories/d/b.md", "/memories/d/c.md"


@pytest.fixture
def place(backend: str, tmp_path: Path) -> Iterator[Retentive]:
    with opened(backend, tmp_path) as found:
        yield found


@pytest.fixture
def store(place: Retentive) -> MemoryStore:
    return place.store()


def ids(
    store: MemoryStore, *, limit: int, path: str | None = None, only: LogFilter | None = None, **chosen: object
) -> list[str]:
    """The ids on all pages."""
    found: list[str] = []
    after: str | None = None
    while True:
        page = store.history.page(path, only=only, after=after, limit=limit, **chosen)  # type: ignore[arg-type] # flags
        assert len(page.items) <= limit
        found += [each.id for each in page.items]
        after = page.next
        if after is None:
            return found


def filled(store: MemoryStore) -> None:
    for number, path in enumerate((A, B, C)):
        store.create(path, f"{number}", actor="session:s" if path == B else "user:ann")
    store.write(A, "edited", actor="session:t")
    store.rename(B, "/memories/b.md", actor="user:ann")
    store.delete(C, actor="session:s")


@pytest.mark.parametrize("limit", [1, 100])
def test_pages_list_each_version_once(limit: int, store: MemoryStore) -> None:
    filled(store)
    newest = store.versions()
    memory_id = store.load("/memories/b.md")[0].id
    expected = {
        "all": ([each.id for each in newest], ids(store, limit=limit)),
        "memory": (
            [each.id for each in newest if each.memory_id == memory_id],
            ids(store, limit=limit, memory_id=memory_id),
        ),
        "path": (
            [each.id for each in newest if each.path.startswith("/memories/d/")],
            ids(store, limit=limit, path="/memories/d"),
        ),
        "actor": (
            [each.id for each in newest if str(each.actor).startswith("session:")],
            ids(store, limit=limit, only=LogFilter(actor="session:*")),
        ),
        "operation": (
            [each.id for each in newest if each.operation == "modified"],
            ids(store, limit=limit, only=LogFilter(operation="modified")),
        ),
        "time": (
            [each.id for each in newest[1:4]],
            ids(store, limit=limit, only=LogFilter(since=newest[3].created_at, until=newest[1].created_at)),
        ),
    }
    for case, (wanted, found) in expected.items():
        assert found == wanted, case
    assert ids(store, limit=limit, oldest_first=True) == [each.id for each in newest[::-1]]
    only = LogFilter(since=newest[3].created_at, until=newest[1].created_at)
    assert ids(store, limit=limit, oldest_first=True, only=only) == [each.id for each in newest[3:0:-1]]


def test_a_page_with_few_matches_ends_early(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has a cursor, from which the next page continues."""
    monkeypatch.setattr(log, "MAX_SCANNED", 2)
    monkeypatch.setattr(log, "PAGE_VERSIONS", 2)
    filled(store)
    first = store.history.page(only=LogFilter(operation="created"))
    assert (first.items, first.next) == ((), store.versions()[1].id)
    assert len(ids(store, limit=1, only=LogFilter(operation="created"))) == 3
    with pytest.raises(InvalidInput):
        store.history.page(limit=0)


def test_the_feed_has_every_change_in_order(place: Retentive, store: MemoryStore) -> None:
    """Versions and events, each once, however long the pages are."""
    store.create(A, "one")
    store.change_settings({"review": ["session:*"]}, actor="user:ann")
    store.write(A, "two")
    store.create(B, "proposed", actor="session:s")
    store.review.accept([store.review.pending()[0].id], actor="user:bob")
    store.create(C, "proposed too", actor="session:s")
    store.review.refuse([store.review.pending()[0].id], actor="user:bob")
    store.history.redact([store.versions(A)[-1].id])
    store.history.erase(A)
    place.update_store(store.id, name="New")
    place.archive_store(store.id)
    for limit in (1, 2, 500):
        found: list[str] = []
        after = ""
        while (page := store.history.feed(after, limit=limit)).items:
            assert not page.has_gap
            found += [each.type if isinstance(each, StoreEvent) else each.operation for each in page.items]
            after = page.next
        assert found == [  # erasing removes the versions of the memory
            *("settings", "proposed", "created", "accepted", "proposed", "refused", "redacted"),
            *("erased", "store.updated", "store.archived"),
        ]
        assert (after, store.history.feed(after).items) == (store.history.newest(), ())
    changed = next(
        each for each in store.history.feed().items if isinstance(each, StoreEvent) and each.type == "settings"
    )
    assert (str(changed.actor), changed.ids, changed.count) == ("user:ann", ("review",), 1)


def test_old_events_are_removed(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest are kept. A reader that missed some finds out."""
    monkeypatch.setattr(lists, "MAX_EVENTS", 3)
    for number in range(5):
        store.change_settings({"list_rows": number + 1})
    found = store.history.feed()
    assert (len(found.items), found.has_gap) == (3, True)
    assert not store.history.feed(found.items[0].id.partition("_")[2]).has_gap
