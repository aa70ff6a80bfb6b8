"""The reference MCP memory server (npm), over standard input and output. A note is an entity, a line an observation."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from workloads.adapters.base import Store, System
from workloads.adapters.mcp_client import McpClient

if TYPE_CHECKING:
    from collections.abc import Mapping

SYSTEMS = (
    System(
        name="MCP server-memory",
        adapter="mcp_memory",
        npm=("@modelcontextprotocol/server-memory",),
        durable="no sync",
        history="none",
        precondition="none",
    ),
)
SCRIPT = "node_modules/@modelcontextprotocol/server-memory/dist/index.js"


class McpMemoryStore(Store):
    """A knowledge graph in one file."""

    def __init__(self, folder: str) -> None:
        script = str(Path(os.environ["WORKLOADS_NPM"]) / SCRIPT)
        self._client = McpClient(["node", script], {"MEMORY_FILE_PATH": str(Path(folder, "memory.jsonl").resolve())})

    def fill(self, notes: Mapping[str, str]) -> None:  # noqa: D102
        self._client.tool("create_entities", entities=[entity(key, text) for key, text in notes.items()])

    def create(self, key: str, text: str) -> None:  # noqa: D102
        self._client.tool("create_entities", entities=[entity(key, text)])

    def read(self, key: str) -> str | None:  # noqa: D102
        found = self._client.tool("open_nodes", names=[key])["entities"]
        assert isinstance(found, list)
        return "\n".join(found[0]["observations"]) if found else None

    def append(self, key: str, line: str) -> None:  # noqa: D102
        self._client.tool("add_observations", observations=[{"entityName": key, "contents": [line]}])

    def replace(self, key: str, text: str) -> None:  # noqa: D102
        self.delete(key)
        self.create(key, text)

    def delete(self, key: str) -> None:  # noqa: D102
        self._client.tool("delete_entities", entityNames=[key])

    def names(self) -> list[str]:
        """All names; the only listing is the whole graph."""
        found = self._client.tool("read_graph")["entities"]
        assert isinstance(found, list)
        return [str(each["name"]) for each in found]

    def close(self) -> None:  # noqa: D102
        self._client.close()


def entity(key: str, text: str) -> dict[str, object]:
    """Entity of a note."""
    return {"name": key, "entityType": "note", "observations": text.rstrip("\n").split("\n")}


def open_store(_system: str, folder: str, _address: str) -> Store:
    """Open the store in a folder."""
    return McpMemoryStore(folder)
