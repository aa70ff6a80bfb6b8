"""The list of stores: figures, orders and pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import retentive
from retentive import MemoryStore
from retentive.console.pages import stores
from retentive.console.web import console
from support.console import Person
from support.http_api import Api, serving

pytestmark = pytest.mark.usefixtures("one_day")


@pytest.fixture
def many(tmp_path: Path) -> Iterator[tuple[Api, list[MemoryStore]]]:
    """A server with five stores, the first of which was changed last."""
    with (
        retentive.open(f"sqlite:///{tmp_path}/m.db") as opened,
        serving(opened, more=lambda server: console(server).routes()) as api,
    ):
        made = [opened.store(f"store-{number}") for number in range(5)]
        for number, each in reversed(list(enumerate(made))):
            for name in range(number + 1):
                each.create(f"/memories/{name}.md", "text", actor=f"session:s{number}")
        yield api, made


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
    person.close()


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
    person.close()


@pytest.mark.parametrize("scope", ["read", "review", "erase"])
def test_a_figure_needs_its_scope(many: tuple[Api, list[MemoryStore]], scope: str) -> None:
    api, _ = many
    person = Person(api, api.with_key("read", scope).key)
    text = person.get("/console/").text
    assert "15 Changes today" in text
    assert ("Proposals waiting" in text) == (scope == "review")
    assert ("sensitive findings" in text) == (scope == "erase")
    assert "Audit logs" not in text
    person.close()


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
    person.close()
