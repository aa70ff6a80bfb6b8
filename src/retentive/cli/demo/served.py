"""The server for `retentive demo --served`, and the memory of an agent that uses this server."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen
from uuid import uuid4

import click

from retentive.storage.contract import Actor
from retentive.values.replies import Reply

if TYPE_CHECKING:
    from anthropic import Anthropic

_MAIN = "from retentive.cli import main; main()"
_KEY, _URL = re.compile(r": (rtv_\w+)$", re.MULTILINE), re.compile(r" at (http://\S+)\n")


@dataclass(frozen=True, slots=True)
class Service:
    """A running server.

    `agent_key` is an API key for agents. It permits an agent to read and write the memories of one store, and to act as
    any session.
    """

    process: subprocess.Popen[str]
    url: str
    admin_key: str
    agent_key: str
    store_id: str

    def for_agent(self) -> dict[str, str]:
        """Return the arguments for `ServedMemory`."""
        return {"url": self.url, "key": self.agent_key, "store_id": self.store_id}


@contextmanager
def server(location: str, store_key: str) -> Iterator[Service]:
    """Context manager that serves a new location on a free port, in a process of its own.

    It creates a memory store and an API key for the agent. Raises `ClickException` if the server does not start.
    """
    command = [sys.executable, "-c", _MAIN, "--at", location, "serve", "--port", "0", "--no-request-log"]
    # The server is in the same process group, so Ctrl-C and the end of the terminal stop it too.
    with subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8") as process:  # noqa: S603 - our own module
        try:
            yield _prepared(process, store_key)
        finally:
            process.terminate()


def _prepared(process: subprocess.Popen[str], store_key: str) -> Service:
    """Wait until the server listens, and create the memory store and the API key of the agent."""
    assert process.stdout is not None
    printed = ""
    while (listening := _URL.search(printed)) is None:
        line = process.stdout.readline()
        if not line:
            raise click.ClickException(f"the server ended with status {process.wait()}")
        printed += line
    first = _KEY.search(printed)
    if first is None:
        raise click.ClickException("a server ran here before, and its first API key is lost; use a new location")
    url, admin_key = listening[1], first[1]
    store = _post(f"{url}/v1/memory_stores", admin_key, {"name": "Demo", "key": store_key})
    agent = {"name": "agent", "scopes": ["read", "write"], "stores": [store["id"]], "act_as": ["session:*"]}
    key = _post(f"{url}/v1/organizations/api_keys", admin_key, agent)
    return Service(process, url, admin_key, str(key["api_key"]), str(store["id"]))


def _post(url: str, key: str, body: Mapping[str, object]) -> dict[str, Any]:
    headers = {"X-Api-Key": key, "Content-Type": "application/json"}
    with urlopen(Request(url, json.dumps(body).encode(), headers)) as answer:  # noqa: S310 - http, our own server
        found: dict[str, Any] = json.load(answer)
        return found


class ServedMemory:
    """Memory of an agent, on a server. Each command is sent together with the id of its tool call.

    If the connection is lost, the client of the SDK may send the command again. If the server has already run a call
    with this id, it does not run the call again, but returns the earlier result.
    """

    def __init__(self, url: str, key: str, store_id: str) -> None:
        from anthropic import Anthropic  # noqa: PLC0415 - slow to import

        self._client: Anthropic = Anthropic(base_url=url, api_key=key)
        self._path = f"/v1/memory_stores/{store_id}/tool"

    def execute(self, command: object, *, actor: Actor | str | None = None, tool_use_id: str | None = None) -> Reply:
        """Run a command of the memory tool on the server, and return its reply."""
        block = {"type": "tool_use", "id": tool_use_id or f"toolu_{uuid4().hex}", "name": "memory", "input": command}
        headers = {"retentive-actor": str(actor)} if actor is not None else {}
        result: Any = self._client.post(self._path, cast_to=object, body=block, options={"headers": headers})
        return Reply(result["content"], is_error=result.get("is_error", False))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()
