"""`uvx` runs the wheel without an installation: the command line, the MCP server and the console.

Each needs its own extra only. The server of MCP and the console are used as their clients do.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from features.packages.pythons import VERSIONS, python
from support.outward import outward
from support.pages import ROOT

UV = shutil.which("uv") or ""
pytestmark = [
    pytest.mark.environments,
    pytest.mark.skipif(not UV, reason="needs uv"),
    pytest.mark.parametrize("version", VERSIONS),
]
INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "a client", "version": "1"},
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (found,) = folder.glob("*.whl")
    return found


def command(version: str, wheel: Path, extras: str, *arguments: str) -> list[str]:
    given = ["--quiet", "--isolated", "--python", python(version), "--from", f"retentive{extras} @ {wheel.as_uri()}"]
    return [UV, "tool", "run", *given, "retentive", *arguments]


def environment(folder: Path) -> dict[str, str]:
    mine = {
        name: value for name, value in outward().items() if not name.startswith(("PYTHON", "VIRTUAL_ENV", "PYTEST_"))
    }
    return mine | {"RETENTIVE_AT": f"sqlite:///{folder}/memory.db", "HOME": os.path.expanduser("~")}


@contextmanager
def started(words: list[str], folder: Path) -> Iterator[tuple[IO[str], IO[str]]]:
    """Standard input and output of a process, which is stopped afterwards."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(words, **pipes, text=True, env=environment(folder), start_new_session=True) as process:  # type: ignore[call-overload]
        try:
            yield process.stdin, process.stdout
        finally:
            process.stdin.close()
            os.killpg(process.pid, 15)


def test_the_command_line(version: str, wheel: Path, tmp_path: Path) -> None:
    for words in (["create", "/memories/a.md", "one"], ["cat", "/memories/a.md"]):
        done = subprocess.run(
            command(version, wheel, "", *words),
            env=environment(tmp_path), capture_output=True, text=True, check=True,
        )  # fmt: skip
    assert done.stdout == "one"


def test_the_mcp_server(version: str, wheel: Path, tmp_path: Path) -> None:
    """A client initializes the session and gets the tools."""
    with started(command(version, wheel, "[mcp]", "mcp"), tmp_path) as (requests, answers):
        for message in (
            {"id": 1, "method": "initialize", "params": INITIALIZE},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/list"},
        ):
            requests.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            requests.flush()
        found = [json.loads(answers.readline()) for _ in range(2)]
    assert found[0]["result"]["serverInfo"]["name"] == "retentive"
    assert {"memory_view", "memory_create"} <= {each["name"] for each in found[1]["result"]["tools"]}


def test_the_console(version: str, wheel: Path, tmp_path: Path) -> None:
    """The printed address answers with the page of the login."""
    subprocess.run(command(version, wheel, "", "init"), env=environment(tmp_path), capture_output=True, check=True)
    with started(command(version, wheel, "[server]", "console", "--no-browser"), tmp_path) as (_, lines):
        address = lines.readline().split()[-1]
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(address) as answer:
            assert "<form" in answer.read().decode()
