"""The reference MCP memory server (npm), over standard input and output. A note is an entity, a line an observation."""

from __future__ import annotations

import json
import os
import subprocess
from itertools import count
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from workloads.adapters.base import Store, System

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
    """A server with one client, which sends one request at a time."""

    def __init__(self, folder: str) -> None:
        self._numbers = count(1)
        self._lock = Lock()
        self._server = subprocess.Popen(
            ["node", str(Path(os.environ["WORKLOADS_NPM"]) / SCRIPT)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=os.environ | {"MEMORY_FILE_PATH": f"{folder}/memory.jsonl"},
        )
        client = {"name": "workloads", "version": "1"}
        self._ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def _send(self, message: Mapping[str, object]) -> None:
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps(message) + "\n")
        self._server.stdin.flush()

    def _ask(self, method: str, params: Mapping[str, object]) -> dict[str, object]:
        assert self._server.stdout is not None
        with self._lock:
            number = next(self._numbers)
            self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            for line in self._server.stdout:
                answer = json.loads(line)
                if answer.get("id") == number:
                    break
            else:
                raise OSError("the server ended")
        result = answer.get("result")
        if not isinstance(result, dict) or result.get("isError"):
            raise OSError(str(answer)[:300])
        return result

    def _tool(self, name: str, **arguments: object) -> dict[str, object]:
        found = self._ask("tools/call", {"name": name, "arguments": arguments})["structuredContent"]
        assert isinstance(found, dict)
        return found

    def fill(self, notes: Mapping[str, str]) -> None:  # noqa: D102
        self._tool("create_entities", entities=[entity(key, text) for key, text in notes.items()])

    def create(self, key: str, text: str) -> None:  # noqa: D102
        self._tool("create_entities", entities=[entity(key, text)])

    def read(self, key: str) -> str | None:  # noqa: D102
        found = self._tool("open_nodes", names=[key])["entities"]
        assert isinstance(found, list)
        return "\n".join(found[0]["observations"]) if found else None

    def append(self, key: str, line: str) -> None:  # noqa: D102
        self._tool("add_observations", observations=[{"entityName": key, "contents": [line]}])

    def replace(self, key: str, text: str) -> None:  # noqa: D102
        self.delete(key)
        self.create(key, text)

    def delete(self, key: str) -> None:  # noqa: D102
        self._tool("delete_entities", entityNames=[key])

    def names(self) -> list[str]:
        """All names; the only listing is the whole graph."""
        found = self._tool("read_graph")["entities"]
        assert isinstance(found, list)
        return [str(each["name"]) for each in found]

    def close(self) -> None:  # noqa: D102
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.close()
        try:
            self._server.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._server.terminate()
            self._server.wait()
        self._server.stdout.close()


def entity(key: str, text: str) -> dict[str, object]:
    """Entity of a note."""
    return {"name": key, "entityType": "note", "observations": text.rstrip("\n").split("\n")}


def open_store(_system: str, folder: str, _address: str) -> Store:
    """Open the store in a folder."""
    return McpMemoryStore(folder)
