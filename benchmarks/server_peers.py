"""The peer of `server.py`: the same views and edits by 64 callers on the reference MCP memory server.

No other memory system publishes a server on a package registry. The requests of all callers go over the standard input
of the one process, so that none pays for HTTP or a key. A note is an entity, and a line an observation. Without npm the
peer is named, and left out.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Lock, Thread
from time import perf_counter_ns
from typing import Any

from candidates import memory_text, state
from figures import figures, own_folder

PACKAGE = "@modelcontextprotocol/server-memory"
MOST = 300  # operations of each caller


class Peer:
    """The server as a process. Threads share it, and each request waits for its answer."""

    def __init__(self, folder: Path) -> None:
        if not (folder / "node_modules").exists():
            subprocess.run(["npm", "install", "--silent", "--no-save", "--prefix", str(folder), PACKAGE], check=True)
        home, self._lock, self._number = folder / "node_modules" / PACKAGE, Lock(), 0
        self.name = f"{PACKAGE.rpartition('/')[2]} {json.loads((home / 'package.json').read_text())['version']}"
        environment = {**os.environ, "MEMORY_FILE_PATH": str((folder / "memory.jsonl").resolve())}
        command, pipe = ["node", str(home / "dist" / "index.js")], subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=environment)
        self.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "b", "version": "1"})

    def ask(self, method: str, **params: object) -> dict[str, Any]:
        """Return the result of a request. Raises `OSError` if it fails."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with self._lock:
            self._number += 1
            request = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
            answer: dict[str, Any] = next(
                (each for each in map(json.loads, self.process.stdout) if each.get("id") == self._number), {}
            )
        found: dict[str, Any] = answer.get("result") or {"isError": True}
        if found.get("isError"):
            raise OSError(str(answer)[:300])
        return found

    def view(self, key: str) -> list[str]:
        """Return the lines of a note."""
        found = self.ask("tools/call", name="open_nodes", arguments={"names": [key]})
        return list(found["structuredContent"]["entities"][0]["observations"])

    def edit(self, key: str, old: str, new: str) -> None:
        """Replace a line: the tools can only delete one and add another."""
        deletion = {"deletions": [{"entityName": key, "observations": [old]}]}
        self.ask("tools/call", name="delete_observations", arguments=deletion)
        addition = {"observations": [{"entityName": key, "contents": [new]}]}
        self.ask("tools/call", name="add_observations", arguments=addition)


def measured_peers(place: Path, callers: int, turn_s: float) -> Iterator[tuple[str, ...]]:
    """Rows of the peer, if it runs here."""
    try:
        peer = Peer(own_folder(place, "peer"))
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"{PACKAGE} is left out: {error}", file=sys.stderr)
        return
    with peer.process:
        keys = [f"notes/{number:03d}" for number in range(callers)]
        lines = memory_text(0).rstrip("\n").split("\n")
        notes = [{"name": key, "entityType": "note", "observations": lines} for key in keys]
        peer.ask("tools/call", name="create_entities", arguments={"entities": notes})
        for case in ("views", "edits"):
            times, start = list[int](), perf_counter_ns()

            def caller(key: str, case: str = case, start: int = start, times: list[int] = times) -> None:
                for number in range(MOST):
                    began = perf_counter_ns()
                    if began - start > turn_s * 1e9:
                        return
                    if case == "views":
                        peer.view(key)
                    else:
                        peer.edit(key, state(number), state(number + 1))
                    times.append(perf_counter_ns() - began)

            threads = [Thread(target=caller, args=(key,)) for key in keys]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            yield peer.name, case, *figures(times, span_ns=perf_counter_ns() - start).cells, ""
