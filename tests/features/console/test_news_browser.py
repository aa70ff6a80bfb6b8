"""News of pages in a real browser: they appear without moving the page, over restarts, until the key is revoked."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

import retentive
from retentive import MemoryStore
from support.browser import Browser, Page, browser, expect, signed_in
from support.http_api import Api

__all__ = ["browser"]
PAGES = ["activity", "tree/"]


def places(page: Page) -> list[float]:
    """Vertical places of the visible rows and headings."""
    found: list[float] = page.evaluate(
        "[...document.querySelectorAll('main tr, main h1, main h2, main .card')].filter(e => e.offsetParent)"
        ".map(e => e.getBoundingClientRect().top)"
    )
    return found


@pytest.mark.parametrize("at", PAGES)
@pytest.mark.parametrize("width", [390, 1440])
def test_news_wait_for_the_reader_and_nothing_moves(
    browser: Browser, api: Api, store: MemoryStore, at: str, width: int
) -> None:
    problems: list[str] = []
    for number in range(30):
        store.create(f"/memories/{number}.txt", "", actor=f"session:{number}")
    with signed_in(browser, api, problems=problems, width=width) as page:
        page.goto(f"/console/s/{store.id}/{at}")
        page.evaluate("window.scrollTo(0, 300)")
        before = places(page)
        assert len(before) > 30
        for name in ("x", "y", "z"):
            store.create(f"/memories/{name}.md", f"{name}\n", actor="session:agent")
        expect(page.locator("#news")).to_contain_text("3 new changes.")
        assert places(page) == before
        assert page.evaluate("window.scrollY") == 300
        page.locator("#news").get_by_role("link", name="Show").click()
        expect(page.locator("#listing")).to_contain_text("z.md")
        expect(page.locator("#news")).to_have_text("")
        store.write("/memories/x.md", "changed\n", actor="session:agent")
        expect(page.locator("#news")).to_contain_text("1 new change.")
    assert problems == []


def test_a_page_goes_on_after_a_restart_of_the_server(
    browser: Browser, tmp_path: Path, served: Callable[..., AbstractContextManager[Api]]
) -> None:
    problems: list[str] = []
    at = f"sqlite:///{tmp_path}/m.db"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with retentive.open(at) as opened, served(opened, port=port) as api:
        store_id = opened.store("s").id
        context = signed_in(browser, api, problems=problems)
        page = context.__enter__()
        page.goto(f"/console/s/{store_id}/activity")
        opened.store("s").create("/memories/before.md", "")
        expect(page.locator("#news")).to_contain_text("1 new change.")
    with retentive.open(at) as opened:
        opened.store("s").create("/memories/meanwhile.md", "")
        with served(opened, port=port):
            expect(page.locator("#news")).to_contain_text("2 new changes.", timeout=30_000)
            context.__exit__(None, None, None)
    assert [
        each for each in problems if "net::ERR_CONNECTION_REFUSED" not in each and "Failed to fetch" not in each
    ] == []


def test_a_revoked_key_shows_that_the_person_is_signed_out(browser: Browser, api: Api, store: MemoryStore) -> None:
    problems: list[str] = []
    made = api.place.keys.create("x", scopes=("read",))
    with signed_in(browser, Api(api.url, made.text, api.place), problems=problems) as page:
        page.goto(f"/console/s/{store.id}/activity")
        api.place.keys.change(made.record.id, status="archived")
        store.create("/memories/after.md", "")
        link = page.get_by_role("link", name="You are signed out")
        expect(link).to_be_visible()
        assert "after.md" not in page.content()
        link.click()
        expect(page.locator("h1")).to_have_text("Sign in")
    assert problems == []
