"""The search route, and reads of the past: as of a moment, and line by line."""

from __future__ import annotations

import time as clock
from datetime import UTC, datetime

import pytest

from retentive import MemoryStore
from retentive.server.keys import id_in
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


@pytest.mark.parametrize(
    ("sent", "paths"),
    [
        ({"query": "flew", "path_prefix": "/team/"}, ["/team/a.md"]),
        ({"query": "flew", "path_prefix": "/other/"}, []),
        ({"query": "flew train", "mode": "all"}, []),
        ({"query": "fl[aeiou]w", "mode": "regex"}, ["/team/a.md"]),
        ({"query": "team", "limit": 1}, ["/team/a.md"]),
    ],
)
def test_options_of_a_search(api: Api, store: MemoryStore, at: str, sent: dict[str, object], paths: list[str]) -> None:
    store.create(A, "Ann flew to Lisbon in May.\n")
    answer = api.post(f"{at}/search", sent)
    assert [each["path"] for each in answer.body["data"]] == paths


def test_a_search_of_the_past(api: Api, store: MemoryStore, at: str) -> None:
    store.create(A, "Ann flew to Lisbon.\n")
    first = store.versions()[0].id
    store.write(A, "Ann took the train.\n")
    assert api.post(f"{at}/search", {"query": "Lisbon"}).body["total"] == 0
    (found,) = api.post(f"{at}/search", {"query": "Lisbon", "at": first}).body["data"]
    assert (found["memory_version_id"], found["memory"]) == (first, None)
    (found,) = api.post(f"{at}/search", {"query": "Lisbon", "history": True}).body["data"]
    assert found["memory_version_id"] == first
    assert api.post(f"{at}/search", {"query": "Lisbon", "history": True, "at": first}).status == 400


def test_unknown_words_are_named(api: Api, store: MemoryStore, at: str) -> None:
    store.create(A, "Ann flew to Lisbon.\n")
    assert api.post(f"{at}/search", {"query": "Lisbom"}).body["unknown_words"] == ["Lisbom"]


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


def test_blame(api: Api, store: MemoryStore, at: str) -> None:
    memory_id = store.create(A, "one\ntwo\n", actor="user:ann", source="web:news", session="s7").memory_id
    first = store.versions()[0]
    sent = {"content": "one\nthree\n"}
    second = api.post(f"{at}/memories/{memory_id}", sent).body["memory_version_id"]
    body = api.get(f"{at}/memories/{memory_id}/blame").body
    assert [(each["line"], each["text"], each["memory_version_id"]) for each in body["lines"]] == [
        (1, "one\n", first.id),
        (2, "three\n", second),
    ]
    origins = [(each["source"], each["session"]) for each in body["lines"]]
    assert origins == [("web:news", "s7"), (None, None)]
    assert [each["created_by"] for each in body["lines"]] == [
        {"type": "user_actor", "user_id": "ann"},
        {"type": "api_actor", "api_key_id": id_in(api.key)},
    ]
    assert api.get(f"{at}/memories/mem_{'0' * 32}/blame").status == 404
