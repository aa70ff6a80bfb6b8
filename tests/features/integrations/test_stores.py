"""Several memory stores in one location, each selected by its id or key."""

from __future__ import annotations

import pytest

from retentive import InvalidInput
from support.places import OpenPlace


@pytest.mark.parametrize("key", ["", "x" * 256, "a\nb", "a\0", "\x7f", "\x85", "\ud800"])
def test_a_key_has_1_to_255_characters_and_no_control_characters(place: str, open_place: OpenPlace, key: str) -> None:
    opened = open_place(place)
    with pytest.raises(InvalidInput):
        opened.store(key)
    if key:
        with pytest.raises(InvalidInput):
            opened.store("fine", name=key)
    assert opened.stores() == []


def test_the_default_store_has_the_key_default(place: str, open_place: OpenPlace) -> None:
    opened = open_place(place)
    store = opened.store()
    assert (store.key, store.name) == ("default", "default")
    assert opened.store("default").id == store.id
