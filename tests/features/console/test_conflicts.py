"""The conflict page: a choice for each place, and nothing that was typed is lost."""

from __future__ import annotations

import pytest

from retentive import MemoryStore
from retentive.console import differences
from retentive.values.diff import merge_parts
from support.console import Person, Seen

PATH = "/memories/notes/a.md"
BASE, MINE, THEIRS = "1\n2\n3\n4\n5\n", "1\nmine\n3\n4\n5 mine", "1\ntheirs\n3\n4 theirs\n5\n"


def conflict(person: Person, store: MemoryStore, at: str) -> Seen:
    store.write(PATH, BASE)
    fields = person.get(f"{at}/edit/notes/a.md").form("/edit/")
    store.write(PATH, THEIRS, actor="session:agent")
    return person.post(f"{at}/edit/notes/a.md", {**fields, "text": MINE})


@pytest.mark.parametrize(
    ("picks", "expected"),
    [
        (["mine", "mine"], "1\nmine\n3\n4\n5 mine"),
        (["theirs", "theirs"], THEIRS),
        (["theirs", "mine"], "1\ntheirs\n3\n4\n5 mine"),
        (["both", "both"], "1\ntheirs\nmine\n3\n4 theirs\n5\n4\n5 mine"),
        (["other"], "1\nmine\n3\n4\n5 mine"),
    ],
)
def test_each_place_has_the_chosen_text(picks: list[str], expected: str) -> None:
    assert differences.decided(merge_parts(BASE, MINE, THEIRS), picks)[0] == expected


def test_a_deleted_part_can_be_kept() -> None:
    parts = merge_parts("1\n2\n3\n", "1\n3\n", "1\n2 theirs\n3\n")
    found = {pick: differences.decided(parts, [pick]) for pick in ("mine", "theirs", "both")}
    assert found["mine"] == ("1\n3\n", [{"line": 2, "mine": [], "theirs": ["2 theirs"], "pick": "mine"}])
    assert found["both"][0] == found["theirs"][0] == "1\n2 theirs\n3\n"


def test_choices_are_shown_and_then_saved(person: Person, store: MemoryStore, at: str) -> None:
    page = conflict(person, store, at)
    assert (page.status, "2 places to decide" in page.text) == (409, True)
    fields = page.form("/edit/")
    assert (fields["mine"], fields["place-0"], fields["place-1"]) == (MINE, "mine", "mine")
    shown = person.post(f"{at}/edit/notes/a.md", {**fields, "place-0": "theirs", "choose": "show"})
    assert shown.form("/edit/")["text"] == "1\ntheirs\n3\n4\n5 mine"
    assert shown.form("/edit/")["place-0"] == "theirs"
    assert store.read(PATH) == THEIRS
    person.post(f"{at}/edit/notes/a.md", {**shown.form("/edit/"), "choose": "save"})
    assert store.read(PATH) == "1\ntheirs\n3\n4\n5 mine"


@pytest.mark.parametrize("text", ["a\rb", "a\r\nb\nc"])
def test_a_text_that_a_browser_would_change_is_not_edited(
    person: Person, store: MemoryStore, at: str, text: str
) -> None:
    store.write(PATH, text)
    page = person.get(f"{at}/edit/notes/a.md")
    assert (page.status, "mixed line ends" in page.text) == (400, True)


def test_choices_do_not_drop_an_edit_of_the_text(person: Person, store: MemoryStore, at: str) -> None:
    fields = conflict(person, store, at).form("/edit/")
    page = person.post(f"{at}/edit/notes/a.md", {**fields, "text": "as edited\n", "choose": "save"})
    assert (page.status, "edited the text as well" in page.text) == (409, True)
    assert page.form("/edit/")["text"] == "as edited\n"
    assert store.read(PATH) == THEIRS
    person.post(f"{at}/edit/notes/a.md", page.form("/edit/"))
    assert store.read(PATH) == "as edited\n"


@pytest.mark.parametrize("choose", ["save", "show"])
def test_a_third_change_brings_the_page_again(person: Person, store: MemoryStore, at: str, choose: str) -> None:
    fields = conflict(person, store, at).form("/edit/")
    store.write(PATH, "0\n" + THEIRS, actor="session:other")
    page = person.post(f"{at}/edit/notes/a.md", {**fields, "choose": choose})
    assert (page.status, "session:other" in page.text) == (409, True)
    assert page.form("/edit/")["text"] == "0\n1\nmine\n3\n4\n5 mine"
    assert store.read(PATH) == "0\n" + THEIRS


def test_a_memory_that_is_gone_keeps_the_typed_text(person: Person, store: MemoryStore, at: str) -> None:
    fields = person.get(f"{at}/edit/notes/a.md").form("/edit/")
    store.delete(PATH)
    page = person.post(f"{at}/edit/notes/a.md", {**fields, "text": "typed\n"})
    assert (page.status, page.form("/edit/")["text"]) == (409, "typed\n")
    person.post(f"{at}/edit/notes/a.md", page.form("/edit/"))
    assert store.read(PATH) == "typed\n"


def test_more_places_than_the_page_offers_are_edited_as_text(person: Person, store: MemoryStore, at: str) -> None:
    lines = range(140)
    store.write(PATH, "".join(f"{n}\n\n" for n in lines))
    fields = person.get(f"{at}/edit/notes/a.md").form("/edit/")
    store.write(PATH, "".join(f"{n} theirs\n\n" for n in lines))
    mine = "".join(f"{n} mine\n\n" for n in lines)
    page = person.post(f"{at}/edit/notes/a.md", {**fields, "text": mine})
    assert "yours there" in page.text
    assert page.form("/edit/")["text"] == mine
    assert "place-0" not in page.form("/edit/")
