"""`source` and `session` mean the same everywhere: each integration and operation records them with its change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from anthropic import Anthropic, AsyncAnthropic
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import retentive
from retentive import AsyncMemoryTool, InvalidInput, MemoryStore, MemoryTool, Mounts, aio, tool_result
from retentive.agent import Agent, AsyncAgent, function_tool
from retentive.integrations import langchain, pydantic_ai
from retentive.testing.scripted_claude import Call, Script, Turn, scripted_claude
from retentive.transfer.import_files import Import
from retentive.transfer.sources import DirectorySource
from support.commands import create, delete

A = "/memories/team/a"
ORIGIN = {"source": "web:https://example.org", "session": "run-1"}


class Scene:
    """A tree of two stores; `team`, mounted in it, has a memory with a sensitive value and a history."""

    def __init__(self, root: MemoryStore, team: MemoryStore, files: Path) -> None:
        self.tree = Mounts({"/memories": root, "/memories/team": team})
        self.team = team
        self.files = files
        team.execute(create("/memories/a", "password = Hunter2$hunter2"))
        team.create("/memories/b", "one")
        team.create("/memories/c", "one")
        self.oldest = team.load("/memories/c")[0].version_id
        team.write("/memories/c", "two", if_version=self.oldest)
        self.newest = team.load("/memories/c")[0].version_id


def block(given: dict[str, Any]) -> dict[str, Any]:
    return {"type": "tool_use", "id": "toolu_1", "name": "memory", "input": given}


SCRIPT = Script((Turn((Call(delete(A)),)), Turn(("Done.",))), when="go")


def run_agent(scene: Scene, **origin: Any) -> None:
    with scripted_claude(SCRIPT) as server, Anthropic(base_url=server.url, api_key="none") as client:
        Agent(client, memory=scene.tree, **origin).ask("go")
    assert server.failures == []


async def run_async_agent(scene: Scene, **origin: Any) -> None:
    with scripted_claude(SCRIPT) as server:
        async with AsyncAnthropic(base_url=server.url, api_key="none") as client:
            await AsyncAgent(client, memory=scene.tree, **origin).ask("go")
    assert server.failures == []


async def run_pydantic_ai(scene: Scene, tool: Any) -> None:
    def model(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        done = len(messages) > 1
        return ModelResponse([TextPart("done") if done else ToolCallPart("memory", delete(A))])

    await PydanticAgent(FunctionModel(model), **tool).run("go")


def of_run(origin: dict[str, Any]) -> dict[str, Any]:
    """The arguments as functions of the context of a run."""
    return {name: lambda _, value=value: value for name, value in origin.items()}


CHANGES: dict[str, Callable[..., Any]] = {
    "execute": lambda scene, **origin: scene.team.execute(delete("/memories/a"), **origin),
    "aio.execute": lambda scene, **origin: asyncio.run(aio.execute(scene.team, delete("/memories/a"), **origin)),
    "create": lambda scene, **origin: scene.team.create("/memories/n", "x", **origin),
    "write": lambda scene, **origin: scene.team.write("/memories/n", "x", **origin),
    "append": lambda scene, **origin: scene.team.append("/memories/b", "x", **origin),
    "edit": lambda scene, **origin: scene.team.edit("/memories/b", "one", "x", **origin),
    "insert": lambda scene, **origin: scene.team.insert("/memories/b", 0, "x", **origin),
    "delete": lambda scene, **origin: scene.team.delete("/memories/b", **origin),
    "rename": lambda scene, **origin: scene.team.rename("/memories/b", "/memories/n", **origin),
    "Mounts.write": lambda scene, **origin: scene.tree.write(A, "x", **origin),
    "undo_by": lambda scene, **origin: scene.team.undo_by("user:ann", **origin),
    "clear": lambda scene, **origin: scene.team.clear(**origin),
    "scan": lambda scene, **origin: scene.team.scan(redact=True, **origin),
    "restore": lambda scene, **origin: scene.team.history.restore("/memories/c", scene.oldest, **origin),
    "undo": lambda scene, **origin: scene.team.history.undo(scene.newest, **origin),
    "Mounts.execute": lambda scene, **origin: scene.tree.execute(delete(A), **origin),
    "Mounts.clear": lambda scene, **origin: scene.tree.clear(**origin),
    "aio.clear": lambda scene, **origin: asyncio.run(aio.clear(scene.tree, **origin)),
    "Import": lambda scene, **origin: list(
        Import(scene.team, under="/memories/in", **origin).run(DirectorySource(str(scene.files)))
    ),
    "tool_result": lambda scene, **origin: tool_result(scene.tree, block(delete(A)), **origin),
    "MemoryTool": lambda scene, **origin: MemoryTool(scene.tree, **origin).call(delete(A)),
    "MemoryTool.clear_all_memory": lambda scene, **origin: MemoryTool(scene.tree, **origin).clear_all_memory(),
    "AsyncMemoryTool": lambda scene, **origin: asyncio.run(AsyncMemoryTool(scene.tree, **origin).call(delete(A))),
    "AsyncMemoryTool.clear_all_memory": lambda scene, **origin: asyncio.run(
        AsyncMemoryTool(scene.tree, **origin).clear_all_memory()
    ),
    "function_tool": lambda scene, **origin: function_tool(scene.tree, **origin).reply(delete(A)),
    "Agent": run_agent,
    "AsyncAgent": lambda scene, **origin: asyncio.run(run_async_agent(scene, **origin)),
    "LangChain": lambda scene, **origin: langchain.memory_tool(scene.tree, **origin).invoke(delete(A)),
    "LangChain, of the run": lambda scene, **origin: langchain.memory_tool(scene.tree, **of_run(origin)).invoke(
        delete(A)
    ),
    "LangChain, async": lambda scene, **origin: asyncio.run(
        langchain.memory_tool(scene.tree, **origin).ainvoke(delete(A))
    ),
    "Pydantic AI": lambda scene, **origin: asyncio.run(
        run_pydantic_ai(scene, {"tools": [pydantic_ai.memory_tool(scene.tree, **origin)]})
    ),
    "Pydantic AI, of the run": lambda scene, **origin: asyncio.run(
        run_pydantic_ai(scene, {"tools": [pydantic_ai.memory_tool(scene.tree, **of_run(origin))]})
    ),
    "MemoryCapability": lambda scene, **origin: asyncio.run(
        run_pydantic_ai(scene, {"capabilities": [pydantic_ai.MemoryCapability(scene.tree, native=False, **origin)]})
    ),
}


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    files = tmp_path / "files"
    files.mkdir()
    (files / "f.md").write_text("imported")
    with retentive.open("sqlite://", actor="user:ann", sensitive="off") as place:
        yield Scene(place.store("root"), place.store("team"), files)


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_records_its_origin(name: str, scene: Scene) -> None:
    last = scene.team.versions(limit=1)[0].id
    CHANGES[name](scene, **ORIGIN)
    made = [version.provenance for version in scene.team.versions() if version.id > last]
    assert made
    assert {(found.source, found.session) for found in made} == {(ORIGIN["source"], ORIGIN["session"])}


@pytest.mark.parametrize("invalid", [{"source": "a\nb"}, {"session": ""}], ids=["source", "session"])
@pytest.mark.parametrize("name", [name for name in CHANGES if "of the run" not in name])
def test_an_invalid_origin_is_refused_and_changes_nothing(name: str, invalid: dict[str, str], scene: Scene) -> None:
    before = {memory.path for memory in scene.team.memories()}
    with pytest.raises(InvalidInput, match=r"a source must|a session"):
        CHANGES[name](scene, **invalid)
    assert {memory.path for memory in scene.team.memories() if "/p/" not in memory.path} == before


@pytest.mark.parametrize("given", [{"command": "nothing"}, {"command": "delete", "path": "/memories/team"}])
def test_an_invalid_origin_of_a_refused_command_raises_too(given: dict[str, str], scene: Scene) -> None:
    with pytest.raises(InvalidInput, match="a source must"):
        scene.tree.execute(given, source="")
