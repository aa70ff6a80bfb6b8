"""Beside a memory: who viewed it."""

from __future__ import annotations

import pytest

from retentive import MemoryStore
from retentive.console import reads
from retentive.store import core_of
from support.console import Person
from support.http_api import Api

B = "/memories/b.txt"


def test_the_api_key_of_a_change(person: Person, api: Api, store: MemoryStore, at: str) -> None:
    """It is shown beside the memory if the actor is another one: the principal of the key, or one that it acts as."""
    made = api.place.keys.create("ann", scopes=("read", "write"), principal="user:ann", act_as=("session:*",))
    plain = api.place.keys.create("plain", scopes=("read", "write"))
    memories = f"/v1/memory_stores/{store.id}/memories"
    for name, key, sent in (
        ("a", made, {}),
        ("b", made, {"retentive-actor": "session:s1"}),
        ("c", plain, {}),
    ):
        answer = Api(api.url, key.text, api.place, headers=sent).post(memories, {"path": f"/{name}.md", "content": "x"})
        assert answer.status == 200
    assert f"Through http Key {made.record.id}" in person.get(f"{at}/m/a.md").text
    assert f"session:s1 Through http Key {made.record.id}" in person.get(f"{at}/m/b.md").text
    own = person.get(f"{at}/m/c.md").text
    assert f"Actor api_key:{plain.record.id} Through http" in own
    assert "Key apikey_" not in own
    assert "Key apikey_" not in person.get(f"{at}/m/b.txt").text


def test_the_api_key_of_a_person_in_the_console(person: Person, api: Api, store: MemoryStore, at: str) -> None:
    made = api.place.keys.create("ann", scopes=("read", "write"), principal="user:ann")
    ann = Person(api, made.text)
    ann.submit(f"{at}/edit/b.txt", "/edit/", text="by ann\n")
    page = ann.get(f"{at}/m/b.txt")
    ann.close()
    assert f"Actor user:ann Through console Key {made.record.id}" in page.text
    assert page.problems() == []
    assert store.versions(B)[0].provenance.api_key_id == made.record.id


@pytest.mark.parametrize("earlier", ["", "?at=r3"])
def test_when_a_memory_was_viewed(person: Person, store: MemoryStore, at: str, earlier: str) -> None:
    """The time is that of a view before the page. An earlier state may have a memory that was deleted since."""
    if earlier:
        store.delete(B)
    page = person.get(f"{at}/m/b.txt{earlier}")
    assert "Viewed not yet" in page.text
    core_of(store).accesses.flush()
    assert "Viewed last" in person.get(page.url).text
    assert "Viewed not yet" in person.get(f"{at}/m/notes/a.md").text


def test_views_in_the_audit_log(
    api: Api, person: Person, store: MemoryStore, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Administrators see who viewed a memory, in the newest entries. Others see only the time."""
    store.change_settings({"audit": True})
    store.execute({"command": "view", "path": B}, actor="session:s7")
    store.execute({"command": "view", "path": "/memories/notes/a.md"}, actor="session:s8")
    store.execute({"command": "view", "path": B}, actor="session:s9")
    url = next(link for link in person.get(f"{at}/m/notes/a.md").links if "reads=1" in link).replace(
        "notes/a.md", "b.txt"
    )
    page = person.get(url)
    assert page.problems() == []
    assert "Viewed 2 times, last by session:s9" in page.text
    assert "Viewed 3 times, last by api_key:" in person.get(url).text
    reader = Person(api, api.with_key("read").key)
    assert "times, last by" not in reader.get(url).text
    reader.close()
    monkeypatch.setattr(reads, "ENTRIES", 1)
    assert "Viewed not in the newest 500 entries" in person.get(url).text
