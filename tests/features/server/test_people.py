"""Groups: what their members may see and do, on each door of the server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import retentive
from retentive import MemoryStore
from support.http_api import Api, serving

GROUPS, KEYS = "/v1/organizations/groups", "/v1/organizations/api_keys"
BOOK, TEAM = "/memories/book", "/memories/team"
GRANT = {"role": "write", "stores": ["team-*"], "paths": [TEAM]}


def group(api: Api, name: str, members: list[str], *grants: dict[str, Any]) -> dict[str, Any]:
    answer = api.post(GROUPS, {"name": name, "members": members, "grants": list(grants)})
    assert answer.status == 200, answer.body
    found: dict[str, Any] = answer.body
    return found


@pytest.fixture
def other() -> Iterator[Api]:
    """A server of its own, because groups hold for all tests of one."""
    with retentive.open("sqlite://") as place, serving(place) as api:
        yield api


@pytest.fixture
def store(other: Api) -> MemoryStore:
    made = other.place.opened.store("team-a")
    for name in ("book/rules", "team/notes", "private/pay"):
        made.create(f"/memories/{name}.md", f"SECRET {name}\n" if "pay" in name else f"text {name}\n")
    return made


def member(api: Api, **options: Any) -> Api:
    """A key of ann without rights of its own."""
    return api.with_key(**{"principal": "user:ann", **options})


def tool(api: Api, store: MemoryStore, command: dict[str, Any]) -> str:
    block = {"type": "tool_use", "id": json.dumps(command)[:200], "name": "memory", "input": command}
    answer = api.post(f"/v1/memory_stores/{store.id}/tool", block)
    return str(answer.body.get("content", answer.body))


def test_a_member_reads_one_path_and_writes_another(other: Api, store: MemoryStore) -> None:
    ann = member(other)
    at = f"/v1/memory_stores/{store.id}"
    assert (ann.get(at).status, ann.get("/v1/memory_stores").status) == (403, 403)
    group(other, "docs", ["user:ann"], GRANT, {"role": "read", "stores": [store.id], "paths": [BOOK]})
    listed = ann.get(f"{at}/memories").body["data"]
    assert [each["path"] for each in listed] == ["/book/rules.md", "/team/notes.md"]
    assert [each["id"] for each in ann.get("/v1/memory_stores").body["data"]] == [store.id]
    assert "text team" in tool(ann, store, {"command": "view", "path": f"{TEAM}/notes.md"})
    for path, is_changed in (
        (f"{TEAM}/notes.md", True),
        (f"{BOOK}/rules.md", False),
        ("/memories/private/pay.md", False),
    ):
        said = tool(ann, store, {"command": "insert", "path": path, "insert_line": 0, "insert_text": "x\n"})
        assert ("read-only" in said) != is_changed, said
    absent = tool(ann, store, {"command": "view", "path": "/memories/zzz.md"})
    assert tool(ann, store, {"command": "view", "path": "/memories/private/pay.md"}) == absent.replace(
        "zzz", "private/pay"
    )
    found = ann.post(f"{at}/search", {"query": "text SECRET"}).body["data"]
    assert {each["memory"]["path"] for each in found} == {"/book/rules.md", "/team/notes.md"}
    log = ann.get(f"{at}/memory_versions").body["data"] + ann.get(f"{at}/changes").body["data"]
    assert "/private" not in json.dumps(log)
    assert ann.get(f"{at}/audit_entries").status == 403
    assert ann.post(f"{at}/settings", {"max_memories": 5}).status == 403
    assert ann.get(KEYS).status == ann.get(GROUPS).status == 403


def test_roles(other: Api, store: MemoryStore) -> None:
    """A review role also accepts, an admin role changes settings, and neither is a role in the workspace."""
    store.change_settings({"review": ["session:*"]})
    store.create("/memories/x.md", "proposed\n", actor="session:s1")
    at, proposal = f"/v1/memory_stores/{store.id}", store.review.pending()[0].id
    group(other, "reviewers", ["user:ann"], {"role": "review", "stores": ["team-*"]}, GRANT)
    group(other, "admins", ["user:bob"], {"role": "admin"})
    ann, bob = member(other), member(other, principal="user:bob")
    assert ann.get(f"{at}/memories").body["data"][1]["path"] == "/private/pay.md"
    assert ann.post(f"{at}/proposals/{proposal}/accept", {}).status == 200
    assert ann.post("/v1/memory_stores", {"name": "x", "key": "team-x"}).status == 403
    assert bob.post(f"{at}/settings", {"max_memories": 50}).status == 200
    assert bob.post("/v1/memory_stores", {"name": "x", "key": "team-x"}).status == 200
    assert bob.post(KEYS, {"name": "x"}).status == bob.post(GROUPS, {"name": "x"}).status == 403
    limited = other.with_key("admin", stores=("team-*",))
    assert limited.post(GROUPS, {"name": "x"}).status == limited.get(GROUPS).status == 403


def test_a_key_made_by_an_admin_of_some_stores_joins_no_group(other: Api, store: MemoryStore) -> None:
    """Otherwise, this admin could name a principal whose groups may more than it may."""
    group(other, "docs", ["user:ann"], {"role": "read", "stores": ["team-a"]})
    limited = other.with_key("admin", stores=("else",))
    ann = {"type": "user_actor", "user_id": "ann"}
    made = limited.post(KEYS, {"name": "k", "stores": ["else"], "principal": ann})
    assert (made.status, made.body["warnings"]) == (200, ["no memory store matches 'else' yet"])
    at = f"/v1/memory_stores/{store.id}"
    assert Api(other.url, made.body["api_key"], other.place).get(at).status == 404
    whole = other.post(KEYS, {"name": "k", "scopes": [], "principal": ann}).body
    assert whole["scopes"] == []
    assert Api(other.url, whole["api_key"], other.place).get(at).status == 200


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"members": ["*"]}, "must be KIND:NAME"),
        ({"members": ["user:*"]}, "matches everybody"),
        ({"members": ["group:?*"]}, "matches everybody"),
        ({"members": ["session:s1"]}, "the kinds are user, service_account, api_key, group"),
        ({"grants": [{"role": "review", "paths": [TEAM]}]}, "is for whole memory stores"),
        ({"grants": [{"role": "owner"}]}, "grants.0.role"),
        ({"grants": [{"role": "read", "paths": ["/x"]}]}, "must start with /memories"),
        ({"name": "group_1234"}, "must not begin with group_"),
    ],
)
def test_a_wrong_group_is_refused(other: Api, body: dict[str, Any], said: str) -> None:
    answer = other.post(GROUPS, {"name": "docs", **body})
    assert answer.status == 400
    assert said in answer.error["message"]


def test_changes_of_a_group_are_made_and_logged(other: Api, store: MemoryStore) -> None:
    made = group(other, "docs", ["user:ann"], GRANT)
    at = f"{GROUPS}/{made['id']}"
    assert group(other, "docs", ["user:ann"], GRANT)["id"] == made["id"]
    assert other.post(GROUPS, {"name": "docs"}).status == 409
    read = {"role": "read", "stores": ["tema-*"], "paths": []}
    change = {"name": "writers", "add_members": ["group:staff"], "remove_members": ["user:ann"], "add_grants": [read]}
    changed = other.post(at, {**change, "remove_grants": [GRANT]}).body
    assert (changed["name"], changed["members"], changed["grants"]) == ("writers", ["group:staff"], [read])
    assert changed["warnings"] == ["no memory store matches 'tema-*' yet; did you mean 'team-*'?"]
    group(other, "docs", [])
    assert other.post(at, {"name": "docs"}).status == 409
    page = other.get(f"{GROUPS}?limit=1").body
    assert (page["has_more"], page["data"][0]["name"]) == (True, "docs")
    assert [each["name"] for each in other.get(f"{GROUPS}?after_id={page['last_id']}").body["data"]] == ["writers"]
    assert other.delete(at).body == {"id": made["id"], "type": "group_deleted"}
    assert other.get(at).status == other.delete(at).status == 404
    entries = [each for each in other.place.opened.records.entries().items if each.facts.get("group") == made["id"]]
    assert [each.operation for each in entries] == ["group_deleted", "group_changed", "group_created"]
    assert entries[1].facts["members"] == ["group:staff"]
    assert {each.integration for each in entries} == {"http"}
    assert other.place.opened.records.audit.verify().is_sound
