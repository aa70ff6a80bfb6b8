"""Differences: the mark of what changed again, and the activity: pages, and undo of a session."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest

from retentive import MemoryStore
from retentive.console.pages import history
from support.console import Person
from support.http_api import Api

NOTES = "/memories/notes/a.md"


def test_what_changed_again_later_is_marked(person: Person, store: MemoryStore, at: str) -> None:
    """The mark leads to the difference from then to now. The newest change of a memory has none."""
    first, newest = (store.versions(NOTES)[place].id for place in (1, 0))
    page = person.get(f"{at}/change/r1")
    assert "changed again later" in page.text
    assert f"{at}/diff/{first}..{newest}" in page.links
    assert "changed again later" not in person.get(f"{at}/change/r2").text
    assert "changed again later" not in person.get(f"{at}/diff/{first}..{newest}").text
    assert "changed again later" in person.get(f"{at}/by/session:s1").text
    store.delete("/memories/b.txt", actor="user:ann")
    assert "changed again later" not in person.get(f"{at}/change/r4").text
    store.history.undo("r4", actor="user:ann")
    page = person.get(f"{at}/change/r4")
    assert page.text.count("changed again later") == 1
    assert f"{at}/change/{store.versions('/memories/b.txt')[0].id}" in page.links


def test_lines_that_did_not_change_are_folded(person: Person, store: MemoryStore, at: str) -> None:
    store.create("/memories/long.md", "".join(f"line {number}\n" for number in range(1, 31)))
    store.edit("/memories/long.md", "line 20", "line twenty")
    assert "16 unchanged lines" in person.get(f"{at}/change/r5").text


def test_what_an_actor_created_and_deleted_again_keeps_its_name(person: Person, store: MemoryStore, at: str) -> None:
    """It is not labelled as redacted; a version whose path was redacted is."""
    gone = store.create("/memories/gone.md", "short lived", actor="session:q")
    store.delete("/memories/gone.md", actor="session:q")
    page = person.get(f"{at}/by/session:q")
    assert "gone.md" in page.text
    assert "created and deleted again" in page.text
    assert "redacted" not in page.text
    assert f"{at}/id/{gone.memory_id}" in page.links
    store.history.redact(all_of="/memories/gone.md", actor="user:ann")
    assert "redacted" in person.get(f"{at}/by/session:q").text


def test_activity_page_by_page(person: Person, store: MemoryStore, at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`before` is a version: each change is on one page, and older pages are neither live nor have a strip."""
    monkeypatch.setattr(history, "VERSIONS", 2)
    page = person.get(f"{at}/activity?path=/memories")
    assert "r3 created" in page.text
    assert "r1 created" not in page.text
    older = person.get(next(link for link in page.links if "before=" in link))
    assert older.problems() == []
    assert "r1 created" in older.text
    assert "r3 created" not in older.text
    assert not [link for link in older.links if "before=" in link]
    assert "/news" not in older.body
    assert person.get(f"{at}/activity?before=r1").status == 400


def test_a_session_is_undone_from_the_activity(person: Person, store: MemoryStore, at: str) -> None:
    """Only changes of that actor in that session are undone, as one change."""
    store.create("/memories/x.md", "x\n", actor="user:ann", session="talk-1")
    store.create("/memories/y.md", "y\n", actor="user:ann", session="talk-2")
    page = person.get(f"{at}/activity")
    assert page.text.count("Undo this session") == 4
    assert page.text.count("Undo everything by this actor") == 1
    url = next(link for link in page.links if "session=talk-1" in link)
    assert "actor=user%3Aann" in url
    preview = person.get(url)
    assert preview.problems() == []
    assert "Undo the session talk-1 by user:ann 1 step, 1 change" in preview.text
    done = person.submit(url, "/undo")
    assert done.status == 200
    assert [each.path for each in store.memories()] == ["/memories/b.txt", NOTES, "/memories/y.md"]
    assert "1 step" in person.get(f"{at}/undo?session=talk-2").text
    assert "1 step" in person.get(f"{at}/undo?actor=session:s2").text
    assert person.get(f"{at}/undo?change=r1&session=talk-2").status == 400
    assert person.get(f"{at}/undo?session=unknown").status == 404


def test_what_can_be_undone_of_a_session_is_undone(person: Person, store: MemoryStore, at: str) -> None:
    """The preview offers it if a memory was changed later, and lists what stays."""
    for name in ("x", "y"):
        store.create(f"/memories/{name}.md", f"{name}\n", actor="session:q")
    store.write("/memories/x.md", "changed\n", actor="user:ann")
    preview = person.get(f"{at}/undo?actor=session:q")
    assert "Undo what can be undone, and leave these memories (partial)" in preview.text
    partial = person.get(f"{at}/undo?actor=session:q&mode=partial")
    assert "These memories stay as they are" in partial.text
    assert "/memories/x.md : a later change modified the memory" in partial.text
    person.post(f"{at}/undo", partial.form(f"{at}/undo"))
    assert [each.path for each in store.memories() if each.path[-5:] in {"/x.md", "/y.md"}] == ["/memories/x.md"]


@pytest.mark.parametrize("names", [{"session": "*"}, {"session": "tal?"}, {"actor": "user:b*"}])
def test_no_undo_is_offered_for_a_name_that_is_a_pattern(
    person: Person, store: MemoryStore, at: str, names: dict[str, str]
) -> None:
    """It would undo the changes of others too. The undo page says so to those who open it."""
    store.create("/memories/x.md", "x\n", **{"actor": "user:bot", **names})
    assert not [link for link in person.get(f"{at}/activity?path=x.md").links if "/undo?" in link]
    assert not [link for link in person.get(f"{at}/m/x.md").links if "/undo?" in link and "%2A" in link]
    preview = person.get(f"{at}/undo?{urlencode(names)}")
    assert preview.problems() == []
    assert "stand for any characters: the changes of all actors and sessions that match are undone" in preview.text


def test_an_archived_store_offers_no_undo(person: Person, api: Api, store: MemoryStore, at: str) -> None:
    """Deletion is offered, since it is possible."""
    api.post(f"/v1/memory_stores/{store.id}/archive")
    version = store.versions("/memories/b.txt")[0].id
    memories = "m/b.txt", "m/b.txt?view=history", "m/notes/a.md?at=r1"
    for url in ("activity", "change/r2", "by/user:ann", *memories, "tree/", "tree/?at=r1", f"v/{version}"):
        page = person.get(f"{at}/{url}")
        assert page.status == 200
        words = "/undo", "/restore", "/edit/", "/move/", "/new"
        assert not [link for link in page.links if link.startswith(at) and any(word in link for word in words)], url
    assert f"{at}/delete/b.txt" in person.get(f"{at}/m/b.txt").links
    preview = person.get(f"{at}/undo?change=r2")
    assert preview.problems() == []
    assert "is archived" in preview.text
    assert not [to for method, to, _ in preview.forms if method == "post" and "/undo" in to]


def test_the_undo_of_a_session_without_an_actor_names_all_actors(person: Person, store: MemoryStore, at: str) -> None:
    store.create("/memories/x.md", "x\n", session="s9")
    store.create("/memories/y.md", "y\n", actor="user:cat", session="s9")
    page = person.get(f"{at}/activity")
    assert page.text.count("Undo this session of all actors") == 1
    preview = person.get(next(link for link in page.links if "/undo?session=s9" in link))
    assert "Undo the session s9 by all actors 2 steps" in preview.text
    assert "Undo the changes of all actors: 2 steps" in preview.text
    both = person.get(next(link for link in page.links if "/undo?actor=user%3Acat" in link))
    assert "Undo the session s9 by user:cat 1 step" in both.text
