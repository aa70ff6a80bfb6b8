"""Several memory stores in one location, each selected by its id or key."""

from __future__ import annotations

import threading

import pytest

from retentive import InvalidInput, Usage
from support.places import OpenPlace

KEYS = [
    "user-42",
    "default",
    "a",
    "x" * 255,
    "é" * 255,
    "😀",
    "with space",
    "a/b",
    "..",
    ".",
    "../../escape",
    "/etc",
    "stores",
    "memories",
    ".retentive",
    "%2e%2e",
    "CON",
    "USER-42",
    "it's; DROP TABLE stores",
    "memstore_x",
    "e\u0301",
    "é",
    "\u2028",
    "\u200b",
]


def test_a_key_opens_or_creates_its_store(place: str, open_place: OpenPlace) -> None:
    """A key may contain any characters except control characters, and is not changed.

    No two keys select the same store.
    """
    opened = open_place(place)
    stores = {key: opened.store(key) for key in KEYS}
    for key, store in stores.items():
        assert (store.key, opened.store(key).id) == (key, store.id)
        command = {"command": "create", "path": "/memories/who", "file_text": key}
        assert not store.execute(command).is_error
    assert len({store.id for store in stores.values()}) == len(KEYS)
    for key, store in stores.items():
        assert store.read("/memories/who") == key
        assert store.usage() == Usage(1, len(key.encode()))
    assert [info.key for info in opened.stores()] == KEYS


@pytest.mark.parametrize("key", ["", "x" * 256, "a\nb", "a\0", "\x7f", "\x85", "\ud800"])
def test_a_key_has_1_to_255_characters_and_no_control_characters(place: str, open_place: OpenPlace, key: str) -> None:
    opened = open_place(place)
    with pytest.raises(InvalidInput):
        opened.store(key)
    if key:
        with pytest.raises(InvalidInput):
            opened.store("fine", name=key)
    assert opened.stores() == []


def test_an_id_takes_precedence_over_a_key(place: str, open_place: OpenPlace) -> None:
    """If the key of one store equals the id of another store, the string selects the store with the id."""
    ids = iter(["memstore_one", "memstore_two", "mem_1", "memver_1", "mem_2", "memver_2"])
    opened = open_place(place, new_id=lambda prefix, _: next(ids))
    first = opened.store("memstore_two")
    second = opened.store("other")
    assert (first.id, second.id) == ("memstore_one", "memstore_two")
    assert opened.store("memstore_two").id == second.id
    assert opened.store("memstore_one").id == first.id


def test_the_default_store_has_the_key_default(place: str, open_place: OpenPlace) -> None:
    opened = open_place(place)
    store = opened.store()
    assert (store.key, store.name) == ("default", "default")
    assert opened.store("default").id == store.id


def test_threads_that_open_one_key_share_one_store(place: str, open_place: OpenPlace) -> None:
    opened = open_place(place)
    ids: list[str] = []
    barrier = threading.Barrier(8)

    def ask() -> None:
        barrier.wait()
        ids.append(opened.store("shared").id)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ids) == 8
    assert len(set(ids)) == 1
    assert len(opened.stores()) == 1
