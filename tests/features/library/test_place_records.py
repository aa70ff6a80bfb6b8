"""Records of a location: compare-and-set, pages, and nothing of them in the lists of memory stores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import retentive
from retentive import Conflict, InvalidInput, NotFound, Retentive
from retentive.storage.paging import stores_of_users
from retentive.values.records import SYSTEM_STORE
from support.places import opened


@pytest.fixture
def place(backend: str, tmp_path: Path) -> Iterator[Retentive]:
    with opened(backend, tmp_path) as found:
        yield found


def test_a_record_is_written_read_and_removed(place: Retentive) -> None:
    records = place.records
    assert (records.get("key", "a"), records.list("key")) == (None, [])
    records.put("key", "a", "one")
    records.put("key", "a", "é\n" * 1_000)
    assert records.get("key", "a") == "é\n" * 1_000
    assert (records.get("key", "b"), records.get("kex", "a")) == (None, None)
    records.put("key", "a", None)
    records.put("key", "a", None)
    assert records.list("key") == []


def test_a_write_checks_the_expected_value(place: Retentive) -> None:
    records = place.records
    records.put("key", "a", "one", expected=None)
    for expected in (None, "other", ""):
        with pytest.raises(Conflict):
            records.put("key", "a", "two", expected=expected)
    records.put("key", "a", "one", expected="repeated")
    records.put("key", "a", "two", expected="one")
    with pytest.raises(Conflict):
        records.put("key", "a", None, expected="one")
    records.put("key", "a", None, expected="two")
    with pytest.raises(Conflict):
        records.put("key", "a", "three", expected="two")


def test_records_of_a_kind_are_listed_in_pages(place: Retentive) -> None:
    records, keys = place.records, [f"k{number:02}" for number in range(7)]
    for kind in ("key", "key2", "ke", "key.x"):
        for key in keys:
            records.put(kind, key, f"{kind} {key}")
    assert records.list("key") == [(key, f"key {key}") for key in keys]
    assert [key for key, _ in records.list("key", after="k02", limit=3)] == keys[3:6]
    assert records.list("key", after="k06") == records.list("none") == []


def test_the_store_of_the_records_is_hidden(place: Retentive) -> None:
    store = place.store()
    place.records.put("key", "a", "one")
    assert [info.id for info in place.stores()] == [info.id for info in place.list_stores().items] == [store.id]
    assert [info.id for info in stores_of_users(place.backend)] == [store.id]
    for call in (place.store, place.get_store, place.erase, place.archive_store):
        with pytest.raises(NotFound):
            call(SYSTEM_STORE)


@pytest.mark.parametrize(
    ("kind", "key"), [("", "a"), ("a/b", "a"), ("A", "a"), ("a", "é"), ("a", "x" * 151), ("a", " ")]
)
def test_invalid_names_are_refused(kind: str, key: str, tmp_path: Path) -> None:
    with retentive.open(f"sqlite:///{tmp_path}/m.db") as place:
        with pytest.raises(InvalidInput):
            place.records.put(kind, key, "x")
        with pytest.raises(InvalidInput):
            place.records.put("a", "a", "\0")
