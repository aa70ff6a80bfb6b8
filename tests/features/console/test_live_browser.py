"""Live pages in a real browser: rows appear without moving the page, over restarts, until the key is revoked."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

import retentive
from retentive import MemoryStore
from retentive.console.web import console
from support import hostile
from support.browser import AXE, RULES, Browser, Page, browser, connected, expect, next_proposal, signed_in
from support.http_api import Api, serving
from support.planted import plant
from support.profiles import REQUIRED

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


def test_a_directory_shows_its_own_changes(browser: Browser, api: Api, store: MemoryStore) -> None:
    with signed_in(browser, api, problems=[]) as page:
        connected(page, f"/console/s/{store.id}/tree/notes")
        store.create("/memories/elsewhere.md", "")
        store.create("/memories/notes/here.md", "")
        expect(page.locator("#count")).to_have_text("1 new change.")


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


def test_a_hidden_page_has_no_stream(browser: Browser, api: Api, store: MemoryStore) -> None:
    """It gets what it missed when it is seen again."""
    with signed_in(browser, api, problems=[]) as page:
        connected(page, f"/console/s/{store.id}/activity")
        page.evaluate(
            "Object.defineProperty(document, 'hidden', {get: () => window.isHidden, configurable: true});"
            "window.isHidden = true; document.dispatchEvent(new Event('visibilitychange'))"
        )
        store.create("/memories/meanwhile.md", "")
        with page.expect_response(lambda answer: "/events?" in answer.url):
            page.evaluate("window.isHidden = false; document.dispatchEvent(new Event('visibilitychange'))")
        expect(page.locator("#count")).to_have_text("1 new change.")


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


@pytest.mark.parametrize("at", PAGES)
def test_axe_finds_nothing_in_new_rows(browser: Browser, api: Api, store: MemoryStore, at: str) -> None:
    if not AXE.exists() and not REQUIRED:
        pytest.skip("axe-core is not installed")
    with signed_in(browser, api, problems=[]) as page:
        connected(page, f"/console/s/{store.id}/{at}")
        store.create("/memories/x.md", "", actor="session:agent")
        page.get_by_role("button", name="Show them").click()
        store.create("/memories/y.md", "")
        expect(page.locator("#count")).to_have_text("1 new change.")
        page.evaluate(AXE.read_text("utf-8"))
        result = page.evaluate("rules => axe.run(document, {runOnly: rules})", RULES)
        live = page.locator("[aria-live]")
        assert [each["id"] for each in result["violations"]] == []
        assert [each.get_attribute("id") for each in live.all()] == ["count"]


def test_a_directory_opens_in_the_tree(browser: Browser, api: Api, store: MemoryStore) -> None:
    """And the directories in it; the page stays. Without scripts there is no button."""
    store.create("/memories/notes/deep/c.md", "")
    problems: list[str] = []
    with signed_in(browser, api, problems=problems) as page:
        page.goto(f"/console/s/{store.id}/m/b.txt")
        tree = page.get_by_role("navigation", name="Memories in this store")
        tree.get_by_role("button", name="Contents of notes").click()
        tree.get_by_role("button", name="Contents of deep").click()
        expect(tree.get_by_role("link", name="c.md")).to_be_visible()
        tree.get_by_role("button", name="Contents of notes").click()
        expect(tree.get_by_role("link", name="a.md")).to_be_hidden()
        tree.get_by_role("button", name="Contents of notes").press("Enter")
        expect(tree.get_by_role("link", name="c.md")).to_be_visible()
        expect(tree.get_by_role("link", name="a.md")).to_have_count(1)
        expect(page.locator("h1")).to_contain_text("b.txt")
        if AXE.exists():
            page.evaluate(AXE.read_text("utf-8"))
            result = page.evaluate("rules => axe.run(document, {runOnly: rules})", RULES)
            assert [each["id"] for each in result["violations"]] == []
        tree.get_by_role("link", name="c.md").click()
        expect(page.locator("h1")).to_contain_text("c.md")
    with signed_in(browser, api, problems=problems, js=False) as page:
        page.goto(f"/console/s/{store.id}/m/b.txt")
        expect(page.locator(".chevron").first).to_be_hidden()
    assert problems == []


def test_a_decision_shows_the_next_proposal(browser: Browser, api: Api, store: MemoryStore) -> None:
    """Without loading the page again; the number of those that wait stays right, also after a change by others."""
    store.change_settings({"review": ["session:new"]})
    for name in ("x", "y", "z"):
        store.create(f"/memories/{name}.md", f"{name}\n", actor="session:new")
    problems: list[str] = []
    with signed_in(browser, api, problems=problems) as page:
        first = store.review.pending()[0].id
        connected(page, f"/console/s/{store.id}/review/{first}")
        page.evaluate("window.isSame = true")
        page.get_by_role("button", name="Accept", exact=True).click()
        next_proposal(page, "y.md", 2)
        second = store.review.pending()[0].id
        page.wait_for_url(f"**/review/{second}")
        expect(page.locator("main h2").first).to_be_focused()
        store.create("/memories/w.md", "w\n", actor="session:new")
        expect(page.locator(".meta").first).to_have_text("3 waiting")
        store.review.refuse([store.review.pending()[-1].id], actor="user:ann")
        expect(page.locator(".meta").first).to_have_text("2 waiting")
        page.get_by_role("button", name="Refuse", exact=True).click()
        next_proposal(page, "z.md", 1)
        assert page.evaluate("window.isSame")
        page.go_back()
        # Chromium does not close a page that htmx is still filling with its history.
        expect(page.locator("main .note")).to_contain_text("refused this proposal of session:new")
        page.wait_for_url(f"**/review/{second}")
    assert store.read("/memories/x.md") == "x\n"
    assert len(store.review.pending()) == 1
    assert [each for each in problems if "404" not in each] == []


def test_a_decision_that_meets_an_obstacle_says_so(browser: Browser, api: Api, store: MemoryStore) -> None:
    store.change_settings({"review": ["session:new"]})
    store.write("/memories/b.txt", "proposed\n", actor="session:new")
    store.write("/memories/b.txt", "meanwhile\n", actor="user:ann")
    problems: list[str] = []
    with signed_in(browser, api, problems=problems) as page:
        connected(page, f"/console/s/{store.id}/review/{store.review.pending()[0].id}")
        page.get_by_role("button", name="Accept", exact=True).click()
        expect(page.get_by_role("alert")).to_contain_text("Nothing was decided")
        assert page.url.endswith(f"/review/{store.review.pending()[0].id}")
    assert [each for each in problems if "409" not in each] == []
