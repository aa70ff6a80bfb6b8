"""The list of stores: figures, orders and pages. Stores are created, renamed, archived and deleted by an admin."""

from __future__ import annotations

import pytest

import retentive
from retentive import MemoryStore
from retentive.console.pages import stores
from support.console import Person, Seen
from support.http_api import Api

pytestmark = pytest.mark.usefixtures("one_day")


@pytest.fixture
def many(alone: Api) -> tuple[Api, list[MemoryStore]]:
    """A server with five stores, the first of which was changed last."""
    made = [alone.place.opened.store(f"store-{number}") for number in range(5)]
    for number, each in reversed(list(enumerate(made))):
        for name in range(number + 1):
            each.create(f"/memories/{name}.md", "text", actor=f"session:s{number}")
    return alone, made


def order(text: str) -> list[str]:
    return sorted((f"store-{number}" for number in range(5) if f"store-{number}" in text), key=text.index)


@pytest.mark.parametrize(
    ("sort", "expected"),
    [("", "01234"), ("?sort=name", "01234"), ("?sort=memories", "43210"), ("?sort=today", "43120"),
     ("?sort=size", "14320"), ("?sort=full", "01234"), ("?sort=waiting", "20134"), ("?sort=findings", "10234"),
     ("?sort=audit", "30124")],
)  # fmt: skip
def test_each_order(many: tuple[Api, list[MemoryStore]], sort: str, expected: str) -> None:
    api, made = many
    made[2].change_settings({"review": ["session:new"]})
    made[2].create("/memories/proposed.md", "x", actor="session:new")
    made[3].change_settings({"audit": True})
    made[1].change_settings({"sensitive": "off"})
    made[1].create("/memories/k.md", "key AKIAIOSFODNN7EXAMPLQ\n")
    made[0].write("/memories/0.md", "newest")
    person = Person(api)
    person.get(f"/console/s/{made[1].id}/sensitive?scan=1")
    assert order(person.get(f"/console/{sort}").text) == [f"store-{each}" for each in expected]


def test_each_figure_leads_to_the_list_in_its_order(many: tuple[Api, list[MemoryStore]]) -> None:
    api, made = many
    person = Person(api)
    page = person.get("/console/")
    assert "15 Changes today" in page.text
    assert "0 Stores near a limit 0 Proposals waiting" in page.text
    assert "0 Memories with sensitive findings, 0 of 5 stores scanned Off Audit logs: 0 on" in page.text
    made[2].change_settings({"review": ["session:new"], "max_memories": 3, "audit": True, "sensitive": "off"})
    made[2].write("/memories/0.md", "key AKIAIOSFODNN7EXAMPLQ\n")
    made[2].write("/memories/1.md", "x", actor="session:new")
    assert "Not verified Audit logs: 1 on" in person.get("/console/").text
    person.get(f"/console/s/{made[2].id}/sensitive?scan=1")
    person.get(f"/console/s/{made[2].id}/audit?verify=1")
    page = person.get("/console/")
    assert "16 Changes today 1 Stores near a limit 1 Proposals waiting" in page.text
    assert "1 Memories with sensitive findings, 1 of 5 stores scanned Sound Audit logs: 1 on, 1 verified" in page.text
    assert {f"/console/?sort={each}" for each in ("today", "waiting", "full", "findings", "audit")} <= set(page.links)
    assert "1 with findings" in page.text
    person.get(f"/console/s/{made[2].id}/audit?verify=1&expect=9:{'0' * 64}")
    assert "Not sound" in person.get("/console/").text


@pytest.mark.parametrize("scope", ["read", "review", "erase"])
def test_a_figure_needs_its_scope(many: tuple[Api, list[MemoryStore]], scope: str) -> None:
    api, _ = many
    person = Person(api.with_key("read", scope))
    text = person.get("/console/").text
    assert "15 Changes today" in text
    assert ("Proposals waiting" in text) == (scope == "review")
    assert ("sensitive findings" in text) == (scope == "erase")
    assert "Audit logs" not in text


def test_pages_of_the_list(many: tuple[Api, list[MemoryStore]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "ROWS", 2)
    person, found = Person(many[0]), list[list[str]]()
    url = "/console/?sort=memories"
    for _ in range(3):
        page = person.get(url)
        found.append(order(page.text))
        url = next((each for each in page.links if "after=" in each), "")
        assert "sort=memories" in url or not url
    assert found == [["store-4", "store-3"], ["store-2", "store-1"], ["store-0"]]
    assert url == ""
    assert order(person.get("/console/?after=memstore_unknown").text) == ["store-0", "store-1"]
    assert person.get("/console/?sort=colour").status == 400


def manage(person: Person, at: str, **fields: str) -> Seen:
    csrf = person.get(f"{at}/manage").form("/manage")["csrf"]
    return person.post(f"{at}/manage", {"csrf": csrf, **fields})


def test_a_store_is_created_renamed_archived_and_deleted(person: Person, api: Api) -> None:
    page = person.submit("/console/stores/new", "/stores/new", key="Team notes/1 %", name="Team", description="For all")
    assert page.url.endswith("/console/s/Team%20notes%252F1%20%2525/tree/")
    at = page.url.removesuffix("/tree/")
    assert "Team notes/1 %" in page.text
    taken = person.submit("/console/stores/new", "/stores/new", key="Team notes/1 %")
    assert (taken.status, "there is a store with this key" in taken.text) == (400, True)
    manage(person, at, action="rename", name="Other", description="")
    info = api.place.opened.get_store("Team notes/1 %")
    assert (info.name, info.description) == ("Other", "")
    assert "Other" in person.get("/console/").text  # beside its key
    store = api.place.opened.store(info.id)
    store.create("/memories/a.md", "x\n")
    typed = {"typed": "Team notes/1 %", "key": api.key}
    for wrong, status in (({"typed": "x", "key": api.key}, 400), ({**typed, "key": "wrong"}, 403)):
        for action in ("archive", "delete"):
            assert manage(person, at, action=action, **wrong).status == status
    manage(person, at, action="archive", **typed)
    assert api.place.opened.get_store(info.id).archived_at is not None
    gone = manage(person, at, action="delete", **typed)
    assert gone.url.endswith("/console/")
    assert person.get(f"{at}/tree/").status == 404
    with pytest.raises(retentive.NotFound):
        api.place.opened.get_store(info.id)


@pytest.mark.parametrize("key", ["Zürich 東京", "..", "a/b", "memstore_x", "a?b#c", "100%"])
def test_a_key_in_a_url_is_read_as_written(person: Person, api: Api, key: str) -> None:
    store = api.place.opened.store(api.place.opened.create_store("s", key=key).id)
    store.create("/memories/a.md", "text of a\n")
    page = person.get("/console/?q=" + store.id)
    link = next(each for each in page.links if each.endswith("/tree/"))
    listed = person.get(link)
    assert listed.status == 200
    assert "text of a" in person.get(next(each for each in listed.links if each.endswith("/m/a.md"))).text
