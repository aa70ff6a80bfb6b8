"""`memory_server`: the tools reach Claude Code through the bridge of the SDK."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from claude_agent_sdk._internal.sdk_mcp_bridge import SdkMcpBridge

import retentive
from retentive.claude_agent import memory_server

INITIALIZE = {
    "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "claude-code", "version": "2"},
}  # fmt: skip


async def conversation(server: Any, *calls: tuple[str, Mapping[str, object]]) -> list[Any]:
    """Answers to requests that are sent as Claude Code sends them."""
    bridge = SdkMcpBridge("memory", server["instance"])
    answers = []
    try:
        for number, (method, params) in enumerate([("initialize", INITIALIZE), *calls]):
            request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            answers.append(await bridge.handle(request))
            if method == "initialize":
                await bridge.handle({"jsonrpc": "2.0", "method": "notifications/initialized"})
    finally:
        await bridge.aclose()
    return answers[1:]


def call(name: str, **arguments: object) -> tuple[str, Mapping[str, object]]:
    return "tools/call", {"name": name, "arguments": arguments}


@pytest.mark.parametrize("one_tool", [False, True])
def test_the_tools_change_the_store(one_tool: bool) -> None:
    with retentive.open("sqlite://") as opened:
        store = opened.store()
        server = memory_server(store, actor="session:s1", one_tool=one_tool)
        create = {"path": "/memories/a.md", "file_text": "a\n"}
        made = call("memory", command="create", **create) if one_tool else call("memory_create", **create)
        listed, created, again = asyncio.run(conversation(server, ("tools/list", {}), made, made))
        names = {tool["name"] for tool in listed["result"]["tools"]}
        assert made[1]["name"] in names
        assert created["result"]["content"][0]["text"] == "File created successfully at: /memories/a.md"
        assert again["result"]["isError"]
        (version,) = store.versions()
        assert str(version.actor) == "session:s1"


def test_mounts_are_one_tree() -> None:
    with retentive.open("sqlite://") as opened:
        team = opened.store("team")
        team.create("/memories/style.md", "Plain words.\n")
        tree = retentive.Mounts({"/memories": opened.store("me"), "/memories/team": team.read_only()})
        server = memory_server(tree, actor="session:s1")
        paths = ("/memories/a.md", "/memories/team/a.md")
        made = [call("memory_create", path=path, file_text="a\n") for path in paths]
        texts = [each["result"]["content"][0]["text"] for each in asyncio.run(conversation(server, *made))]
        assert texts == [f"File created successfully at: {paths[0]}", f"Error: {paths[1]} is read-only"]
        assert [str(each.actor) for each in opened.store("me").versions()] == ["session:s1"]
