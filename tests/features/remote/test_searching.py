"""Searches and reads of the history over HTTP have the results of the local library."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from retentive import MemoryStore, errors
from retentive.integrations.search_tool import search_tool

A, B = "/memories/trips/a.md", "/memories/b.md"


@pytest.fixture
def filled(local: MemoryStore) -> str:
    """A store with three versions of a memory and another memory; the id of its first version."""
    local.create(A, "# Trips\nAnn flew to Lisbon in May 2023.\nBen stayed.\n", actor="session:s1", source="user")
    first = local.versions()[0].id
    local.create(B, "Ben stayed at home. See trips/a.md.\n")
    local.edit(A, "Ben stayed.", "Ben took the train.", actor="user:ann")
    local.edit(A, "Lisbon", "Porto")
    return first


@pytest.mark.parametrize(
    "options",
    [
        {"query": "when did Ann fly"},
        {"query": '"took the train" trips'},
        {"query": "stayed", "limit": 1},
        {"query": "Ben train", "mode": "all"},
        {"query": "P[a-z]rto", "regex": True},
        {"query": "Ben", "under": "/memories/trips"},
        {"query": "Ben", "paths": ["/memories/*.md"]},
        {"query": "Ben", "source": "user"},
        {"query": "Ben", "trust": "trusted"},
        {"query": "Lisbon", "history": True},
        {"query": "Portu"},
        {"query": "by:user:ann train"},
    ],
    ids=str,
)
def test_a_search(store: MemoryStore, local: MemoryStore, filled: str, options: dict[str, Any]) -> None:
    found, expected = store.search(**options), local.search(**options)
    assert found == expected
    assert found.hits or found.unknown


def test_a_search_of_the_past(store: MemoryStore, filled: str) -> None:
    now = datetime.now(UTC)
    assert [hit.path for hit in store.search("Lisbon", at=filled).hits] == [A]
    assert store.search("Lisbon", at=now).hits == ()


@pytest.mark.parametrize("options", [{"query": ""}, {"query": "(", "regex": True}, {"query": "x", "under": "/tmp"}])
def test_an_invalid_search(store: MemoryStore, options: dict[str, Any]) -> None:
    with pytest.raises(errors.RetentiveError):
        store.search(**options)


def test_the_search_tool(store: MemoryStore, local: MemoryStore, filled: str) -> None:
    asked = {"query": "when did Ann fly"}
    assert search_tool(store).run(asked).text == search_tool(local).run(asked).text


def test_blame(store: MemoryStore, local: MemoryStore, filled: str) -> None:
    found, expected = store.history.blame(A), local.history.blame(A)
    assert [(each.number, each.text, each.version.id) for each in found] == [
        (each.number, each.text, each.version.id) for each in expected
    ]
    assert [each.version.actor for each in found] == [each.version.actor for each in expected]
    with pytest.raises(errors.NotFound):
        store.history.blame("/memories/none")


def test_the_text_at_a_moment(store: MemoryStore, local: MemoryStore, filled: str) -> None:
    version, text = store.history.text_at(A, filled)
    assert (version.id, text) == (filled, local.history.text_at(A, filled)[1])
    with pytest.raises(errors.NotFound):
        store.history.text_at(B, filled)
