"""`tool_result` and `TOOL`, for agent loops that applications write themselves."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from retentive import TOOL, InvalidInput, MemoryStore, tool_result
from retentive.integrations.anthropic import MemoryTool

VIEW = {"command": "view", "path": "/memories"}


def block(given: object, name: object = "memory", block_id: object = "toolu_1") -> dict[str, Any]:
    return {"type": "tool_use", "id": block_id, "name": name, "input": given}


def test_the_tools_entry_matches_the_documentation() -> None:
    assert TOOL == {"type": "memory_20250818", "name": "memory"}


def test_blocks_can_be_objects_of_any_client(store: MemoryStore) -> None:
    fields = block(VIEW)
    assert tool_result(store, SimpleNamespace(**fields)) == tool_result(store, fields)


@pytest.mark.parametrize("name", ["bash", "", "Memory", None, 5, "x" * 9_000, "\n\u202e"])
def test_a_call_of_another_tool_gets_an_error(store: MemoryStore, name: object) -> None:
    result = tool_result(store, block(VIEW, name))
    assert result["content"].startswith("Error: ")
    assert "memory" in result["content"]
    assert result["is_error"] is True
    assert len(result["content"]) < 2_300
    assert not set("\n\u202e") & set(result["content"])


@pytest.mark.parametrize("given", [None, "view", [], 5, {}, {"command": None}])
def test_invalid_input_gets_an_error(store: MemoryStore, given: object) -> None:
    result = tool_result(store, block(given))
    assert result["content"].startswith("Error: ")
    assert result["is_error"] is True


def test_a_block_without_an_id_raises(store: MemoryStore) -> None:
    for wrong in (None, {}, "tool_use", block(VIEW, block_id=None), block(VIEW, block_id=5), SimpleNamespace()):
        with pytest.raises(InvalidInput):
            tool_result(store, wrong)


@pytest.mark.parametrize(("run", "lines"), [(None, 3), ("conversation 7, turn 3", 1)])
def test_an_id_that_models_reuse_counts_only_in_a_run(run: str | None, lines: int, store: MemoryStore) -> None:
    store.create("/memories/a", "")
    insert = {"command": "insert", "path": "/memories/a", "insert_line": 0, "insert_text": "x"}
    tool = MemoryTool(store, actor="session:s", run=run)
    call = block(insert, block_id="call_0")
    results = [tool.result(call), tool.result(call), tool_result(store, call, actor="session:s", run=run)]
    assert results == [results[0]] * 3
    assert store.read("/memories/a") == "x\n" * lines
