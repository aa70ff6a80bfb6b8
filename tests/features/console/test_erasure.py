"""Erasure of several memories: found, checked, confirmed, and proven by a receipt."""

from __future__ import annotations

from typing import Any

import pytest

from retentive import MemoryStore
from retentive.console.pages import erasure
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


def test_the_check_shows_what_goes_and_what_stays(person: Person, about: MemoryStore, at: str) -> None:
    about.change_settings({"review": ["session:new"]})
    about.write("/memories/customers/4711.md", "proposed\n", actor="session:new")
    page = post(person, at, step="check", q="4711", id=ids_of(about))
    assert "Erase 3 memories permanently" in page.text
    assert "6 versions, 1 waiting proposal" in page.text
    assert "1 other memory has the words, too" in page.text
    assert f"{at}/m/plan.md" in page.links
    assert "Type erase 3 memories" in page.text


def test_the_receipt_proves_that_nothing_is_left(person: Person, about: MemoryStore, at: str, api: Api) -> None:
    about.change_settings({"audit": True})
    ids = ids_of(about)
    fields = {"step": "erase", "q": "4711", "id": ids, "typed": "erase 3 memories", "reason": "DSR-118"}
    assert post(person, at, **{**fields, "key": "wrong"}).status == 403
    assert post(person, at, **{**fields, "typed": "erase 2 memories", "key": api.key}).status == 400
    assert [about.history.log(memory_id=each, limit=1) != [] for each in ids] == [True] * 3
    page = post(person, at, **fields, key=api.key)
    assert "/receipts/erasure_" in page.url
    for text in ("Erased 3 memories with 6 versions", "No id of a memory or version answers", "DSR-118",
                 "No present memory has the hash", "still finds 1 memories", "No removal is pending"):  # fmt: skip
        assert text in page.text
    assert "nothing is left" not in page.text  # plan.md still has the word
    assert [about.history.log(memory_id=each, limit=1) for each in ids] == [[]] * 3
    entry = next(each for each in about.audit.entries() if each.operation == "erase.receipt")
    assert (entry.facts["reason"], entry.facts["memories"]) == ("DSR-118", ids)
    head = page.text.partition("End of the audit log ")[2].partition(" ")[0]
    assert about.audit.verify(expect=[head]).is_sound
    assert page.url.rpartition("/")[2] in person.get(f"{at}/erase").text
    file = person.http.get(f"{page.url}?format=json")
    assert set(file.json()["memories"]) == set(ids)
    assert "4711" not in file.text


def test_a_copy_of_the_text_is_noticed(person: Person, store: MemoryStore, at: str, api: Api) -> None:
    store.create("/memories/copy.txt", "plain\n")
    memory = store.load("/memories/b.txt")[0]
    page = post(person, at, step="erase", id=memory.id, typed="erase 1 memory", key=api.key)
    assert "1 present memories have the same text" in page.text
    assert "nothing is left" not in page.text


def test_the_hashes_of_a_large_store_are_not_compared(
    person: Person, store: MemoryStore, at: str, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasure, "COMPARED", 0)
    memory = store.load("/memories/b.txt")[0]
    page = post(person, at, step="erase", id=memory.id, typed="erase 1 memory", key=api.key)
    assert "were not compared" in page.text


def test_a_memory_that_may_not_be_erased_is_named(person: Person, store: MemoryStore, at: str, api: Api) -> None:
    store.change_settings({"read_only_paths": ["/memories/notes/**"]})
    ids = [store.load(path)[0].id for path in ("/memories/b.txt", "/memories/notes/a.md")]
    page = post(person, at, step="erase", id=ids, typed="erase 2 memories", key=api.key)
    assert f"Not erased {ids[1]} : read_only" in page.text
    assert "Erased 1 memory" in page.text
    alone = post(person, at, step="erase", id=ids[1], typed="erase 1 memory", key=api.key)
    assert (alone.status, "nothing was erased" in alone.text) == (400, True)


def test_a_sensitive_reason_is_masked(person: Person, store: MemoryStore, at: str, api: Api) -> None:
    memory, reason = store.load("/memories/b.txt")[0], "of AKIAIOSFODNN7EXAMPLQ"
    page = post(person, at, step="erase", id=memory.id, typed="erase 1 memory", key=api.key, reason=reason)
    assert "AKIA" not in page.body


def test_a_receipt_is_of_its_store(person: Person, store: MemoryStore, at: str, api: Api) -> None:
    memory = store.load("/memories/b.txt")[0]
    page = post(person, at, step="erase", id=memory.id, typed="erase 1 memory", key=api.key)
    other = api.place.opened.store("another")
    receipt = page.url.rpartition("/")[2]
    assert person.get(f"/console/s/{other.id}/receipts/{receipt}").status == 404
    assert receipt not in person.get(f"/console/s/{other.id}/erase").text
    assert person.get(f"{at}/receipts/{'x' * 300}").status == 404


def test_ids_are_needed(person: Person, store: MemoryStore, at: str) -> None:
    assert post(person, at, step="check").status == 400
    assert post(person, at, step="check", id=[f"mem_{n}" for n in range(101)]).status == 400
    assert post(person, at, step="check", id="mem_0").status == 404
