"""The systems under test, each used through the calls of its own documentation. Packages are imported at an opening."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import re
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from threading import Lock
from typing import Any

ROOT = "/memories"
USER, MOST = "workloads", 100_000


class Store(ABC):
    """An open store of notes. Keys are `directory/name`. Threads share it. Failed operations raise.

    The defaults are for systems without the operation: they read, and write the whole note.
    """

    @abstractmethod
    def create(self, key: str, text: str) -> None:
        """Add a note."""

    @abstractmethod
    def read(self, key: str) -> str | None:
        """Text of a note; None if it does not exist."""

    @abstractmethod
    def names(self) -> list[str]:
        """Keys of all notes."""

    def replace(self, key: str, text: str) -> None:
        """Replace the text of a note."""
        self.create(key, text)

    def append(self, key: str, line: str) -> None:
        """Add a line at the end of a note."""
        self.replace(key, self.text(key).rstrip("\n") + f"\n{line}\n")

    def amend(self, key: str, change: Callable[[str], str]) -> bool:
        """Read, change and write a note. False if it was changed in between and nothing was written."""
        self.replace(key, change(self.text(key)))
        return True

    def close(self) -> None:  # noqa: B027 - some have nothing to release
        """Release the store, so that another process can open it."""

    def text(self, key: str) -> str:
        """Text of a note that must exist."""
        found = self.read(key)
        if found is None:
            raise LookupError(key)
        return found


def path(key: str) -> str:
    """Path of a key for systems with files."""
    return f"{ROOT}/{key}.md"


def keys(listing: str) -> list[str]:
    """Keys of the files in a directory listing of the memory tool."""
    paths = (row.partition("\t")[2] for row in listing.split("\n")[1:])
    return [found.removeprefix(f"{ROOT}/").removesuffix(".md") for found in paths if found.endswith(".md")]


class RetentiveStore(Store):
    """The store `default` of a location. Limits of a page are off, as in the other systems; guards are on."""

    def __init__(self, system: str, folder: str, _: str) -> None:
        self._module = importlib.import_module("retentive")
        location = f"sqlite:///{folder}/memory.db" if system.endswith("SQLite") else f"{folder}/memory"
        self._opened = self._module.open(location, view_chars=0, list_rows=0)
        self._store = self._opened.store()

    def create(self, key: str, text: str) -> None:  # noqa: D102
        self._store.create(path(key), text)

    def read(self, key: str) -> str | None:  # noqa: D102
        try:
            return str(self._store.read(path(key)))
        except self._module.NotFound:
            return None

    def names(self) -> list[str]:  # noqa: D102
        return keys(self._store.view(ROOT))

    def append(self, key: str, line: str) -> None:  # noqa: D102
        self._store.append(path(key), line)

    def replace(self, key: str, text: str) -> None:  # noqa: D102
        self._store.write(path(key), text)

    def amend(self, key: str, change: Callable[[str], str]) -> bool:  # noqa: D102
        memory, text = self._store.load(path(key))
        try:
            self._store.write(path(key), change(text), if_version=memory.version_id)
        except self._module.Conflict:
            return False
        return True

    def close(self) -> None:  # noqa: D102
        self._opened.close()


class SdkStore(Store):
    """Files below a folder. The tool shows texts with line numbers; they are removed as a model would ignore them."""

    def __init__(self, _: str, folder: str, __: str) -> None:
        self._refused: type[Exception] = importlib.import_module("anthropic.lib.tools").ToolError
        tools = importlib.import_module("anthropic.tools")
        self._call: Callable[[dict[str, object]], Any] = tools.BetaLocalFilesystemMemoryTool(folder).call

    def create(self, key: str, text: str) -> None:  # noqa: D102
        self._call({"command": "create", "path": path(key), "file_text": text})

    def read(self, key: str) -> str | None:  # noqa: D102
        try:
            rows = self._call({"command": "view", "path": path(key)}).split("\n")[1:]
        except self._refused:
            return None
        return "\n".join(line.partition("\t")[2] for line in rows)

    def names(self) -> list[str]:  # noqa: D102
        return keys(self._call({"command": "view", "path": ROOT}))

    def append(self, key: str, line: str) -> None:  # noqa: D102
        last = len(self.text(key).rstrip("\n").split("\n"))
        self._call({"command": "insert", "path": path(key), "insert_line": last, "insert_text": f"{line}\n"})

    def amend(self, key: str, change: Callable[[str], str]) -> bool:  # noqa: D102
        old = self.text(key)
        try:
            self._call({"command": "str_replace", "path": path(key), "old_str": old, "new_str": change(old)})
        except self._refused:
            return False
        return True


class LangGraphStore(Store):
    """Items with a text, in the namespace `("memories", directory)`. A listing also returns the texts."""

    def __init__(self, system: str, folder: str, address: str) -> None:
        kind, module = ("PostgresStore", "postgres") if system.endswith("PostgresStore") else ("SqliteStore", "sqlite")
        options = {"pool_config": {"min_size": 1, "max_size": 8}} if address else {}
        store = getattr(importlib.import_module(f"langgraph.store.{module}"), kind)
        self._opened = ExitStack()
        self._store = self._opened.enter_context(store.from_conn_string(address or f"{folder}/store.db", **options))
        self._store.setup()

    def create(self, key: str, text: str) -> None:  # noqa: D102
        directory, _, name = key.partition("/")
        self._store.put(("memories", directory), name, {"text": text})

    def read(self, key: str) -> str | None:  # noqa: D102
        directory, _, name = key.partition("/")
        found = self._store.get(("memories", directory), name)
        return None if found is None else str(found.value["text"])

    def names(self) -> list[str]:  # noqa: D102
        return [f"{each.namespace[1]}/{each.key}" for each in self._store.search(("memories",), limit=MOST)]

    def close(self) -> None:  # noqa: D102
        self._opened.close()


class DeepAgentsStore(Store):
    """Files below a folder, which is the root of the backend, with the calls that its file tools make."""

    def __init__(self, _: str, folder: str, __: str) -> None:
        backends = importlib.import_module("deepagents.backends")
        self._backend = backends.FilesystemBackend(root_dir=folder, virtual_mode=True)

    def _checked(self, result: Any) -> Any:
        if result.error:
            raise OSError(result.error)
        return result

    def create(self, key: str, text: str) -> None:  # noqa: D102
        self._checked(self._backend.write(path(key), text))

    def read(self, key: str) -> str | None:  # noqa: D102
        found = self._backend.read(path(key), limit=MOST)
        missing = found.error and "not found" in found.error
        return None if missing else str(self._checked(found).file_data["content"])

    def names(self) -> list[str]:  # noqa: D102
        found = self._checked(self._backend.glob("**/*.md", "/")).matches
        return [each["path"].removeprefix(f"{ROOT}/").removesuffix(".md") for each in found]

    def append(self, key: str, line: str) -> None:  # noqa: D102
        old = self.text(key)
        self._checked(self._backend.edit(path(key), old, old.rstrip("\n") + f"\n{line}\n"))

    def amend(self, key: str, change: Callable[[str], str]) -> bool:  # noqa: D102
        old = self.text(key)
        return not self._backend.edit(path(key), old, change(old)).error


class McpClient:
    """A server process with one client, which sends one request at a time. Threads may share it."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._numbers, self._lock = count(1), Lock()
        pipe, environment = subprocess.PIPE, {**os.environ, **environment}
        self._server = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, encoding="utf-8", env=environment)
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._into, self._out = self._server.stdin, self._server.stdout
        client = {"name": "workloads", "version": "1"}
        self._ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client})
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def _send(self, message: Mapping[str, object]) -> None:
        self._into.write(json.dumps(message) + "\n")
        self._into.flush()

    def _ask(self, method: str, params: Mapping[str, object]) -> dict[str, Any]:
        with self._lock:
            number = next(self._numbers)
            self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            answer: dict[str, Any] = next((each for each in map(json.loads, self._out) if each.get("id") == number), {})
        result = answer.get("result")
        if not isinstance(result, dict) or result.get("isError"):
            raise OSError(str(answer)[:300])
        return result

    def tool(self, name: str, **arguments: object) -> dict[str, Any]:
        """Structured result of a tool. Raises `OSError` if it fails."""
        found = self._ask("tools/call", {"name": name, "arguments": arguments})["structuredContent"]
        assert isinstance(found, dict)
        return found

    def close(self) -> None:
        """End the server."""
        self._into.close()
        try:
            self._server.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()
        self._out.close()


class McpMemoryStore(Store):
    """The reference MCP memory server. A note is an entity, a line an observation; the listing is the whole graph."""

    def __init__(self, _: str, folder: str, __: str) -> None:
        package = Path(os.environ["WORKLOADS_NPM"], "node_modules/@modelcontextprotocol/server-memory")
        memory = {"MEMORY_FILE_PATH": str(Path(folder, "memory.jsonl").resolve())}
        self._client = McpClient(["node", str(package / "dist/index.js")], memory)

    def create(self, key: str, text: str) -> None:  # noqa: D102
        lines = text.rstrip("\n").split("\n")
        self._client.tool("create_entities", entities=[{"name": key, "entityType": "note", "observations": lines}])

    def read(self, key: str) -> str | None:  # noqa: D102
        found = self._client.tool("open_nodes", names=[key])["entities"]
        return "\n".join(found[0]["observations"]) if found else None

    def names(self) -> list[str]:  # noqa: D102
        return [str(each["name"]) for each in self._client.tool("read_graph")["entities"]]

    def append(self, key: str, line: str) -> None:  # noqa: D102
        self._client.tool("add_observations", observations=[{"entityName": key, "contents": [line]}])

    def replace(self, key: str, text: str) -> None:  # noqa: D102
        self._client.tool("delete_entities", entityNames=[key])
        self.create(key, text)

    def close(self) -> None:  # noqa: D102
        self._client.close()


class BasicMemoryStore(Store):
    """The MCP server of basic-memory. Its search by meaning is off, because it needs a model."""

    def __init__(self, _: str, folder: str, __: str) -> None:
        environment = {
            "BASIC_MEMORY_CONFIG_DIR": f"{folder}/config",
            "BASIC_MEMORY_HOME": f"{folder}/notes",
            "BASIC_MEMORY_SEMANTIC_SEARCH_ENABLED": "false",
            "BASIC_MEMORY_AUTO_UPDATE": "false",
            "FASTMCP_CHECK_FOR_UPDATES": "off",
        }
        self._client = McpClient([sys.executable, "-m", "basic_memory.cli.main", "mcp"], environment)

    def _tool(self, name: str, **arguments: object) -> dict[str, Any]:
        found = self._client.tool(name, output_format="json", **arguments)["result"]
        if found.get("error"):
            raise OSError(str(found["error"]))
        return dict(found)

    def create(self, key: str, text: str, *, overwrite: bool = False) -> None:  # noqa: D102
        directory, _, title = key.partition("/")
        self._tool("write_note", title=title, directory=directory, content=text, overwrite=overwrite)

    def read(self, key: str) -> str | None:  # noqa: D102
        found = self._tool("read_note", identifier=key)["content"]
        return None if found is None else str(found).lstrip("\n")

    def names(self) -> list[str]:  # noqa: D102
        listing = str(self._client.tool("list_directory", dir_name="/", depth=10)["result"])
        return re.findall(r"^📄 \S+ +(\S+)\.md", listing, re.MULTILINE)

    def append(self, key: str, line: str) -> None:  # noqa: D102
        self._tool("edit_note", identifier=key, operation="append", content=line)

    def replace(self, key: str, text: str) -> None:  # noqa: D102
        self.create(key, text, overwrite=True)

    def amend(self, key: str, change: Callable[[str], str]) -> bool:  # noqa: D102
        old = self.text(key)
        edit = {"find_text": old, "content": change(old), "expected_replacements": 1}
        try:
            self._tool("edit_note", identifier=key, operation="find_replace", **edit)
        except OSError:
            return False
        return True

    def close(self) -> None:  # noqa: D102
        self._client.close()


class HashEmbedding:
    """Embedding without a model. The systems are compared as stores, not by their search."""

    config = None

    def embed(self, text: str, _memory_action: str | None = None) -> list[float]:
        """Vector of a text."""
        return [byte / 255 for byte in hashlib.sha256(text.encode()).digest()]

    def embed_batch(self, texts: list[str], _memory_action: str | None = None) -> list[list[float]]:
        """Vectors of texts."""
        return [self.embed(text) for text in texts]


class Mem0Store(Store):
    """mem0 without inference, in a local Qdrant collection: each part of a note is a memory of its run."""

    def __init__(self, _: str, folder: str, __: str) -> None:
        collection = {"path": f"{folder}/qdrant", "on_disk": True, "embedding_model_dims": 32}
        qdrant = {"provider": "qdrant", "config": collection}
        configuration = {"vector_store": qdrant, "history_db_path": f"{folder}/history.db"}
        self._memory = importlib.import_module("mem0").Memory.from_config(configuration)
        self._memory.embedding_model = HashEmbedding()

    def _parts(self, **filters: str) -> list[dict[str, str]]:
        found = self._memory.get_all(filters={"user_id": USER, **filters}, top_k=MOST)["results"]
        return sorted(found, key=lambda each: str(each["created_at"]))

    def create(self, key: str, text: str) -> None:  # noqa: D102
        self._memory.add(text, user_id=USER, run_id=key, infer=False)

    def read(self, key: str) -> str | None:  # noqa: D102
        parts = [each["memory"].rstrip("\n") for each in self._parts(run_id=key)]
        return "\n".join(parts) if parts else None

    def names(self) -> list[str]:  # noqa: D102
        return sorted({each["run_id"] for each in self._parts()})

    def append(self, key: str, line: str) -> None:  # noqa: D102
        self.create(key, line)

    def replace(self, key: str, text: str) -> None:  # noqa: D102
        first, *rest = self._parts(run_id=key)
        for each in rest:
            self._memory.delete(each["id"])
        self._memory.update(first["id"], text=text)

    def close(self) -> None:  # noqa: D102
        self._memory.close()
        self._memory.vector_store.client.close()


@dataclass(frozen=True, kw_only=True)
class System:
    """A system under test. Its packages get an environment of their own; without any, it is in this project's."""

    name: str
    store: Callable[[str, str, str], Store]
    """Opens a store, from the name, a folder, and the address of a new database if it needs a server."""
    packages: tuple[str, ...] = ()
    npm: str = ""
    python: tuple[int, int] = (3, 11)
    needs_server: bool = False
    is_shared: bool = True
    """A second process can open the store while the first has it open."""


_LANGGRAPH = ("langgraph-checkpoint-sqlite>=3.1,<4", "langgraph-checkpoint-postgres>=3,<4", "psycopg[binary,pool]")
SYSTEMS = (
    System(name="retentive, SQLite", store=RetentiveStore),
    System(name="retentive, directory", store=RetentiveStore),
    System(name="SDK's local tool", store=SdkStore),
    System(name="LangGraph SqliteStore", store=LangGraphStore, packages=_LANGGRAPH),
    System(name="LangGraph PostgresStore", store=LangGraphStore, packages=_LANGGRAPH, needs_server=True),
    System(name="Deep Agents' file backend", store=DeepAgentsStore, packages=("deepagents>=0.7,<0.8",)),
    System(name="MCP server-memory", store=McpMemoryStore, npm="@modelcontextprotocol/server-memory"),
    # 0.24 requires a version of certifi that the registry of the measured machine did not have
    System(name="basic-memory", store=BasicMemoryStore, packages=("basic-memory>=0.22,<0.23",), python=(3, 12)),
    System(name="mem0, no inference", store=Mem0Store, packages=("mem0ai>=2.2,<3",), is_shared=False),
)
