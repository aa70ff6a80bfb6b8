"""The console in a real browser: nothing hostile runs, flows of people, and accessibility. In the long profile."""

from __future__ import annotations

from itertools import product

import pytest

from retentive import MemoryStore
from support.browser import AXE, FAULTS, RULES, WIDTHS, Browser, browser, expect, next_proposal, signed_in
from support.hostile import plant, urls
from support.http_api import Api
from support.profiles import FULL, REQUIRED

__all__ = ["browser"]


def test_the_detector_sees_a_script_that_runs(browser: Browser) -> None:
    page = browser.new_page()
    page.set_content("<img src=x onerror='window.pwned=1'>")
    page.wait_for_function("window.pwned === 1")
    page.close()


@pytest.fixture(scope="module")
def planted(api: Api) -> MemoryStore:
    """A store with the whole corpus."""
    return plant(api, 1)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 390)])
def test_nothing_hostile_runs_or_loads(
    browser: Browser, api: Api, planted: MemoryStore, scheme: str, width: int
) -> None:
    problems = list[str]()
    with signed_in(browser, api, scheme=scheme, width=width, problems=problems) as page:
        for url in urls(api, planted):
            answer = page.goto(url)
            assert answer is not None
            if answer.status >= 400:  # Chromium logs these as errors
                problems = [each for each in problems if "Failed to load resource" not in each]
            assert page.evaluate("window.pwned") is None, url
            is_page = "/children/" not in url  # a part of one, without a style sheet
            assert page.evaluate("document.documentElement.scrollWidth") <= width or not is_page, url
    assert [each for each in problems if "Failed to load resource" not in each] == []


def test_a_review_by_keyboard_alone(browser: Browser, api: Api, store: MemoryStore) -> None:
    store.change_settings({"review": ["session:new"]})
    for name in ("x", "y"):
        store.create(f"/memories/{name}.md", f"{name}\n", actor="session:new")
    problems: list[str] = []
    with signed_in(browser, api, problems=problems) as page:
        page.goto(f"/console/s/{store.id}/tree/")
        page.keyboard.type("gr")
        expect(page.locator("h1")).to_have_text("Review")
        next_proposal(page, "x.md", 2)
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        next_proposal(page, "y.md", 2)
        page.keyboard.press("k")
        page.keyboard.press("o")
        next_proposal(page, "x.md", 2)
        page.keyboard.press("a")
        next_proposal(page, "y.md", 1)
        page.keyboard.press("r")
        expect(page.locator(".meta").first).to_have_text("0 waiting")
        page.keyboard.press("/")
        page.keyboard.type("a")
        expect(page.locator(".find input")).to_have_value("a")
    assert store.read("/memories/x.md") == "x\n"
    assert problems == []


SIZES = list(product(("light", "dark"), (1440, 390)))


@pytest.mark.parametrize("turn", range(len(SIZES)), ids=[f"{scheme}-{width}" for scheme, width in SIZES])
def test_axe_finds_nothing(browser: Browser, api: Api, store: MemoryStore, turn: int) -> None:
    """Each page in each scheme and width, or in the long profile in one of them, in turn."""
    if not AXE.exists() and not REQUIRED:
        pytest.skip("axe-core is not installed")
    found: list[str] = []
    script, (scheme, width) = AXE.read_text("utf-8"), SIZES[turn]
    pages = pages_for_axe(store)
    with signed_in(browser, api, scheme=scheme, width=width, problems=[]) as page:
        for url in pages if FULL else pages[turn :: len(SIZES)]:
            page.goto(url)
            page.evaluate(script)
            result = page.evaluate("rules => axe.run(document, {runOnly: rules})", RULES)
            found += [f"{url}: {each['id']}: {each['nodes'][0]['html'][:200]}" for each in result["violations"]]
    assert found == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_fits_each_width(browser: Browser, api: Api, scheme: str) -> None:
    """With a long path, a directory of 300 files, a memory with many versions, and a store on its first day."""
    found: list[str] = []
    store = api.place.opened.store(f"support-team-production-eu-west-1-{scheme}")
    store.create("/memories/notes/a.md", "# Notes\n\none\ntwo\nthree\n", actor="session:s1")
    store.edit("/memories/notes/a.md", "two", "2", actor="session:s2")
    store.create("/memories/b.txt", "plain\n", actor="user:ann")
    text = "# Notes\n\n" + "A line that is long enough to wrap, several times. " * 9 + "\n" + "x" * 300 + "\n"
    path = "/memories/customers-of-the-northern-region/quarterly-business-review-2026/notes-from-the-meeting.md"
    store.create(path, text, actor="session:web-research-and-summaries-0c1f2a3b", source="web:https://vendor.example/a")
    for number in range(300):
        store.create(f"/memories/many/item-{number:03}-with-an-ordinary-name.md", f"# {number}\n")
        store.write("/memories/v.md", f"version {number}\n", actor=f"session:worker-{number % 7}-nightly-refactor")
    first = api.place.opened.store(f"first day {scheme}")
    first.create("/memories/only.md", "x\n", actor="user:a-person-with-a-long-name@example.com")
    at, one_day = f"/console/s/{store.id}", f"/console/s/{first.id}"
    long = [f"{at}/m{path[9:]}{view}" for view in ("", "?view=raw", "?view=blame", "?view=history", "?at=r302")]
    pages = [each for each in pages_for_axe(store) if each != "/console/"]  # has the stores of other tests
    pages += [f"/console/?q={store.key}", f"{at}/edit{path[9:]}", *long]
    pages += [f"{at}/tree/many", f"{at}/m/v.md?view=history"]
    pages += [f"{one_day}/{page}" for page in ("tree/", "activity", "stats", "m/only.md", "review")]
    with signed_in(browser, api, scheme=scheme, problems=[]) as page:
        for url in pages:
            page.goto(url)
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 900})
                found += [f"{url} at {width}: {each}" for each in page.evaluate(FAULTS)]
    assert found == []


def pages_for_axe(store: MemoryStore) -> list[str]:
    """Each page, of a store with something to show on it."""
    store.change_settings({"review": ["session:new"], "audit": True, "trust": {"session:s1": "unconfirmed"}})
    store.create("/memories/x.md", "x\n", actor="session:new")
    gone = f"/memories/{'customers-of-the-northern-region-' * 5}.md"
    store.create("/memories/cites.md", f"[source: {gone}]\none [source: /memories/notes/a.md#L3]\n")
    at, memory = f"/console/s/{store.id}", store.load("/memories/notes/a.md")[0]
    pages = [
        "/tree/", "/tree/?at=r1", "/since/?at=r1", "/m/notes/a.md?at=r1",
        "/m/notes/a.md", "/m/notes/a.md?view=raw", "/m/notes/a.md?view=blame",
        "/m/notes/a.md?view=history", "/change/r2", "/change/r2?view=unified", "/activity", "/undo?change=r1",
        "/undo?change=r2", "/edit/b.txt", "/new", "/move/b.txt", "/delete/b.txt", "/search?q=one", "/trust", "/sources",
        "/m/cites.md",
        "/review", f"/review/{store.review.pending()[0].id}", "/sensitive?scan=1", "/settings", "/stats",
        "/audit?verify=1", f"/erase?id={memory.id}", f"/redact?version={memory.version_id}", f"/v/{memory.version_id}",
        "/m/unknown", "/erase", "/manage", "/trust/confirm?path=/memories/notes/a.md",
    ]  # fmt: skip
    places = [
        "/console/login",
        "/console/",
        "/console/keys",
        "/console/people?actor=user:ann",
        "/console/health",
        "/console/stores/new",
    ]
    return [*places, *(at + each for each in pages)]
