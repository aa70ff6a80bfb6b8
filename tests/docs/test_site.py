"""The documentation site: links and navigation. In the long profile."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

import retentive
from support.pages import ROOT
from support.profiles import LONG

if not LONG:
    pytest.skip("building the site takes 10 s: RETENTIVE_PROFILE=long", allow_module_level=True)
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
