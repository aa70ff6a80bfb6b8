"""Previews of an undo with many steps: pages of steps, the head before the plan, and errors with their status."""

from __future__ import annotations

import pytest

from retentive import MemoryStore
from retentive.console.pages import undo
from support.console import Person, query_of

MOVED = 120


@pytest.fixture
def moved(store: MemoryStore) -> list[str]:
    """Paths of many memories before one change renamed all of them."""
    for number in range(MOVED):
        store.create(f"/memories/many/{number:03}.md", f"text {number}\n", actor="session:s4")
    store.rename("/memories/many", "/memories/other", actor="session:s5")
    return [f"/memories/many/{number:03}.md" for number in range(MOVED)]


def linked(links: list[str], first: int) -> str:
    """The link to the steps from this number on."""
    return next(link for link in links if query_of(link).get("from") == str(first))


def test_the_steps_have_pages_and_the_undo_from_any_page_does_all_steps(
    person: Person, store: MemoryStore, at: str, moved: list[str]
) -> None:
    """The pages are plain links. Each has the form, with the digest of all steps."""
    pages = [person.get(f"{at}/undo?change=HEAD")]
    for first in (51, 101):
        pages.append(person.get(linked(pages[-1].links, first)))
    shown = [[path for path in moved if path in page.text] for page in pages]
    assert [moved[:50], moved[50:100], moved[100:]] == shown
    assert ["Steps 51 to 100 of 120." in page.text for page in pages] == [False, True, False]
    assert len({page.form("/undo")["seen"] for page in pages}) == 1
    assert not [link for link in pages[2].links if query_of(link).get("from") == "121"]
    assert linked(pages[2].links, 51) in pages[0].links
    done = person.post(f"{at}/undo", pages[1].form("/undo"))
    assert done.status == 200
    assert [each.path for each in store.memories("/memories/many")] == moved


def test_a_preview_lists_some_of_many_conflicts(
    person: Person, store: MemoryStore, at: str, moved: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(undo, "CONFLICTS", 2)
    for number in range(3):
        store.write(f"/memories/other/{number:03}.md", "later\n", actor="session:s6")
    page = person.get(f"{at}/undo?actor=session:s4")
    assert f"{MOVED} memories were changed afterwards" in page.text
    assert "Only the first 2 are listed." in page.text


def test_a_large_change_is_planned_page_by_page_and_undone_whole(
    person: Person, store: MemoryStore, at: str, moved: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later change of a memory on another page stops the undo, and the answer names it."""
    monkeypatch.setattr(undo, "PLANNED", 100)
    page = person.get(f"{at}/undo?change=HEAD&from=21")
    assert [path for path in moved if path in page.text] == moved[20:40]
    assert "Memories 21 to 40 of 120." in page.text
    assert "Undo: 120 memories" in page.text
    form = next(to for method, to, _ in page.forms if method == "post" and "/undo" in to)
    store.rename("/memories/other/000.md", "/memories/elsewhere.md", actor="session:s6")
    page = person.get(f"{at}/undo?actor=session:s5&from=21")
    stopped = person.post(form, page.form("/undo"))
    assert (stopped.status, "1 memory was changed afterwards" in stopped.text) == (409, True)
    assert len(store.memories("/memories/other")) == len(moved) - 1
    store.history.undo("HEAD")
    done = person.post(form, person.get(f"{at}/undo?actor=session:s5&from=21").form("/undo"))
    assert done.status == 200
    assert [each.path for each in store.memories("/memories/many")] == moved
