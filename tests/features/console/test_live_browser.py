"""Live pages in a real browser: rows appear without moving the page, over restarts, until the key is revoked."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

import retentive
from retentive import MemoryStore
from retentive.console.web import console
from support import hostile
from support.browser import Browser, Page, browser, connected, expect, signed_in
from support.http_api import Api, serving
from support.planted import plant

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
def test_rows_wait_for_the_reader_and_nothing_moves(
    browser: Browser, api: Api, store: MemoryStore, at: str, width: int
) -> None:
    problems: list[str] = []
    for number in range(30):
        store.create(f"/memories/{number}.txt", "", actor=f"session:{number}")
    with signed_in(browser, api, problems=problems, width=width) as page:
        connected(page, f"/console/s/{store.id}/{at}")
        page.evaluate("window.scrollTo(0, 300)")
        before = places(page)
        assert len(before) > 30
        for name in ("x", "y", "z"):
            store.create(f"/memories/{name}.md", f"{name}\n", actor="session:agent")
        expect(page.locator("#count")).to_have_text("3 new changes.")
        assert places(page) == before
        assert page.evaluate("window.scrollY") == 300
        page.get_by_role("button", name="Show them").click()
        rows = page.locator("#shown li")
        expect(rows).to_have_count(3)
        expect(rows.first).to_contain_text("/memories/z.md")
        expect(page.locator("#count")).to_have_text("")
        expect(page.get_by_role("button", name="Show them")).to_be_hidden()
        if at == "tree/":
            expect(page.locator("#listing")).to_contain_text("z.md")
        store.write("/memories/x.md", "changed\n", actor="session:agent")
        expect(page.locator("#count")).to_have_text("1 new change.")
        rows.first.get_by_role("link", name="/memories/z.md").click()
        expect(page.locator("h1")).to_contain_text("z.md")
    assert problems == []


def test_a_page_goes_on_after_a_restart_of_the_server(browser: Browser, tmp_path: Path) -> None:
    """It misses nothing, and shows nothing twice."""
    problems: list[str] = []
    at = f"sqlite:///{tmp_path}/m.db"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with retentive.open(at) as opened, serving(opened, more=lambda server: console(server).routes(), port=port) as api:
        store_id = opened.store("s").id
        context = signed_in(browser, api, problems=problems)
        page = context.__enter__()
        connected(page, f"/console/s/{store_id}/activity")
        opened.store("s").create("/memories/before.md", "")
        expect(page.locator("#count")).to_have_text("1 new change.")
        assert api.server is not None
        api.server.stop()  # as the handler of SIGTERM does
    with retentive.open(at) as opened:
        opened.store("s").create("/memories/meanwhile.md", "")
        with serving(opened, more=lambda server: console(server).routes(), port=port):
            expect(page.locator("#count")).to_have_text("2 new changes.", timeout=30_000)
            opened.store("s").create("/memories/after.md", "")
            expect(page.locator("#count")).to_have_text("3 new changes.", timeout=30_000)
            page.get_by_role("button", name="Show them").click()
            expect(page.locator("#shown li")).to_contain_text(["after.md", "meanwhile.md", "before.md"])
            context.__exit__(None, None, None)
    assert [each for each in problems if "net::ERR_CONNECTION_REFUSED" not in each and "sse:error" not in each] == []


def test_a_revoked_key_shows_that_the_person_is_signed_out(browser: Browser, api: Api, store: MemoryStore) -> None:
    problems: list[str] = []
    made = api.place.keys.create("x", scopes=("read",))
    with signed_in(browser, Api(api.url, made.text, api.place), problems=problems) as page:
        connected(page, f"/console/s/{store.id}/activity")
        api.place.keys.change(made.record.id, status="archived")
        store.create("/memories/after.md", "")
        link = page.get_by_role("link", name="You are signed out")
        expect(link).to_be_visible()
        assert "after.md" not in page.content()
        link.click()
        expect(page.locator("h1")).to_have_text("Sign in")
    assert problems == []


def test_a_removal_takes_its_rows_away(browser: Browser, api: Api, store: MemoryStore) -> None:
    problems: list[str] = []
    with signed_in(browser, api, problems=problems) as page:
        connected(page, f"/console/s/{store.id}/activity")
        store.create("/memories/secret-name.md", "x")
        page.get_by_role("button", name="Show them").click()
        expect(page.locator("#shown")).to_contain_text("secret-name")
        store.history.erase("/memories/secret-name.md")
        expect(page.locator("#count")).not_to_have_text("")
        page.get_by_role("button", name="Show them").click()
        expect(page.locator("#shown li")).to_have_count(0)
        expect(page.locator("#listing")).to_be_visible()
        expect(page.locator("main")).not_to_contain_text("secret-name")
    assert problems == []


def test_hostile_rows_run_nothing(browser: Browser, api: Api) -> None:
    """Rows of paths and actors of the corpus, and a page whose store has the corpus in its names."""
    problems: list[str] = []
    store = plant(api.place.opened, 1)
    with signed_in(browser, api, problems=problems) as page:
        for at in PAGES:
            connected(page, f"/console/s/{store.id}/{at}")
            names, paths = list(hostile.names()), list(hostile.path_names())
            for number, path in enumerate(paths):
                store.create(f"/memories/{at[0]}{path}", names[number], actor=f"session:{names[number]}")
            expect(page.locator("#count")).to_have_text(f"{len(paths)} new changes.")
            page.get_by_role("button", name="Show them").click()
            expect(page.locator("#shown li")).to_have_count(len(paths))
            assert page.evaluate("window.pwned") is None
            assert page.locator("#shown :is(img, script, svg, iframe, form, style, input)").count() == 0
    assert problems == []


@pytest.mark.parametrize("at", PAGES)
def test_without_scripts_a_page_reads_as_before(browser: Browser, api: Api, store: MemoryStore, at: str) -> None:
    problems: list[str] = []
    with signed_in(browser, api, problems=problems, js=False) as page:
        page.goto(f"/console/s/{store.id}/{at}")
        expect(page.locator("#listing")).to_contain_text("b.txt")
        for each in ("#fresh", "#arrived", "#show", "#again"):
            expect(page.locator(each)).to_be_hidden()
    assert problems == []
