"""Stored texts cannot make an element or an attribute of a page, on any page."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest

from retentive import MemoryStore
from retentive.console.markdown import rendered
from retentive.console.rendering import boxed, is_hidden, plain
from support import hostile
from support.console import Person, Seen
from support.hostile import plant, urls
from support.http_api import Api
from support.profiles import LONG

STEP = 1 if LONG else 2
"""Part of the corpus; the rest takes some seconds more."""


@pytest.fixture(scope="module")
def planted(api: Api) -> MemoryStore:
    """A store with the corpus in its texts, paths, actors, names, settings, queries and proposals."""
    return plant(api, STEP)


@pytest.mark.long
def test_no_page_has_an_element_or_attribute_of_a_payload(api: Api, person: Person, planted: MemoryStore) -> None:
    seen = 0
    for url in urls(api, planted):
        page = person.get(url)
        assert page.headers["content-type"] == "text/html; charset=utf-8", url
        assert page.problems() == [], url
        assert not [char for char in page.text if is_hidden(char)] or "/edit/" in url, url
        assert page.status != 500
        seen += "window.pwned" in page.body
    assert seen > 25


@pytest.mark.parametrize("payload", [each for each in hostile.texts()[:38:4] if "<" in each])
def test_the_check_notices_a_payload(person: Person, payload: str) -> None:
    page = person.get("/console/login")
    broken = Seen(200, page.headers, "", page.body.replace('<main id="main">', f'<main id="main">{payload}'))
    assert broken.problems()


def test_a_conflict_and_a_refused_form_show_hostile_text_escaped(person: Person, planted: MemoryStore) -> None:
    at = f"/console/s/{planted.id}"
    planted.create("/memories/c.md", "base\n")
    fields = person.get(f"{at}/edit/c.md").form("/edit/")
    planted.write("/memories/c.md", "\n".join(hostile.texts()[:50]))
    found = {"csrf": person.get(f"{at}/erase").form("/erase")["csrf"]}
    ids = [each.id for each in planted.memories()[:20]]
    answers = [
        person.post(f"{at}/edit/c.md", {**fields, "text": "\n".join(hostile.texts()[50:100])}),
        person.submit(f"{at}/new", "/new", path=hostile.texts()[0], text="x"),
        person.submit(f"{at}/search", "/search", q=hostile.texts()[0]),
        person.get(f"{at}/trust/confirm?path={quote(hostile.texts()[0])}"),
        person.submit(f"{at}/erase", "/erase", q="script"),
        person.submit(f"{at}/erase", "/erase", q=hostile.texts()[0], deep="1"),
        person.post(f"{at}/erase", {**found, "step": "check", "q": "script", "id": ids}),
    ]
    for answer in answers:
        assert answer.status in {200, 400, 404, 409}
        assert answer.problems() == []


@pytest.mark.parametrize("text", hostile.texts()[-50:])
def test_rendered_markdown_has_harmless_links_only(text: str) -> None:
    html = rendered(text, "/console/s/x/m")
    assert not re.search(r"<(?:img|script|svg|iframe|style|form|input)", html)
    assert not [char for char in html if char != "\n" and is_hidden(char)]
    for href in re.findall(r'href="([^"]*)"', html):
        assert re.match(r"https?://|mailto:|/console/s/x/m/", href), href


def test_a_link_shows_its_host_and_one_to_a_memory_stays_in_the_console() -> None:
    html = rendered("[bank](https://evil.example/bank.example) [a](/memories/a%20b.md)", "/console/s/x/m")
    assert '<span class="host">evil.example</span>' in html
    assert '<a href="/console/s/x/m/a%20b.md" rel="noopener noreferrer nofollow">a</a>' in html


@pytest.mark.parametrize("text", hostile.DECEIVING)
def test_hidden_characters_are_shown(text: str) -> None:
    assert "⟦U+" in plain(text)
    assert '<span class="box"' in boxed(text)
    assert not any(map(is_hidden, plain(text)))
    assert plain("naïve 日本語 🙂\n\tx") == "naïve 日本語 🙂\n\tx"
