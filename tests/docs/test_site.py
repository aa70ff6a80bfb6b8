"""The documentation site: links, navigation, and pages in a browser. In the long profile."""

from __future__ import annotations

import functools
import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import retentive
from support.pages import ROOT
from support.profiles import LONG, REQUIRED

if not LONG:
    pytest.skip("building the site takes 10 s: RETENTIVE_PROFILE=long", allow_module_level=True)
CHROMIUM = shutil.which("chromium") or ""
AXE = Path(os.environ.get("RETENTIVE_AXE", ".cache/axe")) / "node_modules/axe-core/axe.min.js"
RULES = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"],
    "rules": {"scrollable-region-focusable": {"enabled": False}},
}
"""The theme wraps tables in an element that scrolls without a focus."""
needs_chromium = pytest.mark.skipif(not CHROMIUM and not REQUIRED, reason="chromium is not installed")
_LOADED = {("img", "src"), ("script", "src"), ("iframe", "src"), ("source", "src"), ("link", "href")}


@dataclass
class Html(HTMLParser):
    """Ids of a page, and the addresses that it links to and loads."""

    ids: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    navigation: list[str] = field(default_factory=list)
    _inside: int = 0

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if "id" in given:
            self.ids.append(given["id"])
        if tag == "nav":
            self._inside += 1
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
            if self._inside:
                self.navigation.append(given["href"])
        self.loads += [value for name, value in given.items() if (tag, name) in _LOADED]

    def handle_endtag(self, tag: str) -> None:
        if tag == "nav":
            self._inside -= 1


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site. A link to a missing page or heading fails the build."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, str(ROOT / "scripts" / "documentation.py"), "--out", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(out: Path) -> dict[Path, Html]:
    found = {}
    for file in sorted((out / retentive.__version__).rglob("*.html")):
        found[file] = Html()
        found[file].feed(file.read_text("utf-8"))
    assert len(found) > len(list((ROOT / "docs").glob("*.md")))
    return found


def target_of(page: Path, link: str) -> tuple[Path, str]:
    """The file and the anchor that a relative link leads to."""
    parts = urlsplit(link)
    target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
    return target / "index.html" if target.is_dir() else target, unquote(parts.fragment)


def test_links_lead_to_pages_and_anchors(pages: dict[Path, Html]) -> None:
    broken = []
    for page, html in pages.items():
        assert len(html.ids) == len(set(html.ids)), page
        for link in html.links:
            if urlsplit(link).scheme in {"http", "https", "mailto"}:
                continue
            target, anchor = target_of(page, link)
            if not target.is_file() or (anchor and target in pages and anchor not in pages[target].ids):
                broken.append((page.parent.name, link))
    assert broken == []


def test_pages_load_nothing_from_other_hosts(pages: dict[Path, Html]) -> None:
    for page, html in pages.items():
        for address in html.loads:
            parts = urlsplit(address)
            assert (parts.scheme, parts.netloc) == ("", ""), (page, address)
            assert target_of(page, address)[0].is_file(), (page, address)


def test_every_page_is_reached_from_the_navigation(out: Path, pages: dict[Path, Html]) -> None:
    home = out / retentive.__version__ / "index.html"
    reached: set[Path] = set()
    waiting = [home]
    while waiting:
        page = waiting.pop()
        if page in pages and page not in reached:
            reached.add(page)
            waiting += [target_of(page, link)[0] for link in pages[page].navigation if not urlsplit(link).scheme]
    assert set(pages) - reached == set()


def test_the_versions_are_listed(out: Path) -> None:
    (entry,) = json.loads((out / "versions.json").read_text("utf-8"))
    assert entry == {"version": retentive.__version__, "title": retentive.__version__, "aliases": ["latest"]}
    assert f'href="{retentive.__version__}/index.html"' in (out / "index.html").read_text("utf-8")


@pytest.fixture(scope="module")
def address(out: Path) -> Iterator[str]:
    """Address of a server of static files."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(out))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


@needs_chromium
@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 390)])
def test_pages_in_a_browser(address: str, out: Path, pages: dict[Path, Html], scheme: str, width: int) -> None:
    """No error, no request to another host, no page wider than the screen; axe finds nothing in the text of some."""
    from playwright.sync_api import sync_playwright

    problems = list[str]()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        context = browser.new_context(
            color_scheme="dark" if scheme == "dark" else "light", viewport={"width": width, "height": 900}
        )
        page = context.new_page()
        page.on("console", lambda message: problems.append(f"{page.url}: {message.text}"))
        page.on("pageerror", lambda error: problems.append(f"{page.url}: {error}"))
        page.on("request", lambda asked: None if asked.url.startswith(address) else problems.append(asked.url))
        for file in pages:
            page.goto(address + str(file.relative_to(out)))
            assert page.evaluate("document.documentElement.scrollWidth") <= width, file
            if AXE.is_file() and file.stem in {"index", "history", "comparison"}:
                page.evaluate(AXE.read_text("utf-8"))
                result = page.evaluate("rules => axe.run('.md-content', rules)", RULES)
                problems += [f"{page.url}: {each['id']} {each['nodes'][0]['html']}" for each in result["violations"]]
        browser.close()
    assert problems == [], "\n".join(problems)


@needs_chromium
def test_search_colors_copy_buttons_and_versions_work(address: str) -> None:
    from playwright.sync_api import expect, sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1440, "height": 900}, color_scheme="light")
        page.goto(address)
        expect(page).to_have_url(f"{address}{retentive.__version__}/index.html")
        expect(page.locator(".md-version__current")).to_have_text(retentive.__version__)
        assert page.locator("button[data-clipboard-target], .md-clipboard, .md-code__button").count() > 0
        page.locator("label[for=__palette_1]").click()
        page.locator("label[for=__palette_2]").click()
        expect(page.locator("body")).to_have_attribute("data-md-color-scheme", "slate")
        page.keyboard.press("/")
        page.keyboard.type("quarantine")
        expect(page.locator(".md-search-result__item").first).to_contain_text("uarantine")
        page.goto(f"{address}{retentive.__version__}/design.html")  # the chosen scheme is kept
        expect(page.locator("img[src*='diagrams/']").first).to_have_css("filter", "invert(0.86) hue-rotate(180deg)")
        browser.close()


@needs_chromium
def test_search_works_in_pages_that_are_opened_as_files(out: Path) -> None:
    """Without a server the browser starts no workers and loads no JSON, so the index is a script."""
    from playwright.sync_api import expect, sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.goto((out / "index.html").as_uri())
        page.wait_for_url(f"**/{retentive.__version__}/index.html")
        page.keyboard.press("/")
        page.keyboard.type("quarantine")
        first = page.locator(".md-search-result__item").first
        expect(first).to_contain_text("uarantine", timeout=30_000)
        first.click()
        expect(page.locator("h1")).not_to_have_text("retentive")
        browser.close()
