"""The choices of a search: by directory, actor and age."""

from __future__ import annotations

from typing import NamedTuple
from zlib import crc32

import pytest

from retentive import MemoryStore
from support.console import Person, url_name
from support.http_api import Api


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
    assert "Last changed by session:s2 2 session:s1 1" in page.text
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
    "wrong", ["actor=x", "since=never", "under=/memories/../x", "under=a%00b", "under=" + 1_025 * "x"]
)
def test_a_wrong_choice_is_refused(person: Person, at: str, wrong: str) -> None:
    for page in (f"{at}/search", "/console/search"):
        assert person.get(f"{page}?q=rare&{wrong}").status == 400


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
    fields = next(fields for method, to, fields in page.forms if method == "post" and "q" in fields and fields["q"])
    chosen = person.post(f"{at}/search", {**fields, "actor": "session:s1"})
    assert "1 memory" in chosen.text
    assert "rare" not in chosen.url


class TwoStores(NamedTuple):
    """Two stores with a word that no other store has, and the beginning of their keys, which is that word."""

    word: str
    first: MemoryStore
    second: MemoryStore


@pytest.fixture
def two(api: Api, request: pytest.FixtureRequest) -> TwoStores:
    """Stores of this test alone."""
    word = f"zebra{crc32(request.node.name.encode())}"
    first, second = (api.place.opened.store(f"{word} {number}") for number in (1, 2))
    first.create("/memories/notes/a.md", f"{word} {word}\n", actor="session:s1")
    second.create("/memories/plans/b.md", f"a {word} and other animals\n", actor="session:s2")
    second.create("/memories/plans/c.md", "nothing\n", actor="session:s2")
    return TwoStores(word, first, second)


def test_all_stores_are_searched_with_one_ranking(person: Person, two: TwoStores) -> None:
    """The choices count stores too, and each narrows the search."""
    word, first, second = two
    page = person.get(f"/console/search?q={word}")
    assert page.problems() == []
    assert "2 memories." in page.text
    links = [link for link in page.links if "/m/" in link and "#" not in link]
    assert set(links) == {
        f"/console/s/{url_name(first)}/m/notes/a.md",
        f"/console/s/{url_name(second)}/m/plans/b.md",
    }
    for choice, count in (
        (f"in={first.id}", 1),
        ("actor=session%3As2", 1),
        ("since=1d", 2),
        ("under=%2Fmemories%2Fplans", 1),
    ):
        url = next(each for each in page.links if each.startswith("/console/search?") and choice in each)
        assert f"{count} memor" in person.get(url).text, url
    assert "1 store that this key may see" in person.get(f"/console/search?q={word}&in={word} 1").text
    assert "Search all stores" in person.get(f"/console/s/{first.id}/search?q={word}").text
    assert person.get("/console/search?q=%22").status == 400


def test_a_key_finds_only_what_it_may_see(api: Api, two: TwoStores) -> None:
    word, _, second = two
    for more, count in (
        ({"paths": ("/memories/plans/**",)}, 1),
        ({"stores": (second.key,)}, 1),
        ({"stores": ("none",)}, 0),
    ):
        person = Person(api, api.with_key("read", **more).key)
        page = person.get(f"/console/search?q={word}").text
        assert f"{count} memor" in page
        assert f"{word} 1" not in page
        person.close()


def test_a_private_search_of_all_stores_has_no_address(person: Person, two: TwoStores) -> None:
    page = person.submit("/console/search", "/search", q=two.word)
    assert "2 memories." in page.text
    assert not [link for link in page.links if f"q={two.word}" in link]


def test_a_private_search_does_not_fill_the_form_with_an_address(person: Person, found: MemoryStore, at: str) -> None:
    """The button of that form would put the query into the URL. The private form has the query."""
    asked = {"q": "rare", "under": "plans", "actor": "session:s2", "since": "1d", "re": "1"}
    for url in (f"{at}/search", f"/console/search?in={found.id}"):
        page = person.submit(url, "/search", **asked)
        assert page.problems() == []
        public = next(fields for method, _, fields in page.forms if method == "get" and "since" in fields)
        assert not any(public.values())
        assert page.form("/search")["q"] == "rare"
        shown = person.get(f"{at}/search?q=rare&since=1d&re=1")
        public = next(fields for method, _, fields in shown.forms if method == "get" and "since" in fields)
        assert (public["q"], public["since"], public["re"]) == ("rare", "1d", "1")
