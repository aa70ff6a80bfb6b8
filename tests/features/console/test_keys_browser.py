"""Each key of the console in a real browser, the help, the selection in a review, and the focus. Long profile."""

from __future__ import annotations

import re

import pytest

from retentive import MemoryStore
from retentive.console.shortcuts import SHORTCUTS
from support.browser import AXE, RULES, Browser, Page, browser, expect, next_proposal, signed_in
from support.http_api import Api

__all__ = ["browser"]
A, R2 = "m/notes/a.md", "change/r2"
PRESSED = [
    ("g s", "tree/", "/console/"),
    ("g m", "activity", "/tree/"),
    ("g a", "tree/", "/activity"),
    ("g r", "tree/", "/review"),
    ("e", A, "/edit/notes/a.md"),
    ("b", A, "view=blame"),
    ("h", A, "view=history"),
    ("y", A, "/v/{new}"),
    ("[", A, "/v/{old}"),
    ("]", "v/{old}", "/v/{new}"),
    ("[", R2, "/change/r1"),
    ("]", R2, "/change/r3"),
    ("u", R2, "/undo?change=r2"),
    ("p", f"{A}?view=blame", "/v/{old}"),
    ("o", "tree/", "/m/b.txt"),
]
"""Key, page, and the page that it opens."""
ELSEWHERE = {"/", "t", "j", "k", "x", "a", "r", "?"}


@pytest.fixture
def reviewed(store: MemoryStore) -> MemoryStore:
    """The store with three proposals."""
    store.change_settings({"review": ["session:new"]})
    for name in ("x", "y", "z"):
        store.create(f"/memories/{name}.md", f"{name}\n", actor="session:new")
    return store


def focused(page: Page) -> str:
    found: str = page.evaluate("document.activeElement.textContent.trim() || document.activeElement.name")
    return found


def test_all_keys_are_driven() -> None:
    assert {key for key, _, _ in PRESSED} | ELSEWHERE == {key for each in SHORTCUTS for key in each.keys}


def test_a_key_opens_its_page(browser: Browser, api: Api, store: MemoryStore) -> None:
    problems: list[str] = []
    new, old = (each.id for each in store.versions("/memories/notes/a.md"))
    with signed_in(browser, api, problems=problems) as page:
        for key, start, end in PRESSED:
            page.goto(f"/console/s/{store.id}/{start.format(old=old)}")
            for each in key.split(" "):
                page.keyboard.press(each)
            pattern = re.escape(end.format(old=old, new=new)) + "$"
            page.wait_for_url(re.compile(pattern))
    assert problems == []


def test_keys_move_the_focus(browser: Browser, api: Api, store: MemoryStore) -> None:
    problems: list[str] = []
    with signed_in(browser, api, problems=problems) as page:
        page.goto(f"/console/s/{store.id}/tree/")
        for key, expected in (("j", "b.txt"), ("j", "notes/"), ("j", "notes/"), ("k", "b.txt"), ("/", "q")):
            page.keyboard.press(key)
            assert focused(page) == expected
        page.keyboard.type("jegs?")
        expect(page.locator(".find input")).to_have_value("jegs?")
        page.goto(f"/console/s/{store.id}/tree/")
        page.keyboard.press("t")
        assert focused(page) == "path"
        page.goto("/console/")
        page.keyboard.press("/")
        assert focused(page) == "q"
        page.goto(f"/console/s/{store.id}/{A}?view=blame")
        for _ in range(2):
            page.keyboard.press("j")
        page.keyboard.press("o")
        page.wait_for_url("**/change/*")
        expect(page.locator("td.add")).to_have_text(["added 2"])
    assert problems == []


def test_the_help_lists_all_keys_and_turns_them_off(browser: Browser, api: Api, store: MemoryStore) -> None:
    problems: list[str] = []
    with signed_in(browser, api, problems=problems) as page:
        page.goto(f"/console/s/{store.id}/{A}")
        page.keyboard.press("?")
        dialog = page.get_by_role("dialog", name="Keyboard")
        expect(dialog).to_be_visible()
        expect(dialog.locator("kbd")).to_have_text([key for each in SHORTCUTS for key in each.keys])
        if AXE.exists():
            page.evaluate(AXE.read_text("utf-8"))
            result = page.evaluate("rules => axe.run(document, {runOnly: rules})", RULES)
            assert [each["id"] for each in result["violations"]] == []
        page.keyboard.press("e")
        expect(dialog).to_be_visible()
        page.keyboard.press("Escape")
        expect(dialog).to_be_hidden()
        opener = page.get_by_role("button", name="for shortcuts")
        opener.click()
        dialog.get_by_role("checkbox").uncheck()
        dialog.get_by_role("button", name="Close").click()
        expect(opener).to_be_focused()
        page.reload()
        page.keyboard.press("?")
        expect(dialog).to_be_hidden()
        opener.click()
        dialog.get_by_role("checkbox").check()
        page.keyboard.press("Escape")
        page.keyboard.press("h")
        page.wait_for_url("**view=history")
    assert problems == []


def test_several_proposals_are_selected_with_keys_and_accepted_together(
    browser: Browser, api: Api, reviewed: MemoryStore
) -> None:
    problems: list[str] = []
    with signed_in(browser, api, problems=problems) as page:
        page.goto(f"/console/s/{reviewed.id}/review")
        expect(page.get_by_role("button", name="Accept selected")).to_be_disabled()
        for key in "jxjjx":
            page.keyboard.press(key)
        expect(page.get_by_role("button", name="Refuse 2 selected")).to_be_enabled()
        page.keyboard.press("x")
        expect(page.get_by_role("button", name="Accept 1 selected")).to_be_enabled()
        page.keyboard.press("x")
        page.get_by_role("button", name="Accept 2 selected").click()
        next_proposal(page, "y.md", 1)
        expect(page.get_by_role("button", name="Accept selected")).to_be_disabled()
        expect(page.locator("main h2").first).to_be_focused()
    assert [each.summary for each in reviewed.review.pending()] == ["created /memories/y.md"]
    assert len({reviewed.versions(f"/memories/{name}.md")[0].revision for name in "xz"}) == 1
    assert problems == []


def test_a_review_without_scripts_accepts_what_is_selected(browser: Browser, api: Api, reviewed: MemoryStore) -> None:
    problems: list[str] = []
    with signed_in(browser, api, problems=problems, js=False) as page:
        page.goto(f"/console/s/{reviewed.id}/review")
        for name in ("x", "y"):
            page.get_by_role("checkbox", name=f"Select created /memories/{name}.md").check()
        page.get_by_role("button", name="Accept selected").click()
        next_proposal(page, "z.md", 1)
        page.get_by_role("button", name="Refuse", exact=True).click()
        expect(page.locator(".meta").first).to_have_text("0 waiting")
    assert [reviewed.read(f"/memories/{name}.md") for name in "xy"] == ["x\n", "y\n"]
    assert problems == []


def test_a_key_presses_only_what_is_visible_and_once(browser: Browser, api: Api, reviewed: MemoryStore) -> None:
    problems: list[str] = []
    with signed_in(browser, api, problems=problems) as page:
        page.goto(f"/console/s/{reviewed.id}/review/{reviewed.review.pending()[0].id}")
        page.evaluate("document.querySelector('[data-key=r]').hidden = true")
        page.keyboard.press("r")
        page.evaluate(
            "document.body.dispatchEvent(new KeyboardEvent('keydown', {key: 'a', repeat: true, bubbles: true}))"
        )
        page.keyboard.press("x")
        expect(page.get_by_role("button", name="Accept 1 selected")).to_be_enabled()
        assert len(reviewed.review.pending()) == 3
        page.keyboard.press("a")
        next_proposal(page, "y.md", 2)
        page.keyboard.press("r")
        expect(page.locator(".meta").first).to_have_text("1 waiting")
    assert [each.accepted for each in reviewed.review.decisions()] == [False, True]
    assert problems == []
