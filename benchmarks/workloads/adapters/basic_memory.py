"""basic-memory: its MCP server over standard input and output, with the tools that a model calls."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from workloads.adapters.base import Store, System
from workloads.adapters.mcp_client import McpClient

if TYPE_CHECKING:
    from collections.abc import Callable

SYSTEMS = (
    System(
        name="basic-memory",
        adapter="basic_memory",
        # 0.24 requires a version of certifi that the registry of the measured machine did not have
        packages=("basic-memory>=0.22,<0.23",),
        python=(3, 12),
        durable="no sync of files",
        history="none",
        precondition="old text, checked without a lock",
    ),
)
ROW = re.compile(r"^📄 \S+ +(\S+)\.md", re.MULTILINE)
DEEPEST = 10


class BasicMemoryStore(Store):
    """The project `main` below a folder. Its search by meaning is off, because it needs a model."""

    def __init__(self, folder: str) -> None:
        environment = {
            "BASIC_MEMORY_CONFIG_DIR": f"{folder}/config",
            "BASIC_MEMORY_HOME": f"{folder}/notes",
            "BASIC_MEMORY_SEMANTIC_SEARCH_ENABLED": "false",
            "BASIC_MEMORY_AUTO_UPDATE": "false",
            "FASTMCP_CHECK_FOR_UPDATES": "off",
        }
        self._client = McpClient([sys.executable, "-m", "basic_memory.cli.main", "mcp"], environment)

    def _tool(self, name: str, **arguments: object) -> dict[str, object]:
        found = self._client.tool(name, output_format="json", **arguments)["result"]
        assert isinstance(found, dict)
        if found.get("error"):
            raise OSError(str(found["error"]))
        return found

    def _write(self, key: str, text: str, *, overwrite: bool) -> None:
        directory, _, title = key.partition("/")
        self._tool("write_note", title=title, directory=directory, content=text, overwrite=overwrite)

    def create(self, key: str, text: str) -> None:  # noqa: D102
        self._write(key, text, overwrite=False)

    def read(self, key: str) -> str | None:  # noqa: D102
        found = self._tool("read_note", identifier=key)["content"]
        return None if found is None else str(found).lstrip("\n")

    def append(self, key: str, line: str) -> None:  # noqa: D102
        self._tool("edit_note", identifier=key, operation="append", content=line)

    def replace(self, key: str, text: str) -> None:  # noqa: D102
        self._write(key, text, overwrite=True)

    def rename(self, old: str, new: str) -> None:  # noqa: D102
        self._tool("move_note", identifier=old, destination_path=f"{new}.md")

    def delete(self, key: str) -> None:  # noqa: D102
        self._tool("delete_note", identifier=key)

    def names(self) -> list[str]:  # noqa: D102
        found = self._client.tool("list_directory", dir_name="/", depth=DEEPEST)["result"]
        return ROW.findall(str(found))

    def amend(self, key: str, change: Callable[[str], str]) -> bool:  # noqa: D102
        old = self.text(key)
        arguments = {"find_text": old, "content": change(old), "expected_replacements": 1}
        try:
            self._tool("edit_note", identifier=key, operation="find_replace", **arguments)
        except OSError:
            return False
        return True

    def close(self) -> None:  # noqa: D102
        self._client.close()


def open_store(_system: str, folder: str, _address: str) -> Store:
    """Open the store in a folder."""
    return BasicMemoryStore(folder)
