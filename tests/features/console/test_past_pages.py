"""Pages of the past: marks for what is new, changed and gone since then, and the last change of each entry."""

from __future__ import annotations

import re

import pytest

from retentive import MemoryStore
from support.console import Person, Seen


@pytest.fixture
def lived(store: MemoryStore) -> MemoryStore:
    """A store after revision 3, with changes of each kind since."""
    store.create("/memories/notes/new.md", "x", actor="session:s4")
    store.create("/memories/fresh/deep/new.md", "x", actor="session:s4")
    store.create("/memories/new.md", "x", actor="session:s4")
    store.write("/memories/notes/a.md", "changed\n", actor="session:s5")
    store.delete("/memories/b.txt", actor="user:ann")
    store.create("/memories/brief.md", "x")
    store.delete("/memories/brief.md")
    return store


def rows(page: Seen) -> dict[str, str]:
    """Text of each row of the listing, by its first word."""
    table = page.body.partition("<tbody>")[2].partition("</tbody>")[0]
    texts = [" ".join(re.sub(r"<[^>]+>", " ", each).split()) for each in table.split("<tr>")[1:]]
    return {text.partition(" ")[0]: text for text in texts}


def test_marks_of_the_root(person: Person, lived: MemoryStore, at: str) -> None:
    page = person.get(f"{at}/tree/?at=r3")
    found = rows(page)
    assert list(found) == ["b.txt", "notes/", "fresh/", "new.md"]
    assert " gone " in found["b.txt"]
    assert "1 new 1 changed" in found["notes/"]
    assert "1 new" in found["fresh/"]
    assert " new " in found["new.md"]
    assert "Since then: 7 changes by 4 actors; 3 new, 1 changed, 1 gone" in page.text
    assert {f"{at}/m/new.md", f"{at}/tree/fresh", f"{at}/m/b.txt?at=r3", f"{at}/since/?at=r3"} <= set(page.links)
    assert "unchanged" in rows(person.get(f"{at}/tree/?at=r8"))["notes/"]


def test_a_memory_of_the_past_is_compared_with_now(person: Person, lived: MemoryStore, at: str) -> None:
    then, now = (lived.versions("/memories/notes/a.md")[each].id for each in (1, 0))
    page = person.get(f"{at}/m/notes/a.md?at=r3")
    assert "changed since then" in page.text
    assert f"{at}/diff/{then}..{now}" in page.links
    assert "gone since then" in person.get(f"{at}/m/b.txt?at=r3").text
    assert "unchanged since then" in person.get(f"{at}/m/new.md?at=r6").text


def test_a_directory_of_the_past_is_compared_with_now(person: Person, lived: MemoryStore, at: str) -> None:
    page = person.get(f"{at}/since/?at=r3")
    assert "Now, compared with r3" in page.text
    for text in ("removed plain", "added changed", "removed three", "/memories/fresh/deep/new.md"):
        assert text in page.text
    assert "added one" not in page.text
    below = person.get(f"{at}/since/notes?at=r3").text
    assert "/memories/notes/new.md" in below
    assert "fresh" not in below
    assert "?at=r3&view=unified" in person.get(f"{at}/since/notes?at=r3").links
    for wrong in ("since/?at=never", "since/", "since/?at=r999"):
        assert person.get(f"{at}/{wrong}").status in {400, 404}


def test_the_last_change_of_each_entry(person: Person, lived: MemoryStore, at: str) -> None:
    lived.delete("/memories/notes/new.md", actor="job:expiry")
    found = rows(person.get(f"{at}/tree/"))
    assert "job:expiry deleted new.md" in found["notes/"]
    assert "session:s4 created deep/new.md" in found["fresh/"]
    assert "session:s4 created" in found["new.md"]


@pytest.mark.parametrize(
    ("page", "answered"),
    [
        ("tree/gone?at=r11", "200 tree/gone?at=r11"),
        ("tree/gone?at=r12", "404 tree/gone?at=r12"),
        ("tree/kept?at=r11", "404 tree/kept?at=r11"),
        ("tree/fresh?at=r3", "404 tree/fresh?at=r3"),
        ("tree/fresh?at=r5", "200 tree/fresh?at=r5"),
        ("tree/b.txt?at=r3", "200 m/b.txt?at=r3"),
        ("tree/notes?at=r99", "404 tree/notes?at=r99"),
        ("tree/notes?at=never", "400 tree/notes?at=never"),
        ("tree/?at=never", "400 tree/?at=never"),
    ],
)
def test_an_earlier_state_is_answered_with_its_status(
    person: Person, lived: MemoryStore, at: str, page: str, answered: str
) -> None:
    """Also for a directory that is gone, one that did not exist yet, and a memory."""
    lived.create("/memories/gone/one.md", "x")
    lived.rename("/memories/gone", "/memories/kept")
    answer = person.get(f"{at}/{page}")
    assert f"{answer.status} {answer.url.partition(at)[2].removeprefix('/')}" == answered
    assert ("one.md" in answer.text) == (page == "tree/gone?at=r11")


def test_a_directory_that_is_empty_now_leads_to_its_history(person: Person, lived: MemoryStore, at: str) -> None:
    lived.change_settings({"quarantine": ["session:s4"]})
    assert f"{at}/tree/fresh" in person.get(f"{at}/tree/?at=r3").links
    page = person.get(f"{at}/tree/fresh")
    assert (page.status, page.url.partition(at)[2]) == (200, "/activity?path=%2Fmemories%2Ffresh")
    assert "/memories/fresh/deep/new.md" in page.text
    assert person.get(f"{at}/tree/unknown").status == 404
