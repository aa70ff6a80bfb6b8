"""The contract of the hosted API: each object, limit, error and header of stores, memories and versions."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any
from urllib.parse import quote

import pytest

from retentive import MemoryStore
from support.http_api import Answer, Api

STORES = "/v1/memory_stores"
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"
WRONG = "0" * 64
STORE = {"id", "type", "name", "description", "metadata", "created_at", "updated_at", "archived_at"}
MEMORY = {
    "id", "type", "memory_store_id", "memory_version_id", "path", "content", "content_sha256", "content_size_bytes",
    "created_at", "updated_at",
}  # fmt: skip
VERSION = {
    "id", "type", "memory_id", "memory_store_id", "operation", "path", "content", "content_sha256",
    "content_size_bytes", "created_at", "created_by", "redacted_at", "redacted_by",
}  # fmt: skip


def made(api: Api, at: str, path: str = "/a.md", content: str = "one") -> dict[str, Any]:
    return ok(api.post(f"{at}/memories", {"path": path, "content": content}))


def ok(answer: Answer) -> dict[str, Any]:
    assert answer.status == 200, answer.body
    body: dict[str, Any] = answer.body
    return body


def kind(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.error["type"]


def condition(digest: object) -> dict[str, object]:
    return {"type": "content_sha256", "content_sha256": digest}


INVALID, MISSING = (400, "invalid_request_error"), (404, "not_found_error")
DIFFERS, TAKEN = (409, "memory_precondition_failed_error"), (409, "memory_path_conflict_error")


@pytest.mark.parametrize(
    ("body", "is_valid"),
    [
        ({"name": "x" * 255}, True),
        ({"name": "é" * 255, "description": "d" * 1024}, True),
        ({"name": "x", "description": None, "metadata": None}, True),
        ({"name": "x", "metadata": {"k" * 64: "v" * 512}}, True),
        ({"name": "x", "metadata": {str(number): "" for number in range(16)}}, True),
        ({}, False),
        ({"name": None}, False),
        ({"name": "x" * 256}, False),
        ({"name": "x\n"}, False),
        ({"name": "x", "description": "d" * 1025}, False),
        ({"name": "x", "metadata": {"k" * 65: ""}}, False),
        ({"name": "x", "metadata": {"": ""}}, False),
        ({"name": "x", "metadata": {"k": "v" * 513}}, False),
        ({"name": "x", "metadata": {"k": 1}}, False),
        ({"name": "x", "metadata": {str(number): "" for number in range(17)}}, False),
        ({"name": "x", "archived_at": None}, False),
    ],
)
def test_fields_and_limits_of_a_store(api: Api, body: dict[str, object], is_valid: bool) -> None:
    answer = api.post(STORES, body)
    if not is_valid:
        assert kind(answer) == INVALID
        return
    found = ok(answer)
    assert found.keys() >= STORE
    assert (found["type"], found["description"], found["archived_at"]) == (
        "memory_store", body.get("description") or "", None,
    )  # fmt: skip
    assert re.fullmatch(TIME, found["created_at"])
    assert ok(api.get(f"{STORES}/{found['id']}")) == found


def test_an_update_of_a_store(api: Api) -> None:
    first = ok(api.post(STORES, {"name": "a", "description": "d", "metadata": {"x": "1", "y": "2"}}))
    at = f"{STORES}/{first['id']}"
    changed = ok(api.post(at, {"description": "", "metadata": {"x": None, "z": "3"}}))
    assert (changed["name"], changed["description"], changed["metadata"]) == ("a", "", {"y": "2", "z": "3"})
    assert ok(api.post(at, {"name": None, "description": None}))["name"] == "a"
    assert kind(api.post(at, {"metadata": {str(number): "" for number in range(15)}})) == INVALID


def test_memories_do_not_change_the_time_of_a_store(api: Api, at: str) -> None:
    before = ok(api.get(at))
    made(api, at)
    assert ok(api.get(at))["updated_at"] == before["updated_at"]


def test_equal_names_give_two_stores(api: Api) -> None:
    assert len({ok(api.post(STORES, {"name": "same"}))["id"] for _ in range(2)}) == 2


def test_stores_are_listed_newest_first_within_inclusive_times(api: Api) -> None:
    first, second = (ok(api.post(STORES, {"name": name})) for name in "ab")
    between = f"created_at[gte]={first['created_at']}&created_at[lte]={second['created_at']}"
    listed = [each["id"] for each in ok(api.get(f"{STORES}?{quote(between, safe='=&')}"))["data"]]
    assert listed == [second["id"], first["id"]]
    ok(api.post(f"{STORES}/{first['id']}/archive"))
    assert first["id"] not in str(ok(api.get(f"{STORES}?limit=100")))
    assert first["id"] in str(ok(api.get(f"{STORES}?limit=100&include_archived=true")))


def test_an_archived_store(api: Api, at: str) -> None:
    """It refuses what changes it; it allows reads, deletion and redaction."""
    old = made(api, at)
    ok(api.post(f"{at}/memories/{old['id']}", {"content": "two"}))
    archived = ok(api.post(f"{at}/archive"))
    assert ok(api.post(f"{at}/archive")) == archived
    for path, body in (
        (at, {"name": "x"}),
        (f"{at}/memories", {"path": "/b", "content": ""}),
        (f"{at}/memories/{old['id']}", {"content": "x"}),
        (f"{at}/memories/{old['id']}", {"path": "/x"}),
        (f"{at}/undo", {"memory_version_id": old["memory_version_id"]}),
        (f"{at}/restore", {"path": "/a.md", "version": old["memory_version_id"]}),
    ):
        assert kind(api.post(path, body)) == INVALID, path
    assert ok(api.get(f"{at}/memories/{old['id']}"))["content"] == "two"
    ok(api.post(f"{at}/memory_versions/{old['memory_version_id']}/redact"))
    assert ok(api.delete(f"{at}/memories/{old['id']}")) == {"id": old["id"], "type": "memory_deleted"}
    assert ok(api.delete(at))["type"] == "memory_store_deleted"
    assert kind(api.delete(at)) == MISSING


@pytest.mark.parametrize("content", ["", "\ufeffa\r\nb\r", "é", "\U0001f600\n\n", "e\u0301", "x" * 102_400])
def test_content_is_kept_byte_for_byte(api: Api, at: str, content: str) -> None:
    basic = made(api, at, content=content)
    assert (basic.keys() >= MEMORY, basic["content"], basic["type"]) == (True, None, "memory")
    data = content.encode()
    assert (basic["content_sha256"], basic["content_size_bytes"]) == (sha256(data).hexdigest(), len(data))
    assert ok(api.get(f"{at}/memories/{basic['id']}")) == {**basic, "content": content}
    assert ok(api.get(f"{at}/memories/{basic['id']}?view=basic")) == basic


@pytest.mark.parametrize(
    "body",
    [
        {"path": "/a"},
        {"content": ""},
        {"path": "/a", "content": None},
        {"path": None, "content": ""},
        {"path": "/a", "content": "x" * 102_401},
        {"path": "/a", "content": "é" * 51_201},
        {"path": "/a", "content": "\x00"},
        {"path": "/a", "content": 1},
        {"path": "/a", "content": "", "mode": "x"},
    ],
)
def test_content_that_is_refused(api: Api, at: str, body: dict[str, object]) -> None:
    assert kind(api.post(f"{at}/memories", body)) == INVALID
    assert ok(api.get(f"{at}/memories")) == {"data": [], "next_page": None}


@pytest.mark.parametrize(
    "path",
    [
        "", "a", "/", "//a", "/a//b", "/a/", "/.", "/a/../b", "/..", "/e\u0301", "/\u0085", "/a\nb", "/\u200b",
        "/a\u200d", "/.git/config", "/a/.Obsidian",
        "/\u2028", "/\u2029", "/a\\b", "/%2e%2e/b", "/\uff0e\uff0e/b", "/" + "x" * 256, "/a" * 21,
        "/" + "/".join(["x" * 205] * 5),
    ],
)  # fmt: skip
def test_paths_that_are_refused(api: Api, at: str, path: str) -> None:
    assert kind(api.post(f"{at}/memories", {"path": path, "content": ""})) == INVALID
    memory = made(api, at, "/known")
    assert kind(api.post(f"{at}/memories/{memory['id']}", {"path": path})) == INVALID


@pytest.mark.parametrize(
    "path",
    [
        "/a" * 20,
        "/x" + ("/" + "x" * 204) * 4 + "/" + "x" * 201,
        "/memories/x",
        "/é",
        "/a b",
        "/" + "x" * 255,
        "/.hidden",
        "/می\u200cخ",
    ],
)
def test_paths_that_are_taken_as_they_are(api: Api, store: MemoryStore, at: str, path: str) -> None:
    assert made(api, at, path)["path"] == path
    assert [each.path for each in store.memories()] == [f"/memories{path}"]


def test_a_path_that_begins_like_those_of_the_tool(api: Api, store: MemoryStore, at: str) -> None:
    """The answer says where the memory is. A path without the doubt has no note."""
    made = api.post(f"{at}/memories", {"path": "/memories/a.md", "content": "x"}).body
    assert "the memory tool sees /memories/memories/a.md" in made["note"]
    assert store.memories()[0].path == "/memories/memories/a.md"
    assert "note" not in api.post(f"{at}/memories", {"path": "/a.md", "content": "x"}).body


@pytest.mark.parametrize(("path", "conflicting"), [("/d/b", "/d/b"), ("/d/b/c", "/d/b"), ("/d", "/d/a")])
def test_a_path_that_is_taken(api: Api, at: str, path: str, conflicting: str) -> None:
    """At, above and below: the answer names the memory in the way, or the first of them."""
    ids = {name: made(api, at, name)["id"] for name in ("/d/b", "/d/a")}
    other = made(api, at, "/other")
    for answer in (
        api.post(f"{at}/memories", {"path": path, "content": ""}),
        api.post(f"{at}/memories/{other['id']}", {"path": path}),
    ):
        assert kind(answer) == TAKEN
        found = answer.error["conflicting_memory_id"], answer.error["conflicting_path"]
        assert found == (ids[conflicting], conflicting)


def test_an_update_is_one_version(api: Api, at: str) -> None:
    old = made(api, at)
    new = ok(api.post(f"{at}/memories/{old['id']}?view=full", {"path": "/b", "content": "two"}))
    assert (new["id"], new["path"], new["content"]) == (old["id"], "/b", "two")
    versions = ok(api.get(f"{at}/memory_versions"))["data"]
    assert [each["operation"] for each in versions] == ["modified", "created"]
    assert versions[0]["id"] == new["memory_version_id"]
    again = {"path": "/b", "content": "two", "precondition": condition(WRONG)}
    assert ok(api.post(f"{at}/memories/{old['id']}?view=full", again)) == new
    assert len(ok(api.get(f"{at}/memory_versions"))["data"]) == 2


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, INVALID),
        ({"content": None, "path": None}, INVALID),
        ({"precondition": condition(WRONG)}, INVALID),
        ({"content": "x", "precondition": condition(WRONG)}, DIFFERS),
        ({"path": "/b", "precondition": condition(WRONG)}, DIFFERS),
        ({"path": "/taken", "precondition": condition(WRONG)}, DIFFERS),
        ({"path": "/taken"}, TAKEN),
        ({"content": "x", "precondition": condition("A" * 64)}, INVALID),
        ({"content": "x", "precondition": condition("0" * 63)}, INVALID),
        ({"content": "x", "precondition": {"type": "other", "content_sha256": WRONG}}, INVALID),
        ({"content": "x", "precondition": {}}, INVALID),
        ({"content": "x", "precondition": WRONG}, INVALID),
    ],
)
def test_updates_that_are_refused(api: Api, at: str, body: dict[str, object], expected: tuple[int, str]) -> None:
    old = made(api, at)
    made(api, at, "/taken")
    assert kind(api.post(f"{at}/memories/{old['id']}", body)) == expected
    assert ok(api.get(f"{at}/memories/{old['id']}?view=basic")) == old


def test_a_deletion_compares_the_hash(api: Api, at: str) -> None:
    memory = made(api, at)
    own = f"{at}/memories/{memory['id']}"
    assert kind(api.delete(f"{own}?expected_content_sha256={WRONG}")) == DIFFERS
    assert kind(api.delete(f"{own}?expected_content_sha256=x")) == INVALID
    ok(api.delete(f"{own}?expected_content_sha256={memory['content_sha256']}"))
    assert kind(api.delete(own)) == kind(api.get(own)) == kind(api.post(own, {"content": "x"})) == MISSING


@pytest.mark.parametrize(
    "query",
    [
        "limit=0", "limit=101", "depth=2", "depth=-1", "view=all", "path_prefix=/a", "path_prefix=a/", "path_prefix=",
        "page=page", "page=page_", "page=page_e30", "order=asc", "depth=0&depth=0",
    ],
)  # fmt: skip
def test_listings_that_are_refused(api: Api, at: str, query: str) -> None:
    assert kind(api.get(f"{at}/memories?{query}")) == INVALID


def test_a_listing_by_prefix_and_depth(api: Api, at: str) -> None:
    for path in ("/b/c/d", "/a", "/b/a", "/b-", "/é/x"):
        made(api, at, path)
    assert [each["path"] for each in ok(api.get(f"{at}/memories"))["data"]] == ["/a", "/b-", "/b/a", "/b/c/d", "/é/x"]
    level = ok(api.get(f"{at}/memories?depth=1&path_prefix=/b/"))["data"]
    assert level[1] == {"type": "memory_prefix", "path": "/b/c/"}
    assert [each["path"] for each in level] == ["/b/a", "/b/c/"]
    first = ok(api.get(f"{at}/memories?depth=1&limit=3"))
    assert [each["path"] for each in first["data"]] == ["/a", "/b-", "/b/"]
    rest = ok(api.get(f"{at}/memories?depth=1&limit=3&page={first['next_page']}"))
    assert ([each["path"] for each in rest["data"]], rest["next_page"]) == (["/é/"], None)
    assert kind(api.get(f"{at}/memories?limit=3&page={first['next_page']}")) == INVALID


def test_a_listing_with_texts_has_twenty_at_most(api: Api, at: str) -> None:
    for number in range(21):
        made(api, at, f"/{number}")
    pages = {view: ok(api.get(f"{at}/memories?limit=100&view={view}")) for view in ("basic", "full")}
    assert [(len(page["data"]), page["next_page"] is None) for page in pages.values()] == [(21, True), (20, False)]
    assert len(ok(api.get(f"{at}/memories"))["data"]) == 20
    versions = ok(api.get(f"{at}/memory_versions?limit=100&view=full"))
    assert len(versions["data"]) == 20


def test_a_listing_shows_the_state_at_its_first_page(api: Api, at: str) -> None:
    """A memory that moves behind the cursor, or is deleted, is still listed as it was."""
    first, moved, deleted = (made(api, at, path) for path in ("/a", "/m", "/z"))
    page = ok(api.get(f"{at}/memories?limit=1"))
    ok(api.post(f"{at}/memories/{moved['id']}", {"path": "/0"}))
    ok(api.delete(f"{at}/memories/{deleted['id']}"))
    made(api, at, "/new")
    rest = ok(api.get(f"{at}/memories?limit=1&page={page['next_page']}"))
    last = ok(api.get(f"{at}/memories?limit=9&page={rest['next_page']}"))
    assert [*page["data"], *rest["data"], *last["data"]] == [first, moved, deleted]


def test_a_cursor_whose_state_was_redacted(api: Api, at: str) -> None:
    made(api, at, "/a")
    memory = made(api, at, "/b")
    page = ok(api.get(f"{at}/memories?limit=1"))["next_page"]
    ok(api.post(f"{at}/memories/{memory['id']}", {"content": "two"}))
    ok(api.post(f"{at}/memory_versions/{memory['memory_version_id']}/redact"))
    answer = api.get(f"{at}/memories?limit=1&page={page}")
    assert (kind(answer), answer.error["details"]) == (INVALID, {"error_code": "cursor_expired"})


def test_versions_have_every_key(api: Api, at: str) -> None:
    memory = made(api, at)
    ok(api.delete(f"{at}/memories/{memory['id']}"))
    deleted, created = ok(api.get(f"{at}/memory_versions?view=full"))["data"]
    assert (deleted.keys() >= VERSION, created.keys() >= VERSION) == (True, True)
    gone = [deleted[name] for name in ("content", "content_sha256", "content_size_bytes", "path")]
    assert gone == [None, None, None, "/a.md"]
    assert (created["content"], created["created_by"]["type"]) == ("one", "api_actor")
    basic = ok(api.get(f"{at}/memory_versions/{created['id']}?view=basic"))
    assert basic == {**created, "content": None}
    redacted = ok(api.post(f"{at}/memory_versions/{created['id']}/redact"))
    names = ("content", "content_sha256", "content_size_bytes", "path")
    assert [redacted[name] for name in names] == [None] * 4
    assert re.fullmatch(TIME, redacted["redacted_at"])
    assert ok(api.post(f"{at}/memory_versions/{created['id']}/redact")) == redacted


def test_the_current_version_of_a_live_memory_is_not_redacted(api: Api, at: str) -> None:
    memory = made(api, at)
    assert kind(api.post(f"{at}/memory_versions/{memory['memory_version_id']}/redact")) == INVALID


def test_versions_are_filtered(api: Api, store: MemoryStore, at: str) -> None:
    memory = made(api, at)
    store.create("/memories/s", "", actor="session:s1")
    store.create("/memories/v", "", actor="service_account:v1")
    store.create("/memories/u", "", actor="user:u1")
    versions = ok(api.get(f"{at}/memory_versions"))["data"]
    actors = [each["created_by"] for each in versions]
    assert actors[:3] == [
        {"type": "user_actor", "user_id": "u1"},
        {"type": "service_account_actor", "service_account_id": "v1"},
        {"type": "session_actor", "session_id": "s1"},
    ]
    for query, paths in {
        f"memory_id={memory['id']}": ["/a.md"],
        "session_id=s1": ["/s"],
        "service_account_id=v1": ["/v"],
        f"api_key_id={actors[3]['api_key_id']}": ["/a.md"],
        "operation=deleted": [],
        f"created_at[gte]={versions[0]['created_at']}&created_at[lte]={versions[0]['created_at']}": ["/u"],
    }.items():
        found = ok(api.get(f"{at}/memory_versions?{quote(query, safe='=&')}"))["data"]
        assert [each["path"] for each in found] == paths, query
    assert kind(api.get(f"{at}/memory_versions?operation=moved")) == INVALID


def test_pages_of_filtered_versions_are_full(api: Api, store: MemoryStore, at: str) -> None:
    """A version that a condition leaves out takes no room on a page."""
    store.create("/memories/d/a", "", actor="session:s*1")
    store.delete("/memories/d", actor="session:s21")
    store.create("/memories/d", "", actor="session:s31")
    for query in ("path_prefix=/d/&limit=2", "session_id=s*1&limit=1"):
        found = ok(api.get(f"{at}/memory_versions?{query}"))["data"]
        assert {each["path"] for each in found} == {"/d/a"}, query
        assert len(found) == int(query[-1])


def test_a_sensitive_value_is_refused(api: Api, at: str) -> None:
    """Redacted, the file of a client would differ from its memory forever."""
    secret = "AKIA" + "QYLPMN5HHHFPZAM2"
    answer = api.post(f"{at}/memories", {"path": "/a", "content": f"aws_access_key_id = {secret}\n"})
    assert kind(answer) == INVALID
    assert secret not in str(answer.body)
    assert ok(api.get(f"{at}/memories"))["data"] == []


def test_a_full_store(api: Api, store: MemoryStore, at: str) -> None:
    store.change_settings({"max_memories": 1})
    made(api, at)
    assert kind(api.post(f"{at}/memories", {"path": "/b", "content": ""})) == INVALID


def test_a_store_with_a_key_is_made_once(api: Api) -> None:
    first = ok(api.post(STORES, {"name": "a", "key": "once"}))
    again = ok(api.post(STORES, {"name": "b", "key": "once"}))
    assert (again["id"], again["name"], again["key"]) == (first["id"], "a", "once")
    assert [each["id"] for each in ok(api.get(f"{STORES}?key=once"))["data"]] == [first["id"]]
