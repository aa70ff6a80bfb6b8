"""Beside a memory: who reviewed its version, and who viewed it."""

from __future__ import annotations

import pytest

from retentive import MemoryStore
from retentive.console import reads
from retentive.store import core_of
from support.console import Person
from support.http_api import Api

B = "/memories/b.txt"


def test_who_accepted_a_version(person: Person, store: MemoryStore, at: str) -> None:
    store.change_settings({"review": ["session:new"]})
    store.edit(B, "plain", "proposed", actor="session:new")
    assert "Reviewed" not in person.get(f"{at}/m/b.txt").text
    store.review.accept([each.id for each in store.review.pending()], actor="user:lead")
    page = person.get(f"{at}/m/b.txt")
    assert page.problems() == []
    assert "Reviewed user:lead accepted," in page.text
    store.edit(B, "proposed", "changed", actor="user:ann")
    assert "Reviewed" not in person.get(f"{at}/m/b.txt").text
    assert "Reviewed user:lead accepted," in person.get(f"{at}/m/b.txt?at=r4").text


@pytest.mark.parametrize("earlier", ["", "?at=r3"])
def test_when_a_memory_was_viewed(person: Person, store: MemoryStore, at: str, earlier: str) -> None:
    """The time is that of a view before the page. A page that the browser has is sent again when it changes.

    An earlier state may have a memory that was deleted since.
    """
    if earlier:
        store.delete(B)
    page = person.get(f"{at}/m/b.txt{earlier}")
    assert "Viewed not yet" in page.text
    assert person.get(page.url, if_none_match=page.headers["etag"]).status == 304
    core_of(store).accesses.flush()
    again = person.get(page.url, if_none_match=page.headers["etag"])
    assert again.status == 200
    assert "Viewed last" in again.text
    assert person.get(page.url, if_none_match=again.headers["etag"]).status == 304
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
