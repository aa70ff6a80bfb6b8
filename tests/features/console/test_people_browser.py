"""Several people and agents at the same memories, each in a browser of their own. In the long profile."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from retentive import MemoryStore
from support.browser import Browser, Page, browser, connected, expect, signed_in
from support.http_api import Api
from support.profiles import combined

__all__ = ["browser"]
PATH = "/memories/notes/plan.md"
TEXT = "# Plan\n\none\ntwo\nthree\n\nfour\nfive\n"


@contextmanager
def people(browser: Browser, api: Api, *names: str, problems: list[str], **options: Any) -> Iterator[tuple[Page, ...]]:
    """A browser for each person, each with a key of their own. Answers with 409 are expected."""
    found: list[str] = []
    contexts = []
    for name in names:
        made = api.place.keys.create(name, scopes=("read", "write", "review"), principal=f"user:{name}")
        contexts.append(signed_in(browser, Api(api.url, made.text, api.place), problems=found, **options))
    yield tuple(context.__enter__() for context in contexts)
    for context in contexts:
        context.__exit__(None, None, None)
    problems += [each for each in found if "409" not in each]


def both_save(first: Page, second: Page, url: str, ann: str, ben: str) -> None:
    """Open the form in both browsers; the first person saves, then the second."""
    for page in (first, second):
        page.goto(url)
    for page, text in ((first, ann), (second, ben)):
        page.fill("#text", text)
        page.get_by_role("button", name="Save", exact=True).click()
    expect(first.locator(".head h1")).to_contain_text("plan.md")
    expect(second.get_by_role("alert")).to_contain_text("Not saved")


ANN = TEXT.replace("one", "one of ann").replace("four", "four of ann").replace("# Plan", "# Plan of ann")
BEN = TEXT.replace("one", "one of ben").replace("four", "four of ben").replace("five", "five\nsix of ben")


CHOICES: dict[str, tuple[tuple[str, str], str]] = {
    "mine": (("mine", "mine"), BEN.replace("# Plan", "# Plan of ann")),
    "theirs": (("theirs", "theirs"), ANN.replace("five", "five\nsix of ben")),
    "both and theirs": (
        ("both", "theirs"),
        ANN.replace("one of ann", "one of ann\none of ben").replace("five", "five\nsix of ben"),
    ),
}


@pytest.mark.parametrize(("choice", "js"), combined(CHOICES, (True, False)))
def test_two_people_edit_the_same_lines_and_the_second_decides(
    browser: Browser, api: Api, store: MemoryStore, choice: str, js: bool
) -> None:
    picks, expected = CHOICES[choice]
    store.create(PATH, TEXT, actor="session:s1")
    problems: list[str] = []
    with people(browser, api, "ann", "ben", problems=problems, js=js) as (ann, ben):
        both_save(ann, ben, f"/console/s/{store.id}/edit/notes/plan.md", ANN, BEN)
        assert store.read(PATH) == ANN
        places = ben.locator("fieldset.picks")
        expect(places).to_have_count(2)
        for number, pick in enumerate(picks):
            shown = places.nth(number).locator(".pick")
            expect(shown.nth(0)).to_contain_text("of ann")
            expect(shown.nth(1)).to_contain_text("of ben")
            places.nth(number).locator(f"input[value={pick}]").check()
        ben.get_by_role("button", name="Show the text with these choices").click()
        expect(ben.locator("#text")).to_have_value(expected)
        assert store.read(PATH) == ANN
        ben.get_by_role("button", name="Save with these choices").click()
        expect(ben.locator(".head h1")).to_contain_text("plan.md")
    assert store.read(PATH) == expected
    assert [str(each.actor) for each in store.versions(PATH)] == ["user:ben", "user:ann", "session:s1"]
    assert store.history.show(store.versions(PATH)[1].id)[1] == ANN
    assert problems == []


def test_the_text_of_a_conflict_can_be_edited_and_an_agent_writes_once_more(
    browser: Browser, api: Api, store: MemoryStore
) -> None:
    """Edits beside the choices are not dropped, and a third change brings the page once more."""
    store.create(PATH, TEXT, actor="session:s1")
    problems: list[str] = []
    with people(browser, api, "ann", "ben", problems=problems) as (ann, ben):
        both_save(ann, ben, f"/console/s/{store.id}/edit/notes/plan.md", ANN, BEN)
        ben.fill("#text", TEXT.replace("one", "one as edited"))
        ben.get_by_role("button", name="Save with these choices").click()
        expect(ben.get_by_role("alert").last).to_contain_text("edited the text as well")
        expect(ben.locator("#text")).to_have_value(TEXT.replace("one", "one as edited"))
        store.write(PATH, ANN.replace("three", "three of the agent"), actor="session:agent")
        ben.get_by_role("button", name="Save the text as edited here").click()
        expect(ben.get_by_role("alert")).to_contain_text("session:agent")
        expect(ben.locator("#text")).to_have_value(re.compile("one as edited\ntwo\nthree of the agent\n"))
        ben.get_by_role("button", name="Save this text").click()
        expect(ben.locator(".head h1")).to_contain_text("plan.md")
    assert store.read(PATH) == TEXT.replace("one", "one as edited").replace("three", "three of the agent")
    assert problems == []


def test_a_memory_is_deleted_or_renamed_while_a_person_edits_it(browser: Browser, api: Api, store: MemoryStore) -> None:
    store.create(PATH, TEXT, actor="session:s1")
    url, problems = f"/console/s/{store.id}/edit/notes/plan.md", list[str]()
    with people(browser, api, "ben", problems=problems) as (ben,):
        ben.goto(url)
        store.rename(PATH, "/memories/renamed.md", actor="session:agent")
        ben.fill("#text", BEN)
        ben.get_by_role("button", name="Save", exact=True).click()
        expect(ben.get_by_role("alert")).to_contain_text("/memories/renamed.md")
        ben.get_by_role("button", name="Save this text").click()
        expect(ben.locator(".head h1")).to_contain_text("renamed.md")
        assert store.read("/memories/renamed.md") == BEN
        ben.goto(url.replace("notes/plan", "renamed"))
        store.delete("/memories/renamed.md", actor="session:agent")
        ben.fill("#text", ANN)
        ben.get_by_role("button", name="Save", exact=True).click()
        expect(ben.get_by_role("alert")).to_contain_text("deleted")
        ben.get_by_role("button", name="Save this text").click()
        expect(ben.locator(".head h1")).to_contain_text("renamed.md")
    assert store.read("/memories/renamed.md") == ANN
    assert problems == []


def test_an_agent_writes_while_a_person_reviews(browser: Browser, api: Api, store: MemoryStore) -> None:
    """The proposal is not accepted over the change of the agent: the person sees it, and accepts both, merged."""
    store.create(PATH, TEXT, actor="session:s1")
    store.change_settings({"review": ["session:new"]})
    store.edit(PATH, "one", "one as proposed", actor="session:new")
    problems: list[str] = []
    with people(browser, api, "ann", problems=problems) as (ann,):
        connected(ann, f"/console/s/{store.id}/review/{store.review.pending()[0].id}")
        store.edit(PATH, "three", "three of the agent", actor="session:agent")
        store.create("/memories/second.md", "", actor="session:new")
        expect(ann.locator(".meta").first).to_have_text("2 waiting")
        ann.get_by_role("button", name="Accept", exact=True).click()
        expect(ann.get_by_role("alert")).to_contain_text("Nothing was decided")
        assert store.read(PATH) == TEXT.replace("three", "three of the agent")
        expect(ann.locator("main")).to_contain_text("session:agent changed the memory after the proposal")
        expect(ann.locator("tr.same").filter(has_text="three of the agent")).to_be_visible()
        store.edit(PATH, "the agent", "the agent again", actor="session:agent")
        ann.get_by_role("button", name="Accept, merged").click()
        expect(ann.get_by_role("alert")).to_contain_text("changed once more")
        assert len(store.review.pending()) == 2
        expect(ann.locator("tr.same").filter(has_text="of the agent again")).to_be_visible()
        ann.get_by_role("button", name="Accept, merged").click()
        expect(ann.locator(".meta").first).to_have_text("1 waiting")
    merged = TEXT.replace("one", "one as proposed")
    assert store.read(PATH) == merged.replace("three", "three of the agent again")
    assert [str(each.actor) for each in store.versions(PATH)[:3]] == ["session:new", "session:agent", "session:agent"]
    assert [str(each.by) for each in store.review.decisions()] == ["user:ann"]
    assert problems == []


def agent_session(store: MemoryStore) -> dict[str, str]:
    """300 changes of one session, between those of others; the texts of all memories without the session."""
    agent = "session:busy"
    for number in range(20):
        store.create(f"/memories/base/{number}.md", "first\n\nmiddle\n\nlast\n", actor="user:ann")
    for number in range(220):
        store.create(f"/memories/made/{number}.md", f"{number}\n", actor=agent)
    for number in range(20):
        store.edit(f"/memories/base/{number}.md", "first", f"changed {number}", actor=agent)
        store.write(f"/memories/made/{number}.md", "again\n", actor=agent)
        store.rename(f"/memories/made/{number + 20}.md", f"/memories/moved/{number}.md", actor=agent)
        store.delete(f"/memories/made/{number + 40}.md", actor=agent)
    store.edit("/memories/base/0.md", "last", "last of ben", actor="user:ben")
    store.create("/memories/ben.md", "ben\n", actor="user:ben")
    texts = {f"/memories/base/{number}.md": "first\n\nmiddle\n\nlast\n" for number in range(20)}
    texts["/memories/base/0.md"] = "first\n\nmiddle\n\nlast of ben\n"
    return {**texts, "/memories/ben.md": "ben\n"}


def texts_of(store: MemoryStore) -> dict[str, str]:
    return {each.path: store.read(each.path) for each in store.memories()}


def test_a_session_of_300_changes_is_undone_while_another_person_watches(
    browser: Browser, api: Api, store: MemoryStore
) -> None:
    kept = texts_of(store)
    expected = {**kept, **agent_session(store)}
    made, before = texts_of(store), [each.id for each in store.history.log(limit=1_000)]
    problems: list[str] = []
    with people(browser, api, "ann", "ben", problems=problems) as (ann, ben):
        connected(ben, f"/console/s/{store.id}/activity")
        ann.goto(f"/console/s/{store.id}/activity?actor=session:busy")
        ann.get_by_role("heading").get_by_role("link", name="session:busy").click()
        expect(ann.locator(".meta").first).to_contain_text("300 changes")
        ann.get_by_role("link", name="Undo all of it").click()
        expect(ann.locator("main")).to_contain_text("1 memory was changed afterwards")
        ann.get_by_label("Keep them, and undo only these lines").check()
        ann.get_by_role("button", name="Show the preview").click()
        expect(ann.locator("main")).to_contain_text(
            "220 steps, 300 changes. This is a preview: nothing has happened yet."
        )
        assert texts_of(store) == made
        expect(ben.locator("#count")).to_have_text("")
        ann.get_by_role("button", name="Undo: 220 steps").click()
        expect(ann.locator("h1")).to_contain_text("Change")
        assert texts_of(store) == expected
        expect(ben.locator("#count")).to_have_text("220 new changes.")
        ben.get_by_role("button", name="Show them").click()
        expect(ben.locator("#shown li")).to_have_count(201)
        expect(ben.locator("#shown li").first).to_contain_text("user:ann")
        expect(ben.locator("#shown li").last).to_have_text("20 more changes")
        undo_is_recorded(store, before)
        ann.get_by_role("link", name="Undo this change").click()
        ann.get_by_role("button", name="Undo: 220 steps").click()
        expect(ann.locator("main")).not_to_contain_text("nothing has happened yet")
        assert texts_of(store) == made
        expect(ben.locator("#count")).to_have_text("220 new changes.")
    assert problems == []


def undo_is_recorded(store: MemoryStore, before: list[str]) -> None:
    """All earlier versions are kept, and the new ones are one change of the person, through the console."""
    log = store.history.log(limit=1_000)
    new = log[: len(log) - len(before)]
    assert [each.id for each in log[len(new) :]] == before
    assert {str(each.actor) for each in new} == {"user:ann"}
    assert {each.provenance.integration for each in new} == {"console"}
    assert len({each.revision for each in new}) == 1
    assert len({each.memory_id for each in new}) == len(new) == 220
    by = [str(each.actor) for each in log]
    assert by.count("session:busy") == 300
    assert "" not in by
    assert "None" not in by
