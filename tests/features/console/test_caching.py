"""Pages that the browser keeps, and asks about with their ETags."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from retentive import MemoryStore
from retentive.console import caching
from retentive.console.routes import PAGES
from retentive.store import core_of
from support.console import Person, Seen
from support.http_api import Api

KEPT = ["tree/", "tree/notes", "children/notes", "m/notes/a.md", "m/notes/a.md?view=blame", "m/notes/a.md?at=r1",
        "change/r2", "since/?at=r1"]  # fmt: skip


def again(person: Person, page: Seen) -> Seen:
    return person.get(page.url, if_none_match=page.headers.get("etag", "none"))


@pytest.mark.parametrize("url", KEPT)
def test_a_page_that_did_not_change_is_not_made_again(
    person: Person, store: MemoryStore, at: str, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = person.get(f"{at}/{url}")
    assert page.headers["cache-control"] == "private, no-cache"
    assert page.headers["vary"] == "cookie"
    monkeypatch.setattr("retentive.console.web.environment", None)
    kept = again(person, page)
    assert (kept.status, kept.body, kept.headers["etag"]) == (304, "", page.headers["etag"])
    assert "frame-ancestors" in kept.headers["content-security-policy"]
    monkeypatch.undo()
    store.write("/memories/notes/a.md", "new\n")
    assert again(person, page).status == 200


CHANGES: dict[str, Callable[[MemoryStore], object]] = {
    "a change": lambda store: store.create("/memories/c.md", "x"),
    "a proposal": lambda store: store.create("/memories/p.md", "x", actor="session:new"),
    "a setting": lambda store: store.change_settings({"max_memories": 7}),
    "a redaction": lambda store: store.history.redact([store.versions("/memories/notes/a.md")[1].id]),
    "an erasure": lambda store: store.history.erase("/memories/b.txt"),
    "an audit log": lambda store: store.change_settings({"audit": True}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_each_change_of_a_store_makes_the_page_again(person: Person, store: MemoryStore, at: str, change: str) -> None:
    store.change_settings({"review": ["session:new"]})
    page = person.get(f"{at}/tree/")
    assert again(person, page).status == 304
    CHANGES[change](store)
    assert again(person, page).status == 200


def test_another_sign_in_key_or_build_has_another_tag(
    api: Api, person: Person, store: MemoryStore, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page has the form token of its sign-in, and what its key may do."""
    page = person.get(f"{at}/m/b.txt")
    for key in (api.key, api.with_key("read").key):
        other = Person(api, key)
        assert again(other, page).status == 200
        other.close()
    person_again = again(person, page)
    assert person_again.status == 304
    monkeypatch.setattr(caching, "build", lambda: "another")
    assert again(person, page).status == 200


def test_a_sign_in_that_ended_gets_nothing(api: Api, store: MemoryStore, at: str) -> None:
    person = Person(api)
    page = person.get(f"{at}/m/b.txt")
    person.post("/console/logout", page.form("/logout"))
    assert again(person, page).url.partition("?")[0].endswith("/console/login")
    person.close()


def test_the_forms_of_a_kept_page_still_work(person: Person, store: MemoryStore, at: str) -> None:
    page = person.get(f"{at}/edit/b.txt")
    tree = person.get(f"{at}/tree/")
    assert again(person, tree).status == 304
    fields = {**page.form("/edit/"), "csrf": tree.form("/logout")["csrf"], "text": "typed\n"}
    assert person.post(f"{at}/edit/b.txt", fields).status == 200
    assert store.read("/memories/b.txt") == "typed\n"


def test_a_store_with_an_audit_log_records_each_view(person: Person, store: MemoryStore, at: str) -> None:
    store.change_settings({"audit": True})
    for _ in range(2):
        page = person.get(f"{at}/m/b.txt", if_none_match='"x"')
        assert (page.headers["cache-control"], "etag" in page.headers) == ("no-store", False)
    assert len([each for each in store.audit.entries() if each.operation == "load"]) == 2


def test_a_kept_page_counts_as_a_view(
    person: Person, store: MemoryStore, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the memory does not expire while somebody looks at it."""
    page = person.get(f"{at}/m/b.txt")
    noted: list[str] = []
    accesses = type(core_of(store).accesses)
    monkeypatch.setattr(accesses, "note", lambda self, store_id, memory: noted.append(memory.path))
    assert again(person, page).status == 304
    assert noted == ["/memories/b.txt"]


@pytest.mark.parametrize("moment", ["2h", "yesterday", "2100-01-01"])
def test_a_page_of_a_moment_that_moves_is_not_kept(person: Person, at: str, moment: str) -> None:
    assert "etag" not in person.get(f"{at}/tree/?at={moment}").headers


def test_an_error_is_not_kept(person: Person, at: str) -> None:
    page = person.get(f"{at}/m/unknown.md")
    assert (page.status, page.headers["cache-control"], "etag" in page.headers) == (404, "no-store", False)


def test_no_other_page_is_kept(person: Person) -> None:
    assert all(each.method == "GET" and each.scope == "read" for each in PAGES if each.is_kept)


def test_an_erasure_clears_what_the_browser_has_kept(person: Person, store: MemoryStore, at: str, api: Api) -> None:
    memory = store.load("/memories/b.txt")[0]
    fields = person.get(f"{at}/erase?id={memory.id}").form("/erase")
    person.http.follow_redirects = False
    answer = person.post(f"{at}/erase", {**fields, "typed": "erase 1 memory", "key": api.key})
    person.http.follow_redirects = True
    assert (answer.status, answer.headers["clear-site-data"]) == (200, '"cache"')
