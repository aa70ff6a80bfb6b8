"""Stored texts cannot make an element or an attribute of a page, on any page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import quote

import pytest

import retentive
from retentive import MemoryStore
from retentive.console.markdown import rendered
from retentive.console.visible import boxed, is_hidden, plain
from support import hostile
from support.console import Person, Seen, pages_of
from support.http_api import Api
from support.profiles import LONG

STEP = 1 if LONG else 2
"""Part of the corpus; the rest takes some seconds more."""


@pytest.fixture(scope="module")
def planted(api: Api) -> MemoryStore:
    """A store with the corpus in its texts, paths, actors, names, settings, queries and proposals."""
    return plant(api.place.opened)


def plant(opened: retentive.Retentive, step: int = STEP) -> MemoryStore:
    names, texts = list(hostile.names()), hostile.texts()[::step]
    made = opened.create_store(names[0], description=names[1][:1_000], key=names[2], metadata={"x": names[3]})
    store = opened.store(made.id)
    store.create("/memories/index.md", "\n\n".join(texts), actor=f"user:{names[4]}")
    store.create("/memories/raw.txt", "\n".join(texts), actor=f"session:{names[5]}")
    store.write("/memories/raw.txt", "\n".join(texts[::-1]), actor=f"session:{names[6]}")
    for at, name in enumerate(hostile.path_names()):
        source = names[(at + 1) % len(names)]
        store.create(f"/memories/{name}", source, actor=f"session:{names[at]}", source=f"web:{source}", session=source)
    store.change_settings(
        {
            "audit": True,
            "quarantine": [f"session:{names[7]}"],
            "trust": {"session:*": "unconfirmed", f"source:{names[8]}": "unconfirmed"},
            "review": ["session:new*"],
            "read_only_paths": [f"/memories/{next(hostile.path_names())}"],
        }
    )
    for name in list(hostile.path_names())[:8]:
        store.create(f"/memories/d{name}/x.md", "")
    store.create("/memories/<b>proposed.md", "\n".join(hostile.texts()[:60]), actor=f"session:new{names[9]}")
    store.delete(f"/memories/{list(hostile.path_names())[-1]}", actor=f"session:{names[10]}")
    return store


def urls(store: MemoryStore) -> Iterator[str]:
    """Every page of the store, with the queries that show hostile text."""
    at, name = f"/console/s/{store.id}", next(hostile.names())
    versions = store.history.log("/memories/raw.txt")
    proposal = store.review.pending()[0].id
    path = quote(list(hostile.path_names())[3])
    ids = {
        "key": quote(name, safe=""), "path": path, "memory_id": versions[0].memory_id, "version_id": versions[0].id,
        "pair": f"{versions[1].id}..{versions[0].id}", "revision": versions[0].id, "proposal_id": proposal,
        "actor": quote(str(versions[0].actor), safe=""),
    }  # fmt: skip
    yield from (url for url in pages_of(store.id, **ids) if not url.endswith(("/file", "/download", "/events")))
    asked = quote(name)
    for query in (
        "sensitive?scan=1", "audit?verify=1", f"search?q={asked}&under={asked}", "search?q=script+img",
        f"activity?path={asked}", f"activity?actor={asked}", f"tree/?at={asked}", "tree/?at=r3", "m/index.md",
        "children/", "m/raw.txt", "m/raw.txt?view=blame", "m/raw.txt?view=history", "m/index.md?view=raw",
        "edit/index.md", "change/r3", "change/r3?view=unified",
        f"undo?actor={quote(str(versions[0].actor), safe='')}", "undo?change=r3", "restore?path=/memories&to=r3",
        f"restore?path={asked}", f"erase?id={versions[0].memory_id}", f"redact?version={versions[0].id}", "new",
        f"m/{quote(list(hostile.path_names())[-1])}", f"m/{asked}", f"undo?change={asked}", f"go?path={asked}",
    ):  # fmt: skip
        yield f"{at}/{query}"
    yield from (f"/console/?q={asked}", "/console/", f"/console/login?next={asked}", f"/console/k/{asked}")


def test_the_corpus_is_large() -> None:
    assert len(set(hostile.texts())) >= 400


@pytest.mark.long
def test_no_page_has_an_element_or_attribute_of_a_payload(person: Person, planted: MemoryStore) -> None:
    seen = 0
    for url in urls(planted):
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
    answers = [
        person.post(f"{at}/edit/c.md", {**fields, "text": "\n".join(hostile.texts()[50:100])}),
        person.submit(f"{at}/new", "/new", path=hostile.texts()[0], text="x"),
        person.submit(f"{at}/search", "/search", q=hostile.texts()[0]),
        person.submit(f"{at}/trust", "/trust/confirm", path=hostile.texts()[0]),
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
