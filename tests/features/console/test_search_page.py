"""The choices of a search: by directory, actor and age."""

from __future__ import annotations

import pytest

from retentive import MemoryStore
from support.console import Person


@pytest.fixture
def found(store: MemoryStore) -> MemoryStore:
    """A store with three memories that have a word."""
    store.create("/memories/notes/b.md", "rare word\n", actor="session:s1")
    store.create("/memories/plans/c.md", "rare word again\n", actor="session:s2")
    store.create("/memories/plans/d.md", "rare\n", actor="session:s2")
    return store


def test_each_choice_narrows_the_search(person: Person, found: MemoryStore, at: str) -> None:
    page = person.get(f"{at}/search?q=rare")
    assert "3 memories" in page.text
    assert "Below /memories/plans 2 /memories/notes 1" in page.text
    assert "Changed by session:s2 2 session:s1 1" in page.text
    assert "Changed Last 24 hours 3 Last 7 days 3 Last 30 days 3" in page.text
    for link, count in (("actor=session%3As2", 2), ("actor=session%3As1", 1), ("since=1d", 3), ("plans", 2)):
        url = next(each for each in page.links if "/search?" in each and link in each)
        chosen = person.get(url)
        assert f"{count} memor" in chosen.text, url
        assert chosen.problems() == []
    assert "By anybody" in person.get(f"{at}/search?q=rare&actor=session:s2").text
    both = person.get(f"{at}/search?q=rare&actor=session:*&under=notes/")
    assert "1 memory" in both.text
    assert "Nothing found" in person.get(f"{at}/search?q=rare&since=2100-01-01").text


@pytest.mark.parametrize(
    "wrong",
    ["since=never", "actor=a b", "re=1&actor=user:a", "under=/memories/../x", "under=a%00b", "under=" + 1_025 * "x"],
)
def test_a_wrong_choice_is_refused(person: Person, at: str, wrong: str) -> None:
    assert person.get(f"{at}/search?q=rare&{wrong}").status == 400


@pytest.mark.parametrize("under", ["caf%C3%A9", "cafe%CC%81/", "/memories//caf%C3%A9"])
def test_a_directory_is_normalised(person: Person, store: MemoryStore, at: str, under: str) -> None:
    """The audit log then has the canonical path, from which an erased memory can be withdrawn."""
    store.change_settings({"audit": True})
    store.create("/memories/caf\u00e9/a.md", "rare\n")
    assert "1 memory" in person.get(f"{at}/search?q=rare&under={under}").text
    searches = [each for each in store.audit.entries() if each.operation == "search"]
    assert [each.paths for each in searches] == [("/memories/caf\u00e9",)]


def test_a_choice_of_a_private_search_has_no_address(person: Person, found: MemoryStore, at: str) -> None:
    page = person.submit(f"{at}/search", "/search", q="rare")
    assert not [link for link in page.links if "rare" in link]
    fields = page.form("/search")
    chosen = person.post(f"{at}/search", {**fields, "actor": "session:s1"})
    assert "1 memory" in chosen.text
    assert "rare" not in chosen.url


def test_a_private_search_does_not_fill_the_form_with_an_address(person: Person, found: MemoryStore, at: str) -> None:
    """The button of that form would put the query into the URL. The private form has the query."""
    page = person.submit(f"{at}/search", "/search", q="rare", under="plans", actor="session:s2", since="1d")
    assert page.problems() == []
    public = next(fields for method, _, fields in page.forms if method == "get" and "since" in fields)
    assert not any(public.values())
    assert page.form("/search")["q"] == "rare"
    shown = person.get(f"{at}/search?q=rare&re=1&under=plans")
    public = next(fields for method, _, fields in shown.forms if method == "get" and "since" in fields)
    assert (public["q"], public["under"], public["re"]) == ("rare", "plans", "1")
