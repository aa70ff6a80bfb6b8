"""Erasure of several memories: found, checked and confirmed."""

from __future__ import annotations

from typing import Any

import pytest

from retentive import MemoryStore
from support.console import Person, Seen
from support.http_api import Api


@pytest.fixture
def about(store: MemoryStore) -> MemoryStore:
    """A store with three memories about a customer, one of which is deleted, and one that mentions it."""
    store.create("/memories/customers/4711.md", "calls about 4711\n", actor="session:s1")
    store.write("/memories/customers/4711.md", "calls about 4711, twice\n", actor="session:s1")
    store.create("/memories/4711-calls.md", "a call\n", actor="session:s1")
    store.rename("/memories/4711-calls.md", "/memories/calls-4711.md", actor="session:s1")
    store.create("/memories/scratch.md", "once about 4711\n", actor="session:s1")
    store.delete("/memories/scratch.md")
    store.create("/memories/plan.md", "like customer 4711\n", actor="user:ann")
    return store


def post(person: Person, at: str, **fields: Any) -> Seen:
    csrf = person.get(f"{at}/erase").form("/erase")["csrf"]
    return person.post(f"{at}/erase", {"csrf": csrf, **fields})


def ids_of(store: MemoryStore) -> list[str]:
    present = [store.load(path)[0].id for path in ("/memories/customers/4711.md", "/memories/calls-4711.md")]
    return [*present, store.versions("/memories/scratch.md")[0].memory_id]


def test_the_memories_are_found_also_those_that_are_deleted(person: Person, about: MemoryStore, at: str) -> None:
    page = post(person, at, step="find", q="4711")
    assert "/memories/customers/4711.md" in page.text
    assert "/memories/4711-calls.md the path has it" in page.text
    assert "/memories/plan.md" in page.text
    assert "scratch.md" not in page.text
    assert "4711" not in page.url
    deep = post(person, at, step="find", q="4711", deep="1")
    assert "/memories/scratch.md deleted 2" in deep.text
    assert "No memory has all of these words" in post(person, at, step="find", q="nowhere").text
    for number in range(51):
        about.create(f"/memories/many/{number}.md", "everywhere\n")
    assert " 1 more was found." in post(person, at, step="find", q="everywhere").text


def test_the_check_shows_what_goes_and_what_stays(person: Person, about: MemoryStore, at: str) -> None:
    about.change_settings({"review": ["session:new"]})
    about.write("/memories/customers/4711.md", "proposed\n", actor="session:new")
    page = post(person, at, step="check", q="4711", id=ids_of(about))
    assert "Erase 3 memories permanently" in page.text
    assert "6 versions, 1 waiting proposal" in page.text
    assert "1 other memory has the words, too" in page.text
    assert f"{at}/m/plan.md" in page.links
    assert "Type erase 3 memories" in page.text


def test_the_page_says_what_was_erased_and_what_still_has_the_words(
    person: Person, about: MemoryStore, at: str, api: Api
) -> None:
    ids = ids_of(about)
    fields = {"step": "erase", "q": "4711", "id": ids, "typed": "erase 3 memories"}
    assert post(person, at, **{**fields, "key": "wrong"}).status == 403
    assert post(person, at, **{**fields, "typed": "erase 2 memories", "key": api.key}).status == 400
    assert [about.history.log(memory_id=each, limit=1) != [] for each in ids] == [True] * 3
    about.change_settings({"audit": True})
    assert post(person, at, **fields, key=api.key, reason="r" * 256).status == 400
    page = post(person, at, **fields, key=api.key, reason="request 9")
    assert {each.facts["reason"] for each in about.audit.entries() if each.operation == "erase"} == {"request 9"}
    assert "request 9" in person.get(f"{at}/audit").text
    assert "Erased 3 memories with 6 versions." in page.text
    assert "/memories/plan.md" in page.text
    assert "customers/4711.md" not in page.text
    assert "admin maintain" not in page.text
    assert [about.history.log(memory_id=each, limit=1) for each in ids] == [[]] * 3


def test_a_memory_that_may_not_be_erased_is_named(person: Person, store: MemoryStore, at: str, api: Api) -> None:
    store.change_settings({"read_only_paths": ["/memories/notes/**"]})
    ids = [store.load(path)[0].id for path in ("/memories/b.txt", "/memories/notes/a.md")]
    page = post(person, at, step="erase", id=ids, typed="erase 2 memories", key=api.key)
    assert f"Not erased {ids[1]} : read_only" in page.text
    assert "Erased 1 memory with" in page.text
    alone = post(person, at, step="erase", id=ids[1], typed="erase 1 memory", key=api.key)
    assert (alone.status, "nothing was erased" in alone.text) == (400, True)


@pytest.mark.parametrize("address", ["sensitive?scan=1", "erase"])
def test_what_a_key_may_not_read_it_may_not_look_for(api: Api, store: MemoryStore, at: str, address: str) -> None:
    person = Person(api.with_key("erase"), signs_in=False)
    assert person.sign_in().status == 403  # of the first page
    assert person.get(f"{at}/{address}").status == 403


def test_ids_are_needed(person: Person, store: MemoryStore, at: str) -> None:
    assert post(person, at, step="check").status == 400
    assert post(person, at, step="check", id=[f"mem_{n}" for n in range(101)]).status == 400
    assert post(person, at, step="check", id="mem_0").status == 404
