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
from retentive.values.records import SYSTEM_STORE
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
        ({"members": ["user:ann "]}, "must be KIND:NAME"),
        ({"members": ["user:a\0"]}, "control characters"),
        ({"members": ["session:s1"]}, "the kinds are user, service_account, api_key, group"),
        ({"grants": [{"role": "review", "paths": [TEAM]}]}, "is for whole memory stores"),
        ({"grants": [{"role": "owner"}]}, "grants.0.role"),
        ({"grants": [{"role": "read", "paths": ["/x"]}]}, "must start with /memories"),
        ({"name": "\n"}, "control characters"),
    ],
)
def test_a_wrong_group_is_refused(other: Api, body: dict[str, Any], said: str) -> None:
    answer = other.post(GROUPS, {"name": "docs", **body})
    assert answer.status == 400
    assert said in answer.error["message"]


def test_changes_of_a_group_are_made_and_logged(other: Api, store: MemoryStore) -> None:
    made = group(other, "docs", ["user:ann"], GRANT)
    at = f"{GROUPS}/{made['id']}"
    assert other.post(GROUPS, {"name": "docs"}).status == 409
    read = {"role": "read", "stores": ["tema-*"], "paths": []}
    change = {"add_members": ["group:staff"], "remove_members": ["user:ann"], "add_grants": [read]}
    changed = other.post(at, {**change, "remove_grants": [GRANT]}).body
    assert (changed["members"], changed["grants"]) == (["group:staff"], [read])
    assert changed["warnings"] == ["no memory store matches 'tema-*' yet; did you mean 'team-*'?"]
    assert other.get(at).body == other.post(at, {"add_members": ["group:staff"]}).body == changed
    group(other, "empty", [])
    page = other.get(f"{GROUPS}?limit=1").body
    assert (page["has_more"], page["data"][0]["name"]) == (True, "docs")
    assert [each["name"] for each in other.get(f"{GROUPS}?after_id={page['last_id']}").body["data"]] == ["empty"]
    assert other.delete(at).body == {"id": made["id"], "type": "group_deleted"}
    assert other.get(at).status == other.delete(at).status == 404
    entries = [each for each in other.place.opened.records.entries().items if each.facts.get("group") == made["id"]]
    assert [each.operation for each in entries] == ["group_deleted", "group_changed", "group_created"]
    assert entries[1].facts["add_members"] == ["group:staff"]
    assert entries[1].facts["remove_grants"] == ["write:team-*:/memories/team"]
    assert {each.integration for each in entries} == {"http"}
    assert other.place.opened.records.audit.verify().is_sound


def test_patterns_of_paths_are_in_unicode_nfc(other: Api, store: MemoryStore) -> None:
    store.create("/memories/caf\u00e9/a.md", "one\n")
    typed = {"role": "read", "stores": ["team-a"], "paths": ["/memories/cafe\u0301"]}
    made = group(other, "docs", ["user:ann"], typed)
    listed = member(other).get(f"/v1/memory_stores/{store.id}/memories").body["data"]
    assert [each["path"] for each in listed] == ["/caf\u00e9/a.md"]
    assert other.post(f"{GROUPS}/{made['id']}", {"remove_grants": [typed]}).body["grants"] == []


def test_groups_of_another_workspace_are_as_unknown(other: Api, store: MemoryStore) -> None:
    """Also one with the same name, and one whose record is damaged. Its members get no rights here."""
    elsewhere = other.with_key("admin", workspace_id="wrkspc_else")
    foreign = group(elsewhere, "docs", ["user:ann"], {"role": "admin"})["id"]
    own = group(other, "docs", ["user:bob"])["id"]
    assert (own != foreign, member(other).get("/v1/memory_stores").status) == (True, 403)
    for _ in range(2):
        for answer, unknown in (
            (send(f"{GROUPS}/{foreign}"), send(f"{GROUPS}/{foreign[:-1]}x"))
            for send in (other.get, other.delete, lambda at: other.post(at, {"add_members": ["user:eve"]}))
        ):
            assert (answer.status, answer.error) == (404, unknown.error)
        assert [each["id"] for each in other.get(GROUPS).body["data"]] == [own]
        other.place.opened.records.put("group", foreign, "{}")
    assert group(other, foreign, [])["id"] not in {foreign, own}


def test_a_scope_for_the_gateway_widens_no_path_of_a_role(other: Api, store: MemoryStore) -> None:
    group(other, "docs", ["user:ann"], {"role": "read", "stores": ["team-a"], "paths": [BOOK]})
    ann, at = other.with_key("gateway", principal="user:ann"), f"/v1/memory_stores/{store.id}"
    assert [each["path"] for each in ann.get(f"{at}/memories").body["data"]] == ["/book/rules.md"]
    assert ann.post(f"{at}/memories", {"path": "/book/x.md", "content": "x"}).status == 403
    found = [each["memory"]["path"] for each in ann.post(f"{at}/search", {"query": "text"}).body["data"]]
    assert (found, ann.get(at).body["memory_count"]) == (["/book/rules.md"], None)


def test_the_organization_and_its_workspaces_in_the_hosted_form(other: Api, store: MemoryStore) -> None:
    """A caller sees its own workspace: that of another key is like an unknown one.

    The time of its creation does not depend on memory stores that the caller may not see.
    """
    system = other.place.opened.backend.get_store(SYSTEM_STORE)
    assert system is not None
    elsewhere = other.with_key("read", workspace_id="wrkspc_else")
    for api, own in ((other, "wrkspc_default"), (elsewhere, "wrkspc_else"), (member(other), "")):
        if not own:  # a key without any rights
            assert api.get("/v1/organizations/me").status == 403
            continue
        with anthropic.Anthropic(api_key=api.key, base_url=api.url, _strict_response_validation=True) as client:
            assert client.organization.retrieve().id == "org_default"
            assert [each.id for each in client.organization.workspaces.list()] == [own]
            assert client.organization.workspaces.retrieve(own).created_at == system.created_at
            for wrong in ("wrkspc_none", "wrkspc_default" if own == "wrkspc_else" else "wrkspc_else"):
                with pytest.raises(anthropic.NotFoundError):
                    client.organization.workspaces.retrieve(wrong)


def test_groups_on_the_command_line(tmp_path: Path) -> None:
    at = f"sqlite:///{tmp_path}/memory.db"
    here(at, "--store", "team-a", "create", "/memories/a.md", "one")

    def run(*arguments: str) -> str:
        ended = here(at, "groups", *arguments)
        return f"{ended.exit_code} {ended.output}"

    roles = ("--role", "write:team-*:/memories/notes", "--role", "read:tema-*")
    said = run("new", "docs", "--member", "user:ann", *roles)
    assert said == "0 Created docs.\nWarning: no memory store matches 'tema-*' yet; did you mean 'team-*'?\n"
    assert run("new", "docs").startswith("6 Error: there is another group with the name 'docs'")
    assert run("set", "docs", "--add", "group:staff", "--no-role", "read:tema-*") == "0 Changed docs.\n"
    assert run("list").split("\t")[:3] == ["0 docs", "user:ann,group:staff", "write:team-*:/memories/notes"]
    shown = json.loads(run("list", "docs", "--json")[2:])[0]
    assert shown["grants"] == [{"role": "write", "stores": ["team-*"], "paths": ["/memories/notes"]}]
    for option in ("--remove=user:bob", "--no-role=read:team-*"):
        assert run("set", "docs", option).startswith(f"3 Error: the group 'docs' has no '{option.partition('=')[2]}'")
    assert run("new", "all", "--member", "user:*").endswith("matches everybody; name a user, such as user:team-*\n")
    assert run("new", "all", "--role", "review:*:/memories/a").startswith("2 Error: the role review is for whole")
    assert run("set", "docs").startswith("2 Usage")
    assert run("list", "other").startswith("3 Error: there is no such group")
    assert "has no memory store and no key yet" in run("new", "x", "--workspace", "wrkspc_defualt")
    assert run("delete", "docs") == "0 Deleted docs.\n"
    assert run() == "0 "
    with retentive.open(at) as place:
        operations = [each.operation for each in place.records.entries().items]
        assert operations[:4] == ["group_deleted", "group_created", "group_changed", "group_created"]


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
