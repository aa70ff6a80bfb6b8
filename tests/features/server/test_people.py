"""Groups: what their members may see and do, on each door of the server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

import retentive
from retentive import MemoryStore
from support.command_line import here
from support.http_api import Api, serving
from support.mcp_clients import reply_of

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


def test_what_an_actor_may_see(other: Api, store: MemoryStore) -> None:
    """Through its groups, the groups that its identity provider names, and keys that belong to it."""
    docs = group(other, "docs", ["user:ann"], GRANT)["id"]
    staff = group(other, "staff", ["group:staff"], {"role": "review"})["id"]
    key = other.with_key("read", principal="user:ann", stores=("else",))
    hidden = other.place.opened.store("else")
    assert key.get(f"/v1/memory_stores/{store.id}").body["key"] == "team-a"
    of_key, of_group = other.get("/v1/organizations/access?actor=user:ann").body["data"]
    assert (of_key["memory_store_id"], of_key["read_paths"], of_key["write_paths"]) == (hidden.id, [], None)
    assert (of_group["read_paths"], of_group["write_paths"], of_group["through"]) == ([TEAM], [TEAM], [docs])
    with_claims = other.get("/v1/organizations/access?actor=user:ann&claims=staff,x").body["data"]
    assert [each["scopes"] for each in with_claims] == [["read", "review"], ["read", "write", "review"]]
    assert set(with_claims[1]["through"]) == {docs, staff}
    assert other.get("/v1/organizations/access?actor=session:s1").status == 400


def test_the_organization_and_its_workspaces_in_the_hosted_form(other: Api, store: MemoryStore) -> None:
    """A caller sees its own workspace: that of another key is like an unknown one."""
    elsewhere = other.with_key("read", workspace_id="wrkspc_else")
    for api, own in ((other, "wrkspc_default"), (elsewhere, "wrkspc_else"), (member(other), "")):
        if not own:  # a key without any rights
            assert api.get("/v1/organizations/me").status == 403
            continue
        with anthropic.Anthropic(api_key=api.key, base_url=api.url, _strict_response_validation=True) as client:
            assert client.organization.retrieve().id == "org_default"
            assert [each.id for each in client.organization.workspaces.list()] == [own]
            assert client.organization.workspaces.retrieve(own).created_at is not None
            for wrong in ("wrkspc_none", "wrkspc_default" if own == "wrkspc_else" else "wrkspc_else"):
                with pytest.raises(anthropic.NotFoundError):
                    client.organization.workspaces.retrieve(wrong)


@pytest.mark.parametrize("is_remote", [False, True], ids=["here", "server"])
def test_groups_on_the_command_line(tmp_path: Path, *, is_remote: bool) -> None:
    """The same commands with the same output, at a location and at the URL of its server."""
    url = f"sqlite:///{tmp_path}/memory.db"
    here(url, "--store", "team-a", "create", "/memories/a.md", "one")
    with retentive.open(url) as place, serving(place) as api:
        at, key = (api.url, api.key) if is_remote else (url, "")

        def run(*arguments: str) -> str:
            ended = here(at, "groups", *arguments, RETENTIVE_API_KEY=key)
            return f"{ended.exit_code} {ended.output}"

        roles = ("--role", "write:team-*:/memories/notes", "--role", "read:tema-*")
        said = run("new", "docs", "--member", "user:ann", *roles)
        assert said == "0 Created docs.\nWarning: no memory store matches 'tema-*' yet; did you mean 'team-*'?\n"
        assert run("set", "docs", "--add", "group:staff", "--no-role", "read:tema-*", "--rename", "writers") == (
            "0 Changed writers.\n"
        )
        assert run("list").split("\t")[:3] == ["0 writers", "user:ann,group:staff", "write:team-*:/memories/notes"]
        shown = json.loads(run("list", "writers", "--json")[2:])[0]
        assert shown["grants"] == [{"role": "write", "stores": ["team-*"], "paths": ["/memories/notes"]}]
        seen = "team-a\tread,write\t/memories/notes\t/memories/notes"
        assert run("access", "user:ann") == run("access", "user:x", "--claim", "staff") == f"0 {seen}\t{shown['id']}\n"
        assert run("set", "writers", "--remove", "user:bob").startswith(
            "3 Error: the group 'writers' has no 'user:bob'"
        )
        assert run("new", "all", "--member", "user:*").startswith("2 Error: member 'user:*' matches everybody")
        assert run("set", "writers").startswith("2 Usage")
        assert run("list", "docs").startswith("3 Error: there is no group 'docs'")
        assert run("delete", "writers") == "0 Deleted writers.\n"
        assert run() == "0 "
        operations = [each.operation for each in place.records.entries().items]
        assert operations[:3] == ["group_deleted", "group_changed", "group_created"]


def test_typing_errors_in_the_options_of_a_key_are_said(tmp_path: Path) -> None:
    """The key is made all the same, because the store may come later."""
    at = f"sqlite:///{tmp_path}/memory.db"
    here(at, "--store", "team-notes", "create", "/memories/a.md", "one")
    here(at, "keys", "new", "first", "--workspace", "wrkspc_team")
    unknown = "has no memory store and no key yet; did you mean 'wrkspc_team'?"
    for options, said in (
        (("--stores", "tema-*"), "no memory store matches 'tema-*' yet; did you mean 'team-*'?"),
        (("--stores", "team-note"), "no memory store matches 'team-note' yet; did you mean 'team-notes'?"),
        (("--stores", "xyz"), "no memory store matches 'xyz' yet"),
        (
            ("--workspace", "wrkspc_tema"),
            f"the workspace 'wrkspc_tema' {unknown}",
        ),
        (("--stores", "team-*"), ""),
        (("--workspace", "wrkspc_team"), ""),
    ):
        ended = here(at, "keys", "new", "k", *options)
        assert (ended.exit_code, ended.stdout[:4]) == (0, "rtv_")
        assert ended.stderr == (f"Warning: {said}\n" if said else "")
    refused = here(at, "keys", "new", "k", "--only-groups", "--scope", "read")
    assert (refused.exit_code, "cannot be combined" in refused.output) == (2, True)


def test_a_member_at_mcp(other: Api, store: MemoryStore) -> None:
    """The rights there are those in the memory store of the session."""
    group(other, "docs", ["user:ann"], GRANT, {"role": "read", "stores": ["team-a"], "paths": [BOOK]})
    group(
        other, "reviewers", ["user:bob"], {"role": "review", "stores": ["else"]}, {"role": "admin", "stores": ["none"]}
    )

    async def asked() -> list[tuple[str, bool]]:
        headers = {"authorization": f"Bearer {member(other).key}"}
        async with (
            httpx2.AsyncClient(headers=headers) as http,
            Client(streamable_http_client(f"{other.url}/mcp?store=team-a", http_client=http)) as client,
        ):
            said = [await reply_of(client, "memory_view", {"path": path}) for path in ("/memories", f"{BOOK}/rules.md")]
            for path in (TEAM, BOOK):
                arguments = {"path": f"{path}/new.md", "file_text": "x\n"}
                said.append(await reply_of(client, "memory_create", arguments))
            return said

    listed, read, made, refused = asyncio.run(asked())
    assert "private" not in listed[0]
    assert (read[1], made[1], refused[1]) == (False, False, True)
    assert "read-only" in refused[0]
    bob = member(other, principal="user:bob")
    absent = bob.post("/mcp?store=nothing", {}).error
    assert bob.post("/mcp?store=team-a", {}).error == absent
    other.place.opened.store("else")
    mounted = [bob.post(f"/mcp?store=else&mount=/memories/t={key}", {}) for key in ("nothing", "team-a")]
    assert mounted[0].status == mounted[1].status == 404
    assert mounted[0].error == mounted[1].error


def test_a_stream_has_only_what_its_member_may_see_and_ends_with_the_role(other: Api, store: MemoryStore) -> None:
    made = group(other, "docs", ["api_key:none"], GRANT)
    key = other.with_key()
    change = {"add_members": [f"api_key:{other.place.keys.all()[0].id}"]}
    assert other.post(f"{GROUPS}/{made['id']}", change).status == 200
    headers = {"authorization": f"Bearer {key.key}"}
    url = f"{other.url}/v1/memory_stores/{store.id}/events?after=0"
    with httpx2.stream("GET", url, headers=headers, timeout=30) as answer:
        assert answer.status_code == 200
        lines = answer.iter_lines()
        first = next(line for line in lines if line.startswith("data: "))
        assert "/team/notes.md" in first
        store.append("/memories/private/pay.md", "SECRET more\n")
        store.append(f"{TEAM}/notes.md", "more\n")
        second = next(line for line in lines if line.startswith("data: "))
        assert other.delete(f"{GROUPS}/{made['id']}").status == 200
        store.append(f"{TEAM}/notes.md", "after the end\n")
        rest = list(lines)
    assert ("/team/notes.md" in second, [line for line in rest if line.startswith('data: {"')]) == (True, [])
