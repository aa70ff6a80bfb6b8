"""Stores are created, renamed, archived and deleted by an administrator. Their URLs have their keys."""

from __future__ import annotations

import pytest

import retentive
from support.console import Person, Seen
from support.http_api import Api


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


def test_a_store_without_a_key_has_its_id_in_urls(person: Person, api: Api) -> None:
    page = person.submit("/console/stores/new", "/stores/new", name="Only a name")
    assert "/console/s/memstore_" in page.url
    assert "Only a name" in page.text


@pytest.mark.parametrize("key", ["Zürich 東京", "..", "a/b", "memstore_x", "a?b#c", "100%"])
def test_a_key_in_a_url_is_read_as_written(person: Person, api: Api, key: str) -> None:
    store = api.place.opened.store(api.place.opened.create_store("s", key=key).id)
    store.create("/memories/a.md", "text of a\n")
    page = person.get("/console/?q=" + store.id)
    link = next(each for each in page.links if each.endswith("/tree/"))
    listed = person.get(link)
    assert listed.status == 200
    assert "text of a" in person.get(next(each for each in listed.links if each.endswith("/m/a.md"))).text


def test_a_page_that_does_not_exist_leads_back(person: Person, api: Api) -> None:
    store = api.place.opened.store("with a way back")
    page = person.get(f"/console/s/{store.id}/m/unknown")
    assert {f"/console/s/{store.id}/tree/", "/console/"} <= set(page.links)
    assert "/console/" in person.get("/console/s/memstore_unknown/tree/").links


def test_a_url_with_too_many_fields_is_refused(person: Person) -> None:
    assert person.get("/console/?" + "&".join(f"a{n}=1" for n in range(1_101))).status == 400
