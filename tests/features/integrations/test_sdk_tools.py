"""The tools for the official SDK can replace its local memory tool without other changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from anthropic.lib.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
from anthropic.tools import BetaLocalFilesystemMemoryTool
from anthropic.types.beta import (
    BetaMemoryTool20250818CreateCommand,
    BetaMemoryTool20250818DeleteCommand,
    BetaMemoryTool20250818InsertCommand,
    BetaMemoryTool20250818RenameCommand,
    BetaMemoryTool20250818StrReplaceCommand,
    BetaMemoryTool20250818ViewCommand,
)

import retentive
from retentive import AsyncMemoryTool, InvalidInput, MemoryTool, NotFound, RetentiveError, Usage
from support.places import OpenPlace

STORY: tuple[tuple[str, Callable[..., Any], dict[str, Any]], ...] = (
    ("create", BetaMemoryTool20250818CreateCommand, {"path": "/memories/a", "file_text": "one\n"}),
    ("str_replace", BetaMemoryTool20250818StrReplaceCommand, {"path": "/memories/a", "old_str": "one", "new_str": "1"}),
    ("insert", BetaMemoryTool20250818InsertCommand, {"path": "/memories/a", "insert_line": 1, "insert_text": "two"}),
    ("view", BetaMemoryTool20250818ViewCommand, {"path": "/memories/a", "view_range": [2, 2]}),
    ("rename", BetaMemoryTool20250818RenameCommand, {"old_path": "/memories/a", "new_path": "/memories/b"}),
    ("delete", BetaMemoryTool20250818DeleteCommand, {"path": "/memories/b"}),
)
REPLIES = [
    "File created successfully at: /memories/a",
    "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n     1\t1",
    "The file /memories/a has been edited.",
    "Here's the content of /memories/a with line numbers:\n     2\ttwo",
    "Successfully renamed /memories/a to /memories/b",
    "Successfully deleted /memories/b",
]


def test_the_tools_have_the_base_classes_of_the_sdk(place: str) -> None:
    tool, async_tool = MemoryTool(place), AsyncMemoryTool(place)
    assert isinstance(tool, BetaAbstractMemoryTool)
    assert isinstance(async_tool, BetaAsyncAbstractMemoryTool)
    for one in (tool, async_tool):
        assert one.name == "memory"
        assert one.to_dict() == retentive.TOOL == {"type": "memory_20250818", "name": "memory"}
        one.close()


def test_base_path_is_a_drop_in_for_the_local_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The argument, the attributes and the paths on disk are the same. Files of the local tool become memories."""
    monkeypatch.chdir(tmp_path)
    before = BetaLocalFilesystemMemoryTool(base_path="./memory")
    before.call({"command": "create", "path": "/memories/d/notes.md", "file_text": "kept\n"})
    tool = MemoryTool(base_path="./memory")
    assert tool.call({"command": "view", "path": "/memories/d/notes.md"}).endswith("\n     1\tkept")
    assert (tool.base_path.resolve(), tool.memory_root.resolve()) == (
        before.base_path.resolve(),
        before.memory_root.resolve(),
    )
    tool.call({"command": "create", "path": "/memories/new.md", "file_text": "new\n"})
    assert (before.memory_root / "new.md").read_text() == "new\n"
    assert tool.clear_all_memory() == "All memory cleared"
    assert list(tool.memory_root.iterdir()) == []
    assert "kept\n" in {tool.store.version_text(version.id) for version in tool.store.versions()}
    tool.close()


def test_base_path_is_always_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A URL is a mistake there, and creates nothing."""
    monkeypatch.chdir(tmp_path)
    for url in ("sqlite:/memory", "sqlite:///memory.db"):
        with pytest.raises(InvalidInput, match="looks like a URL"):
            MemoryTool(base_path=url)
    assert list(tmp_path.iterdir()) == []
    tool = MemoryTool(base_path="notes:2026")
    tool.call({"command": "create", "path": "/memories/a", "file_text": "x"})
    assert (tmp_path / "notes:2026" / "memories" / "a").read_text() == "x"
    tool.close()


def test_the_six_methods_accept_sdk_objects(place: str) -> None:
    tool = MemoryTool(place)
    replies = [getattr(tool, name)(kind(command=name, **fields)) for name, kind, fields in STORY]
    assert replies == REPLIES
    tool.close()


@pytest.mark.anyio
async def test_the_async_tool_behaves_the_same(place: str) -> None:
    tool = AsyncMemoryTool(place)
    replies = [await getattr(tool, name)(kind(command=name, **fields)) for name, kind, fields in STORY]
    assert replies == REPLIES
    assert [await tool.call({"command": name, **fields}) for name, _, fields in STORY] == REPLIES
    assert [await tool.execute(kind(command=name, **fields)) for name, kind, fields in STORY] == REPLIES
    with pytest.raises(ToolError, match="does not exist"):
        await tool.call({"command": "view", "path": "/memories/b"})
    await tool.call({"command": "create", "path": "/memories/a", "file_text": "x"})
    assert await tool.clear_all_memory() == "All memory cleared"
    assert tool.store.usage() == Usage(0, 0)
    tool.close()


def test_an_error_reply_raises_tool_error(place: str) -> None:
    tool = MemoryTool(place)
    with pytest.raises(ToolError) as caught:
        tool.call({"command": "delete", "path": "/memories"})
    assert caught.value.content == "Error: Cannot delete the /memories directory itself"
    assert str(caught.value) == caught.value.content
    tool.close()


def test_a_closed_tool_says_so(place: str) -> None:
    """Trying again, as after other failures of the storage, would never end."""
    tool = MemoryTool(place)
    tool.close()
    tool.close()
    for command in ({"command": "view", "path": "/memories"}, {"command": "delete", "path": "/memories/a"}):
        with pytest.raises(ToolError) as caught:
            tool.call(command)
        assert caught.value.content == "Error: The memory store was closed; trying again does not help."
    with pytest.raises(RetentiveError, match="the location is closed; open it again") as raised:
        tool.store.read("/memories/a")
    assert (raised.value.code, raised.value.retryable) == ("closed", False)


def test_the_tool_of_an_erased_store_says_so(place: str, open_place: OpenPlace) -> None:
    opened = open_place(place)
    tool = MemoryTool(opened, store="user-42")
    opened.erase("user-42")
    for command in ({"command": "view", "path": "/memories"}, {"command": "delete", "path": "/memories/a"}):
        with pytest.raises(ToolError) as caught:
            tool.call(command)
        assert caught.value.content == "Error: The memory store was erased; trying again does not help."
    with pytest.raises(NotFound, match=r"no memory store|was erased"):
        tool.store.read("/memories/a")


def test_a_key_creates_a_store_and_an_id_must_exist(lasting_place: str) -> None:
    tool = MemoryTool(lasting_place, store="user-42")
    tool.call({"command": "create", "path": "/memories/a", "file_text": "x"})
    same = MemoryTool(lasting_place, store=tool.store.id)
    assert same.store.key == "user-42"
    assert same.call({"command": "view", "path": "/memories/a"}).endswith("x")
    with pytest.raises(NotFound):
        MemoryTool(lasting_place, store="memstore_" + "0" * 32)
    for one in (tool, same):
        one.close()


def test_execute_accepts_unvalidated_sdk_objects(place: str) -> None:
    """The runner does not validate the objects: fields can be missing, unknown or of the wrong type."""
    tool = MemoryTool(place)
    assert [tool.execute(kind(command=name, **fields)) for name, kind, fields in STORY] == REPLIES
    tool.call({"command": "create", "path": "/memories/a", "file_text": "ab"})
    loose = BetaMemoryTool20250818StrReplaceCommand.construct(command="str_replace", path="/memories/a", old_str="a")
    assert tool.str_replace(loose).endswith("\n     1\tb")
    aliased = BetaMemoryTool20250818InsertCommand.construct(
        command="insert", path="/memories/a", insert_line="0", new_str="x"
    )
    assert tool.insert(aliased) == "The file /memories/a has been edited."
    wrong = BetaMemoryTool20250818ViewCommand.construct(command="view", path=["/memories"])
    with pytest.raises(ToolError, match="`path`"):
        tool.view(wrong)
    tool.close()
