"""The search route, and reads of the past: as of a moment, and line by line."""

from __future__ import annotations

import time as clock
from datetime import UTC, datetime

import pytest

from retentive import MemoryStore
from support.http_api import Api

A, B = "/memories/team/a.md", "/memories/b.md"


def test_a_search_finds_memories_with_their_best_lines(api: Api, store: MemoryStore, at: str) -> None:
    store.create(A, "# Trips\nAnn flew to Lisbon in May.\nBen stayed.\n", actor="session:s1")
    store.create(B, "Nothing of that kind.\n")
    answer = api.post(f"{at}/search", {"query": "when did Ann fly to Lisbon"})
    first = answer.body["data"][0]
    assert (first["path"], first["updated_by"]) == ("/team/a.md", {"type": "session_actor", "session_id": "s1"})
    assert first["memory"] == api.get(f"{at}/memories/{first['memory_id']}?view=basic").body
    line = first["snippets"][0]
    assert (line["line"], line["headings"]) == (2, ["Trips"])
    assert "Lisbon" in [line["text"][start:end] for start, end in line["marks"]]
    assert answer.body["next_page"] is None


@pytest.mark.parametrize("query", ["", "x" * 5_000, 7, None])
def test_an_invalid_query(api: Api, at: str, query: object) -> None:
    assert api.post(f"{at}/search", {"query": query}).status == 400


def test_memories_as_they_were(api: Api, store: MemoryStore, at: str) -> None:
    memory_id = store.create(A, "one\n").memory_id
    first = store.versions()[0].id
    clock.sleep(0.002)
    between = datetime.now(UTC).isoformat()
    store.rename(A, B)
    store.write(B, "two\n")
    store.create("/memories/new.md", "new\n")
    for moment in (first, between.replace("+00:00", "Z")):
        body = api.get(f"{at}/memories/{memory_id}?at={moment}").body
        assert (body["path"], body["content"], body["memory_version_id"]) == ("/team/a.md", "one\n", first)
        assert api.get(f"{at}/memory?path=/team/a.md&at={moment}").body == body
        listed = api.get(f"{at}/memories?at={moment}&view=full").body
        assert listed == {"data": [body], "next_page": None}
    assert api.get(f"{at}/memories/{memory_id}").body["content"] == "two\n"
    assert api.get(f"{at}/memory?path=/b.md&at={first}").status == 404
    assert api.get(f"{at}/memories/{memory_id}?at=2020-01-01T00:00:00Z").status == 404
    assert api.get(f"{at}/memories/{memory_id}?at=2020-13-01").status == 400


def test_a_listing_of_the_past_in_pages(api: Api, store: MemoryStore, at: str) -> None:
    for number in range(5):
        store.create(f"/memories/{number}.md", str(number))
    moment = store.versions()[0].id
    store.delete("/memories/3.md")
    found: list[str] = []
    page: str | None = ""
    while page is not None:
        body = api.get(f"{at}/memories?at={moment}&limit=2{page and f'&page={page}'}").body
        found += [each["path"] for each in body["data"]]
        page = body["next_page"]
    assert found == [f"/{number}.md" for number in range(5)]
