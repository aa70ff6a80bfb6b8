"""A client of an MCP server over standard input and output, for the adapters of such servers."""

from __future__ import annotations

import json
import os
import subprocess
from itertools import count
from threading import Lock
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class McpClient:
    """A server process with one client, which sends one request at a time. Threads may share it."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._numbers = count(1)
        self._lock = Lock()
        self._server = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env={**os.environ, **environment},
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

    def tool(self, name: str, **arguments: object) -> dict[str, object]:
        """Structured result of a tool. Raises `OSError` if it fails."""
        found = self._ask("tools/call", {"name": name, "arguments": arguments})["structuredContent"]
        assert isinstance(found, dict)
        return found

    def close(self) -> None:
        """End the server."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.close()
        try:
            self._server.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._server.terminate()
            self._server.wait()
        self._server.stdout.close()
