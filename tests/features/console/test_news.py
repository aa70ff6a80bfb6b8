"""Pages with lists ask every few seconds what has changed since, and say it without moving."""

from __future__ import annotations

import re

import pytest

from retentive import MemoryStore
from retentive.server import sessions
from support.console import Person
from support.http_api import Api


def asked_by(person: Person, url: str) -> str:
    """The URL at which a page asks for news."""
    (found,) = re.findall(r'id="news" hx-get="([^"]+)"', person.get(url).body)
    return str(found).replace("&amp;", "&")


@pytest.mark.parametrize("page", ["tree/", "activity"])
def test_new_changes_are_counted_once(person: Person, store: MemoryStore, at: str, page: str) -> None:
    """The answer is empty until there is something else to say; it has the URL of the next question."""
    url = asked_by(person, f"{at}/{page}")
    assert (person.get(url).status, person.get(url).body) == (204, "")
    store.create("/memories/one.md", "1")
    found = person.get(url)
    assert (found.status, found.text.replace(" Show", "")) == (200, "1 new change.")
    (then,) = re.findall(r'hx-get="([^"]+)"', found.body)
    then = then.replace("&amp;", "&")
    assert person.get(then).status == 204
    store.create("/memories/two.md", "2")
    assert person.get(then).text.startswith("2 new changes.")
    assert person.get(asked_by(person, f"{at}/{page}")).status == 204


def test_news_are_of_what_the_page_shows(person: Person, store: MemoryStore, at: str) -> None:
    below, filtered = asked_by(person, f"{at}/tree/notes"), asked_by(person, f"{at}/activity?actor=session:s9")
    store.create("/memories/elsewhere.md", "x", actor="session:s9")
    assert person.get(below).status == 204
    assert person.get(filtered).text.startswith("1 new change.")
    store.create("/memories/notes/b.md", "x", actor="session:s8")
    assert person.get(below).text.startswith("1 new change.")
    assert person.get(filtered).text.startswith("1 new change.")


def test_a_removal_and_proposals_are_said(person: Person, api: Api, store: MemoryStore, at: str) -> None:
    """A person who may not review hears nothing of proposals."""
    url = asked_by(person, f"{at}/activity")
    store.history.erase("/memories/b.txt")
    assert person.get(url).text.startswith("The store has changed.")
    store.change_settings({"review": ["session:*"]})
    reader = Person(api.with_key("read"))
    asked = {each: asked_by(each, f"{at}/activity") for each in (person, reader)}
    asked_by_queue = asked_by(person, f"{at}/review")
    store.create("/memories/proposed.md", "x", actor="session:s9")
    assert person.get(asked_by_queue).text.startswith("1 waiting for review.")
    assert person.get(asked[person]).text.startswith("1 waiting for review.")
    assert "waiting" not in reader.get(asked[reader]).text
    store.review.refuse(actor="user:ann", session="s9")
    assert person.get(asked[person]).status == 204  # a decision changes no memory


def test_asking_does_not_prolong_the_sign_in(
    person: Person, api: Api, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page does. After the end of the sign-in, the answer says so, and the page asks no more."""
    monkeypatch.setattr(sessions, "SEEN_EVERY_S", -1)  # each page is noted
    records = api.place.opened.records
    before = records.list(sessions.KIND)
    url = asked_by(person, f"{at}/activity")
    noted = records.list(sessions.KIND)
    assert noted != before
    assert person.get(url).status == 204
    assert records.list(sessions.KIND) == noted
    monkeypatch.setattr(sessions, "IDLE_S", -1)
    found = person.get(url)
    assert found.text == "You are signed out. Sign in again"
    assert "hx-get" not in found.body


def test_a_key_for_some_paths_hears_of_no_other(api: Api, store: MemoryStore, at: str) -> None:
    made = api.place.keys.create("x", scopes=("read",), paths=("/memories/team/**",))
    person = Person(api, made.text)
    url = asked_by(person, f"{at}/activity")
    store.create("/memories/secret.md", "x")
    assert "new change" not in person.get(url).text
    store.create("/memories/team/a.md", "x")
    assert person.get(url).text.startswith("1 new change.")
