"""One call of each tool, for every transport and revision."""

from __future__ import annotations

import json

import pytest
from mcp import Client, MCPError, types

from support.mcp_clients import reply_of

A, B = "/memories/a.md", "/memories/b.md"


READ_ONLY = {"memory_view", "memory_search", "memory_recall", "memory_history", "memory_diff", "search", "fetch"}


async def use_every_tool(client: Client) -> None:
    """Call each tool once on an empty store named `default`, and read the result as a resource."""
    used = set()

    async def call(name: str, **arguments: object) -> str:
        used.add(name)
        text, is_error = await reply_of(client, name, arguments)
        assert not is_error, text
        return text

    assert await call("memory_create", path=A, file_text="tea\ncake\n") == f"File created successfully at: {A}"
    assert (await call("memory_view", path=A)).endswith("     1\ttea\n     2\tcake")
    assert "     1\tcoffee" in await call("memory_str_replace", path=A, old_str="tea", new_str="coffee")
    assert await call("memory_insert", path=A, insert_line=0, insert_text="drinks") == f"The file {A} has been edited."
    assert (await call("memory_diff")).endswith("+drinks\n coffee\n cake")
    assert await call("memory_undo") == f"reverted {A}"
    assert await call("memory_rename", old_path=A, new_path=B) == f"Successfully renamed {A} to {B}"
    assert "1 of 1 memories" in await call("memory_search", query="coffee")
    recalled = await call("memory_recall", question="When is coffee?", budget_tokens=50)
    assert recalled == f"{B}\n  coffee\n  cake\n"
    (found,) = json.loads(await call("search", query="coffee"))["results"]
    assert found | {"id": ""} == {"id": "", "title": "b.md", "url": "memory://default/b.md"}
    assert json.loads(await call("fetch", id=found["id"]))["text"] == "coffee\ncake\n"
    (content,) = (await client.read_resource(found["url"])).contents
    assert isinstance(content, types.TextResourceContents)
    assert content.text == "coffee\ncake\n"
    assert await call("memory_delete", path=B) == f"Successfully deleted {B}"
    history = (await call("memory_history")).splitlines()
    assert [line.split()[4:6] for line in history] == [
        ["deleted", B], ["modified", B], ["modified", A], ["modified", A], ["modified", A], ["created", A],
    ]  # fmt: skip
    assert used == {tool.name for tool in (await client.list_tools()).tools}
    await _mistakes(client)


async def _mistakes(client: Client) -> None:
    """A mistake of the model is a result; an unknown tool or resource is an error of the protocol."""
    assert await reply_of(client, "memory_view", {"path": A}) == (
        f"The path {A} does not exist. Please provide a valid path.",
        True,
    )
    for given in ({}, {"question": "tea", "budget_tokens": 49}, {"question": "tea", "path": 1}):
        assert (await reply_of(client, "memory_recall", given))[1]
    for wrong in (client.call_tool("memory_open", {}), client.read_resource("memory://default/a.md")):
        with pytest.raises(MCPError) as error:
            await wrong
        assert error.value.code == types.INVALID_PARAMS
