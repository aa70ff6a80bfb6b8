"""Several stores as one tree, in every integration that accepts a memory store."""

from __future__ import annotations

import pytest
from anthropic.lib.tools import ToolError

from retentive import AsyncMemoryTool, InvalidInput, MemoryTool

from .trees import HEADER, tree

TEAM = "/memories/team"
CREATE: dict[str, object] = {"command": "create", "path": "/memories/team/a", "file_text": "x"}
VIEW: dict[str, object] = {"command": "view", "path": "/memories"}
ROWS = ("1B\t/memories", "0B\t/memories/ro/", "1B\t/memories/team/", "1B\t/memories/team/a")
ACROSS = (
    "Error: /memories/team/a cannot be renamed to /memories/a: the paths are in different mounted memory stores. "
    "Create it at the new path, then delete the old one."
)
MOUNTED = (
    "Error: /memories/team cannot be deleted: a memory store is mounted at /memories/team. "
    "Delete the memories in it instead."
)
NO_PATH = "Error: Missing `path` parameter of the view command. It should be a string, /memories or a path below it"
STORY: tuple[tuple[dict[str, object], str], ...] = (
    (CREATE, "File created successfully at: /memories/team/a"),
    (CREATE, "Error: File /memories/team/a already exists"),
    (VIEW, "\n".join([HEADER.format("/memories"), *ROWS])),
    (CREATE | {"path": "/memories/ro/a"}, "Error: /memories/ro/a is read-only"),
    ({"command": "rename", "old_path": "/memories/team/a", "new_path": "/memories/a"}, ACROSS),
    ({"command": "delete", "path": "/memories/team"}, MOUNTED),
    ({"command": "view"}, NO_PATH),
    ({"command": "delete", "path": "/memories/team/a"}, "Successfully deleted /memories/team/a"),
)


def test_the_tool_of_the_sdk() -> None:
    with tree(TEAM, "/memories/ro", read_only=("/memories/ro",)) as at:
        for tool in (MemoryTool(at.mounts, actor="user:ann"), MemoryTool(store=at.mounts, actor="user:ann")):
            for command, expected in STORY:
                if not expected.startswith("Error: "):
                    assert tool.call(command) == expected
                    continue
                with pytest.raises(ToolError) as caught:
                    tool.call(command)
                assert caught.value.content == expected
            assert tool.tree is at.mounts
            tool.close()
        assert {str(version.actor) for version in at.stores[TEAM].versions()} == {"user:ann"}
        assert at.mounts.execute(VIEW).is_error is False  # the tool did not close this store


@pytest.mark.parametrize("name", ["base_path", "memory_root", "store"])
def test_an_attribute_of_a_single_store_is_an_attribute_error(name: str) -> None:
    with tree(TEAM) as at:
        for tool in (MemoryTool(at.mounts), AsyncMemoryTool(at.mounts)):
            with pytest.raises(AttributeError):
                getattr(tool, name)


def test_mounting_one_place_twice_is_refused() -> None:
    with tree(TEAM) as at, pytest.raises(InvalidInput):
        MemoryTool(at.mounts, base_path="memory")
