"""What people do in the console, in a browser: light and dark, wide and narrow, with and without JavaScript.

The full profile runs each flow in all of these; the long profile runs each in one, in turn. On each page that a flow
visits, nothing overflows, the browser logs nothing, and no request leaves the server.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from retentive import MemoryStore
from support.browser import LOOKS, Browser, Looks, Page, browser, expect, signed_in
from support.http_api import Api
from support.profiles import combined

__all__ = ["browser"]
PATH = "/memories/notes/a.md"


class Visitor:
    """A page of a person, at a store. `check` is called on each page of a flow."""

    def __init__(self, page: Page, store: MemoryStore, api: Api, *, js: bool) -> None:
        self.page, self.store, self.api, self.js = page, store, api, js

    def open(self, path: str) -> None:
        self.page.goto(f"/console/s/{self.store.id}/{path}")
        self.check()

    def link(self, name: str | re.Pattern[str]) -> None:
        self.page.get_by_role("main").get_by_role("link", name=name).first.click()
        self.check()

    def press(self, name: str) -> None:
        self.page.get_by_role("button", name=name, exact=True).click()
        self.check()

    def sees(self, text: str) -> None:
        expect(self.page.get_by_role("main")).to_contain_text(text)

    def check(self) -> None:
        self.page.wait_for_load_state("load")
        width = self.page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
        assert width[0] <= width[1], f"{self.page.url} overflows"
        assert self.page.locator("[style]").count() == 0


def sign_in_again(visitor: Visitor) -> None:
    """A wrong key, then the page that was asked for; afterwards the page needs a sign-in."""
    page = visitor.page
    page.locator("details.menu summary").last.click()
    visitor.press("Sign out")
    page.goto(f"/console/s/{visitor.store.id}/m/notes/a.md")
    for key in ("wrong", visitor.api.key):
        page.fill("#key", key)
        visitor.press("Sign in")
        if key == "wrong":
            expect(page.get_by_role("alert")).to_contain_text("This did not work")
    expect(page.locator(".head h1")).to_contain_text("a.md")


def find_blame_and_compare(visitor: Visitor) -> None:
    page = visitor.page
    visitor.open("tree/")
    page.get_by_role("searchbox", name="Search this store").fill("three")
    page.keyboard.press("Enter")
    visitor.sees("1 memory")
    visitor.link("session:s2")
    visitor.sees("By anybody")
    visitor.link("notes/a.md")
    visitor.link("Blame")
    expect(page.locator("tr").filter(has_text="session:s2")).to_contain_text("2")
    visitor.link("before")
    visitor.sees("two")
    visitor.link("Newer")
    visitor.link("Difference")
    expect(page.locator("td.del")).to_contain_text("two")
    visitor.link("Unified")
    expect(page.locator("td.add")).to_contain_text("2")
    page.go_back()
    visitor.open("m/notes/a.md?view=history")
    visitor.press("Compare")
    expect(page.locator("td.add")).to_contain_text("2")


def undo_a_session_and_the_undo(visitor: Visitor) -> None:
    visitor.open("activity")
    visitor.link("session:s2")
    visitor.link("Undo all of it")
    visitor.sees("nothing has happened yet")
    visitor.press("Undo: 1 step")
    visitor.sees("undo of")
    assert "two" in visitor.store.read(PATH)
    visitor.link("Undo this change")
    visitor.press("Undo: 1 step")
    visitor.sees("undo of")
    assert "two" not in visitor.store.read(PATH)


def edit_in_two_tabs(visitor: Visitor) -> None:
    first = visitor.page
    second = first.context.new_page()
    for page in (first, second):
        page.goto(f"/console/s/{visitor.store.id}/edit/notes/a.md")
    first.fill("#text", "# Notes\n\none\nfirst\nthree\nof the first\n")
    second.fill("#text", "# Second\n\none\nsecond\nthree\n")
    for page in (first, second):
        visitor.page = page
        visitor.press("Save")
    expect(second.get_by_role("alert")).to_contain_text("Not saved")
    second.locator("input[value=both]").check()
    visitor.press("Save with these choices")
    second.wait_for_url("**/m/notes/a.md")
    assert visitor.store.read(PATH) == "# Second\n\none\nfirst\nsecond\nthree\nof the first\n"


FLOWS: dict[str, Callable[[Visitor], None]] = {
    each.__name__: each
    for each in (
        sign_in_again,
        find_blame_and_compare,
        undo_a_session_and_the_undo,
        edit_in_two_tabs,
    )
}


@pytest.mark.parametrize(("flow", "looks"), combined(FLOWS, LOOKS))
def test_a_flow(browser: Browser, api: Api, store: MemoryStore, flow: str, looks: Looks) -> None:
    problems: list[str] = []
    scheme, width, js = looks
    with signed_in(browser, api, scheme=scheme, width=width, js=js, problems=problems) as page:
        FLOWS[flow](Visitor(page, store, api, js=js))
    assert [each for each in problems if not re.search("status of (403|409)", each)] == []
