"""The same mounts through every door: the library, a server, and MCP over stdio and HTTP answer byte for byte alike."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TypeAlias
from urllib.parse import quote

import httpx2
import pytest
from mcp import Client, MCPError, StdioServerParameters, types
from mcp.client.streamable_http import streamable_http_client

import retentive
from retentive import MemoryStore, Mounts, NotFound, Retentive
from retentive.errors import ReadOnly
from support.command_line import RETENTIVE, environment, process
from support.http_api import Api, serving
from support.mcp_clients import MODES, connected, reply_of
from support.places import place_of
from support.profiles import some

Replies: TypeAlias = list[tuple[str, bool]]
WAIT_S = 30
STYLE, PLAN = "/memories/team/style.md", "/memories/plan.md"
POINTS = ("/memories", "/memories/team", "/memories/both")
COMMANDS: list[dict[str, object]] = [
    {"command": "view", "path": "/memories"},
    {"command": "view", "path": "/memories/team/"},
    {"command": "view", "path": "/memories//team//style.md", "view_range": [1, -1]},
    {"command": "create", "path": PLAN, "file_text": "Call Ada\nTel. 1\n"},
    {"command": "create", "path": PLAN, "file_text": "again"},
    {"command": "create", "path": "/memories/team", "file_text": "x"},
    {"command": "create", "path": "/memories/team/new.md", "file_text": "x"},
    {"command": "str_replace", "path": STYLE, "old_str": "x", "new_str": "y"},
    {"command": "insert", "path": "/memories/team/none", "insert_line": 0, "insert_text": "x"},
    {"command": "delete", "path": "/memories/team//style.md"},
    {"command": "rename", "old_path": "/memories/team/style.md", "new_path": "/memories/team/s"},
    {"command": "delete", "path": "/memories/team"},
    {"command": "delete", "path": "/memories"},
    {"command": "rename", "old_path": "/memories/team", "new_path": "/memories/t"},
    {"command": "rename", "old_path": PLAN, "new_path": "/memories/team/plan.md"},
    {"command": "rename", "old_path": PLAN, "new_path": "/memories/both/plan.md"},
    {"command": "rename", "old_path": "/memories/ghp_" + "a1B2c3D4" * 4 + "abcd", "new_path": "/memories/both/x"},
    {"command": "rename", "old_path": PLAN, "new_path": "/memories//plans/a.md"},
    {"command": "create", "path": "/memories/both/x/y.md", "file_text": "one\ntwo\n" * 3},
    {"command": "str_replace", "path": "/memories/both/x/y.md", "old_str": "one", "new_str": "y"},
    {"command": "str_replace", "path": "/memories/both//x/y.md", "old_str": "three", "new_str": "y"},
    {"command": "insert", "path": "/memories/both/x/y.md", "insert_line": 9, "insert_text": "x"},
    {"command": "create", "path": "/memories/both/x/y.md/z", "file_text": "x"},
    {"command": "rename", "old_path": "/memories/both/x", "new_path": "/memories/both/x/z"},
    {"command": "view", "path": "/memories/both/none"},
    {"command": "create", "path": "/memories/both/.git/x", "file_text": "x"},
    {"command": "create", "path": "/memories/both/" + "a/" * 20 + "b", "file_text": "x"},
    {"command": "create", "path": "/memories/both/n.md", "file_text": "token=ghp_" + "a1B2" * 9 + "\n"},
    {"command": "delete", "path": "/memories/both/x"},
    {"command": "view", "path": "/memories/both"},
    {"command": "view"},
    {"command": "open", "path": "/memories"},
    {"command": "view", "path": "/etc"},
    {"command": "view", "path": "/memories"},
]


@pytest.fixture(params=some(["sqlite", "postgresql"], 2))
def api(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Api]:
    """A server with the key of an admin."""
    with retentive.open(place_of(request.param, tmp_path)) as opened, serving(opened) as found:
        yield found


def filled(opened: Retentive, door: str) -> Mounts:
    """Mine writable at the root, the team's read-only, and one of both, in a new tree of an opened location."""
    team = opened.store(f"team-{door}")
    team.create("/memories/style.md", "Plain words.\nx\n")
    team.create("/memories/deep/rules.md", "Tea at four.\n")
    mine, both = opened.store(f"mine-{door}"), opened.store(f"both-{door}")
    return Mounts({"/memories": mine, "/memories/team": team.read_only(), "/memories/both": both})


def of_library(tree: Mounts) -> Replies:
    return [(reply.text, reply.is_error) for reply in map(tree.execute, COMMANDS)]


def stores_of(tree: Mounts) -> dict[str, MemoryStore]:
    return {point: tree.store_of(point)[0] for point in POINTS}


async def of_client(client: Client) -> Replies:
    names = {tool.name for tool in (await client.list_tools()).tools}
    replies = []
    for each in COMMANDS:
        name = f"memory_{each['command']}"
        if names == {"memory"}:
            replies.append(await reply_of(client, "memory", each))
        elif name in names:
            replies.append(await reply_of(client, name, {key: each[key] for key in each if key != "command"}))
    return replies


@asynccontextmanager
async def over_http(key: Api, door: str, *mounts: str, mode: str = MODES[0]) -> AsyncIterator[Client]:
    query = "".join(f"&mount={quote(mount)}" for mount in mounts)
    async with httpx2.AsyncClient(headers={"authorization": f"Bearer {key.key}"}, timeout=WAIT_S) as http:
        transport = streamable_http_client(f"{key.url}/mcp?store=mine-{door}{query}", http_client=http)
        async with Client(transport, mode=mode) as client:
            yield client


def in_url(door: str) -> tuple[str, str]:
    return f"/memories/team=team-{door}:ro", f"/memories/both=both-{door}"


def answers(opening: AbstractAsyncContextManager[Client]) -> Replies:
    async def run() -> Replies:
        async with opening as client:
            return await of_client(client)

    return asyncio.run(run())


@pytest.fixture
def expected() -> Replies:
    with retentive.open("sqlite://") as opened:
        replies = of_library(filled(opened, "local"))
    assert ("Error: /memories/team//style.md is read-only", True) in replies
    assert sum("[REDACTED:github_token]" in text for text, _ in replies) == 1
    return replies


def test_every_door_answers_as_the_library(api: Api, expected: Replies, tmp_path: Path) -> None:
    """Also mounts of stores on a server, and of one here and others there. One tool takes every command."""
    place = api.place.opened
    with retentive.open(api.url, api_key=api.key) as remote:
        assert of_library(filled(remote, "remote")) == expected
        with retentive.open("sqlite://") as here:
            stores = stores_of(filled(remote, "mixed"))
            assert of_library(Mounts({**stores, "/memories": here.store()})) == expected
        assert answers(connected(filled(remote, "stdio"), one_tool=True)) == expected
    named = [reply for each, reply in zip(COMMANDS, expected, strict=True) if each["command"] != "open"]
    assert answers(connected(filled(place, "tools"))) == named
    filled(place, "http")
    assert answers(over_http(api, "http", *in_url("http"))) == named


def test_a_key_that_only_reads_the_team_gets_the_same_replies(api: Api, expected: Replies) -> None:
    """A read-only mount needs no right to write: the server says that it is read-only, not that the key may not."""
    filled(api.place.opened, "split")
    readers = api.with_key("read", stores=("team-split",))
    writers = api.with_key("read", "write", stores=("mine-split", "both-split"))
    with (
        retentive.open(api.url, api_key=readers.key) as team,
        retentive.open(api.url, api_key=writers.key) as own,
    ):
        tree = Mounts({
            "/memories": own.store("mine-split"),
            "/memories/team": team.store("team-split").read_only(),
            "/memories/both": own.store("both-split"),
        })  # fmt: skip
        assert of_library(tree) == expected


def test_programs_use_mounts_on_a_server_as_here(api: Api) -> None:
    with retentive.open(api.url, api_key=api.key) as remote:
        tree = filled(remote, "programs")
        written = tree.write("/memories/both/a.md", "tea")
        assert (written.path, tree.read("/memories/both/a.md")) == ("/memories/both/a.md", "tea")
        with pytest.raises(ReadOnly, match=r"^/memories/team/style.md is read-only$"):
            tree.append(STYLE, "x")
        with pytest.raises(NotFound, match=r"^there is no memory at /memories/both//none$"):
            tree.load("/memories/both//none")
        paths = ["/memories/both/a.md", "/memories/team/deep/rules.md", STYLE]
        assert [each.path for each in tree.memories()] == paths
        assert {hit.path for hit in tree.search("tea").hits} == {paths[0], paths[1]}
        assert tree.clear().text == "Error: /memories/team is read-only"
        team = tree.store_of("/memories/team")[0]
        for change in (
            lambda: team.batch([{"command": "delete", "path": "/memories/style.md"}]),
            lambda: team.undo("HEAD"),
            lambda: team.change_settings({"list_rows": 1}),
        ):
            with pytest.raises(ReadOnly):
                change()
        assert team.settings().read_only
        free = Mounts({point: store for point, store in stores_of(tree).items() if point != "/memories/team"})
        assert free.clear().text == "All memory cleared"
        assert [each.path for each in tree.memories()] == paths[1:]


@pytest.mark.parametrize("kind", ["local", "remote", "http"])
def test_tools_see_all_mounts(api: Api, kind: str) -> None:
    """Search, resources, history, differences and undo: paths of the tree, whatever store they are in."""
    filled(api.place.opened, kind).create("/memories/both/b.md", "cake\n")

    async def use(client: Client) -> None:
        async def call(name: str, **given: object) -> str:
            text, is_error = await reply_of(client, name, given)
            assert not is_error, text
            return text

        assert "\n/memories/team/deep/rules.md (" in await call("memory_search", query="tea")
        assert "1 of 1 memories below /memories/team" in await call("memory_search", query="tea", path="/memories/team")
        recalled = await call("memory_recall", question="When is tea?", path="/memories/team")
        assert recalled == "/memories/team/deep/rules.md\n  Tea at four.\n"
        (found,) = json.loads(await call("search", query="cake"))["results"]
        assert found["title"] == "both/b.md"
        assert json.loads(await call("fetch", id=found["id"]))["text"] == "cake\n"
        listed = (await client.list_resources()).resources
        assert len(listed) == 1  # not an empty page for the own store without memories
        cursor = (await client.list_resources()).next_cursor
        while cursor is not None:
            page = await client.list_resources(cursor=cursor)
            listed, cursor = [*listed, *page.resources], page.next_cursor
        for wrong in (["/memories/none", "", ""], ["/memories", ""], [None, "", ""]):
            with pytest.raises(MCPError, match="Invalid cursor"):
                await client.list_resources(cursor=base64.urlsafe_b64encode(json.dumps(wrong).encode()).decode())
        uris = [f"memory://mine-{kind}/{name}" for name in ("both/b.md", "team/deep/rules.md", "team/style.md")]
        assert [each.uri for each in listed] == uris
        (content,) = (await client.read_resource(uris[1])).contents
        assert isinstance(content, types.TextResourceContents)
        assert content.text == "Tea at four.\n"
        await call("memory_create", path=PLAN, file_text="plan\n")
        await call("memory_str_replace", path=PLAN, old_str="plan", new_str="plans")
        lines = (await call("memory_history")).splitlines()
        assert [re.split(r" UTC ", line)[1].split(" by ")[0] for line in lines] == [
            f"modified {PLAN}", f"created {PLAN}", "created /memories/both/b.md",
            "created /memories/team/deep/rules.md", f"created {STYLE}",
        ]  # fmt: skip
        ids = [line.rpartition("(")[2].rstrip(")") for line in lines]
        assert f"--- {PLAN}@{ids[1]}\n+++ {PLAN}@{ids[0]}" in await call("memory_diff")
        assert "+Plain words." in await call("memory_diff", change=ids[4])
        assert "+Tea at four." in await call("memory_diff", change="r2", path="/memories/team")
        for name, given, said in (
            ("memory_diff", {"path": "/memories/team/none"}, "/memories/team/none has no changes"),
            ("memory_diff", {"change": "r1"}, "needs the id of a version"),
            ("memory_undo", {}, "needs the id of a version"),
            ("memory_undo", {"change": "r1"}, "needs the id of a version"),
            ("memory_undo", {"change": ids[4]}, ""),  # by somebody else, and read-only
        ):
            text, is_error = await reply_of(client, name, given)
            assert (is_error, said in text) == (True, True), text
        assert await call("memory_undo", change=ids[0]) == f"reverted {PLAN}"
        assert await call("memory_undo", path=PLAN) == f"reverted {PLAN}"
        assert (
            (await client.list_resource_templates())
            .resource_templates[0]
            .uri_template.startswith(f"memory://mine-{kind}/")
        )

    async def run() -> None:
        key = api.with_key("read", "write", act_as=("user:ann",))
        with retentive.open(api.url, api_key=key.key, actor="user:ann") as remote:
            place = remote if kind == "remote" else api.place.opened
            stores = {
                "/memories": place.store(f"mine-{kind}"),
                "/memories/team": place.store(f"team-{kind}").read_only(),
                "/memories/both": place.store(f"both-{kind}"),
            }
            tree = Mounts({point: store.acting_as("user:ann") for point, store in stores.items()})
            async with connected(tree) if kind != "http" else over_http(key, kind, *in_url(kind)) as client:
                await use(client)

    asyncio.run(run())


@pytest.mark.parametrize("kind", ["local", "remote", "http"])
def test_a_change_in_a_mounted_store_is_told(api: Api, kind: str) -> None:
    """A change of the team's by somebody else, with the path of the tree. What the tree hides is not told."""
    tree = told = filled(api.place.opened, kind)

    def change() -> None:
        tree.store_of("/memories")[0].create("/memories/team/hidden.md", "covered by the mount")
        api.place.opened.store(f"team-{kind}").append("/memories/style.md", "more")

    async def run() -> list[str]:
        heard: list[str] = []
        async with over_http(api, kind, *in_url(kind)) if kind == "http" else connected(told) as client:
            uris = [f"memory://mine-{kind}/team/{name}" for name in ("style.md", "hidden.md")]
            async with client.listen(resource_subscriptions=uris) as events:
                await asyncio.to_thread(change)
                async with asyncio.timeout(WAIT_S):
                    async for event in events:
                        heard.append(str(getattr(event, "uri", type(event).__name__)))
                        return heard
        return heard

    with retentive.open(api.url, api_key=api.key) as remote:
        if kind == "remote":
            stores = {point: remote.store(store.id) for point, store in stores_of(tree).items()}
            told = Mounts(stores)
        assert asyncio.run(run()) == [f"memory://mine-{kind}/team/style.md"]


@pytest.mark.long
@pytest.mark.parametrize("where", ["on both", "here", "on a server"])
def test_a_process_serves_mounts(tmp_path: Path, expected: Replies, where: str) -> None:
    """`retentive mcp --mount` at a location, at the URL of a server, and of one store here and others there."""
    path = f"sqlite:///{tmp_path}/memory.db"
    with retentive.open(path) as opened, serving(opened) as api:
        filled(opened, "process")
        at = {"here": path, "on a server": api.url, "on both": f"sqlite:///{tmp_path}/own.db"}[where]
        url = f"{api.url}#" if where == "on both" else ""
        mounts = ["--mount", f"team={url}team-process:ro", "--mount", f"/memories/both={url}both-process"]
        key = api.with_key("read", "write", "admin", act_as=("user:*",)).key
        command = StdioServerParameters(
            command=RETENTIVE,
            args=["--at", at, "--store", "mine-process", "--actor", "user:ann", "mcp", "--one-tool", *mounts],
            env=environment(tmp_path) | {"RETENTIVE_API_KEY": key},
        )
        assert answers(Client(command, mode=MODES[0])) == expected
        command.args[-4:] = ["--mount", f"team={url}typo:ro"]
        failed = process(tmp_path, *command.args, RETENTIVE_API_KEY=key)
        assert "there is no memory store 'typo'" in failed.err
        assert "typo" not in [store.key for store in opened.stores()]


FOREIGN = ["memstore_" + "0" * 32, "memstore_system", "default", "xtheirs", "id of default", "id of xtheirs"]


@pytest.mark.parametrize("kind", ["a key for stores", "a member of a group"])
def test_a_foreign_store_is_mounted_as_an_unknown_one(api: Api, kind: str) -> None:
    """In the URL of MCP, and for a command with the mount point of the store."""
    opened = api.place.opened
    ids = {"default": opened.store().id, "xtheirs": opened.store("xtheirs", workspace="wrkspc_theirs").id}
    mine = opened.store("mine")
    if kind == "a key for stores":
        key = api.with_key("read", "write", stores=("mine", "x*"))
    else:
        grants = [{"role": "write", "stores": ["mine", "x*"]}]
        group = {"name": "us", "members": ["user:ann"], "grants": grants}
        assert api.post("/v1/organizations/groups", group).status == 200
        key = api.with_key(principal="user:ann")

    def asked(store: str, mode: str) -> tuple[object, ...]:
        named = ids.get(store.removeprefix("id of "), "") if store.startswith("id of ") else store
        in_url = key.post(f"/mcp?store=mine&mount=/memories/team={named}{mode}", {})
        body = {"command": {"command": "view", "path": "/memories/team"}, "mount": "/memories/team"}
        found = key.post(f"/v1/memory_stores/{ids.get(store, named)}/commands", body | {"read_only": mode == ":ro"})
        bodies = [{**each.body, "request_id": ""} for each in (in_url, found)]
        return in_url.status, found.status, *bodies

    for mode in ("", ":ro"):
        unknown = asked("none", mode)
        assert unknown[:2] == (404, 404)
        for store in FOREIGN:
            assert asked(store, mode) == unknown, store
    seen = key.post(f"/v1/memory_stores/{mine.id}/commands", {"command": {"command": "view", "path": "/memories"}})
    assert seen.status == 200


def test_rights_in_a_mounted_store_are_those_of_the_caller(api: Api) -> None:
    """Without `:ro`, what the caller may not write is read-only; nothing is mounted that it may not read."""
    filled(api.place.opened, "rights")
    reader = api.with_key("read", principal="user:ann", stores=("team-rights",))
    grants = [{"role": "write", "stores": ["mine-rights"]}, {"role": "read", "stores": ["team-rights"]}]
    group = {"name": "us", "members": ["user:bob"], "grants": grants}
    assert api.post("/v1/organizations/groups", group).status == 200
    bob = api.with_key(principal="user:bob")

    async def run() -> list[tuple[str, bool]]:
        async with over_http(bob, "rights", "/memories/team=team-rights") as client:
            return [
                await reply_of(client, "memory_create", {"path": path, "file_text": "x"})
                for path in ("/memories/a.md", "/memories/team/a.md")
            ]

    assert asyncio.run(run()) == [
        ("File created successfully at: /memories/a.md", False),
        ("Error: /memories/team/a.md is read-only", True),
    ]
    assert reader.post("/mcp?store=team-rights&mount=/memories/x=mine-rights", {}).status == 404
    writer = api.with_key("write")
    assert writer.post("/mcp?store=mine-rights&mount=/memories/team=team-rights", {}).status == 403


@pytest.mark.parametrize(
    ("mounts", "said"),
    [
        (["team"], "a mount must be POINT=KEY or POINT=KEY:ro"),
        (["/memories/team="], "a mount must be POINT=KEY or POINT=KEY:ro"),
        (["/memories/team=https://x"], "a mount must be POINT=KEY or POINT=KEY:ro"),
        (["/memories/team=https://x#team"], "must be a memory store of this server"),
        (["/memories=mine"], "/memories cannot be a mount point"),
        (["/memories/../x=mine"], "would escape /memories directory"),
        (["/etc=mine"], "Path must start with /memories"),
        (["/memories/a=mine", "/memories/a/=mine"], "have the mount point /memories/a"),
        (["/memories/a=mine", "a=mine"], "two mounts have the same mount point"),
        ([f"/memories/{n}=mine" for n in range(33)], "at most 32 memory stores can be mounted"),
    ],
)
def test_a_malformed_mount_is_refused(tmp_path: Path, mounts: list[str], said: str) -> None:
    with retentive.open("sqlite://") as opened, serving(opened) as api:
        opened.store("mine")
        query = "".join(f"&mount={quote(mount)}" for mount in mounts)
        found = api.post(f"/mcp?store=mine{query}", {})
    assert (found.status, said in found.error["message"]) == (400, True), found.error


def test_an_undo_without_arguments_is_of_the_only_writable_store() -> None:
    """A repeated call answers as the first one, and undoes nothing more."""
    meta = {"claudecode/toolUseId": "toolu_01A09q90qw90lq917835lq9a"}
    with retentive.open("sqlite://", actor="user:ann") as opened:
        tree = Mounts({"/memories": opened.store("me"), "/memories/team": opened.store("team").read_only()})
        opened.store("team").create("/memories/a.md", "tea")
        for path in ("/memories/a.md", "/memories/b.md"):
            tree.create(path, "tea")

        async def run() -> list[tuple[str, bool]]:
            async with connected(tree) as client:
                return [await reply_of(client, "memory_undo", {}, meta=meta) for _ in range(2)]

        assert asyncio.run(run()) == [("deleted /memories/b.md", False)] * 2
        assert [each.path for each in tree.memories()] == ["/memories/a.md", "/memories/team/a.md"]
