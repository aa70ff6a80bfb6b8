"""Beside a memory: who viewed it."""

from __future__ import annotations

from retentive import MemoryStore
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


def test_when_a_memory_was_viewed(person: Person, store: MemoryStore, at: str) -> None:
    """The time is that of a view before the page."""
    page = person.get(f"{at}/m/b.txt")
    assert "Viewed not yet" in page.text
    core_of(store).accesses.flush()
    assert "to the hour" in person.get(page.url).text
    assert "Viewed not yet" in person.get(f"{at}/m/notes/a.md").text
