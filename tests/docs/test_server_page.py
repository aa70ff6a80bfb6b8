"""The commands and programs of docs/team-server.md and docs/server.md run, with localhost as all hosts, over TLS."""

from __future__ import annotations

import re
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import retentive
from retentive.testing.scripted_claude import scripted_claude
from support import node
from support.http_api import serving
from support.pages import ROOT, blocks
from support.printed import environment
from support.scripts import SCRIPTS

TEAM, PAGE = ROOT / "docs" / "team-server.md", ROOT / "docs" / "server.md"
MAX_COMMANDS = 9


def commands(title: str) -> list[str]:
    """The commands of the block with this first line."""
    (block,) = [block for block in blocks(TEAM) if block.body.startswith(f"# {title}\n")]
    return block.body.splitlines()[1:]


def program(name: str) -> str:
    """A program of the pages, by its file name."""
    named = {f"# {name}", f"// {name}"}
    (block,) = [block for block in blocks(TEAM) + blocks(PAGE) if block.body.partition("\n")[0] in named]
    return block.body


def run(command: str, directory: Path, **variables: str) -> str:
    """Run a command of the page, and return its output."""
    env = environment(variables.pop("url", "")) | variables
    done = subprocess.run(["bash", "-c", command], cwd=directory, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done.stdout


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


@contextmanager
def running(command: str, directory: Path) -> Iterator[list[str]]:
    """Run the server, and wait until it listens. Yields the lines that it printed until then."""
    with subprocess.Popen(
        ["bash", "-c", f"exec {command}"], cwd=directory, env=environment(""), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        guard = threading.Timer(60, process.kill)
        guard.start()
        try:
            lines = list[str]()
            for line in process.stdout:
                lines.append(line)
                if line.startswith("Serving "):
                    break
            yield lines
        finally:
            guard.cancel()
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
@pytest.mark.long
def test_two_agents_on_two_hosts_share_a_store(tmp_path: Path) -> None:
    """Nine commands at most. The second host reads what the first one wrote, and each key has its own actor."""
    names = {"memory.example.com": "localhost", "8443": str(free_port()), "DNS:localhost": "DNS:localhost"}
    hosts = {name: tmp_path / name.replace(" ", "-") for name in ("memory.example.com", "host a", "host b")}
    for directory in hosts.values():
        directory.mkdir()
    by_host = {name: [_replaced(line, names) for line in commands(name)] for name in hosts}
    assert sum(map(len, by_host.values())) <= MAX_COMMANDS
    server, (install, *prepare, serve) = hosts["memory.example.com"], by_host["memory.example.com"]
    assert install == "pip install '.[server]'"
    for command in prepare:
        run(command, server)
    with scripted_claude(*SCRIPTS) as claude, running(serve, server) as lines:
        assert lines[-1].partition(" at ")[2] == f"https://0.0.0.0:{names['8443']}\n"
        for host, key in (("host a", "ann.key"), ("host b", "ben.key")):
            (hosts[host] / "agent.py").write_text(program("agent.py"))
            for name in ("cert.pem", key):
                shutil.copy(server / name, hosts[host])
            (command,) = by_host[host]
            printed = run(command, hosts[host], url=claude.url)
        assert claude.failures == []
    assert printed.splitlines()[-1] == "Ada used to prefer e-mail. I have corrected my notes: she prefers calls."
    with retentive.open(server / "memory") as opened:
        versions = opened.store("team").versions()
    assert [(str(each.actor), each.operation) for each in versions] == [
        ("user:ben", "modified"),
        ("user:ann", "created"),
    ]


def _replaced(line: str, names: dict[str, str]) -> str:
    return re.sub("|".join(map(re.escape, names)), lambda found: names[found[0]], line)


@pytest.mark.long
def test_the_programs_and_curl_use_a_store(tmp_path: Path) -> None:
    with retentive.open(f"sqlite:///{tmp_path}/memory.db") as opened, serving(opened) as api:
        store = opened.store("team")
        given: dict[str, Any] = {"MEMORY_URL": api.url, "MEMORY_KEY": api.key, "STORE": store.id}
        (calls,) = [block.body for block in blocks(PAGE) if block.language == "bash"]
        for command in calls.splitlines():
            printed = run(command, tmp_path, **given)
        assert printed.startswith(": connected")
        (tmp_path / "sdk.py").write_text(program("sdk.py"))
        assert run("python sdk.py", tmp_path, **given) == "/notes.md likes tea\n"
        assert store.read("/memories/notes.md") == "likes tea and cake"


@pytest.mark.long
def test_the_typescript_program_lists_memories(tmp_path: Path) -> None:
    folder = node.modules(node.SDK)
    (tmp_path / "sdk.mjs").write_text(program("sdk.mts").replace("STORE!", "STORE"))
    with retentive.open(f"sqlite:///{tmp_path}/memory.db") as opened, serving(opened) as api:
        store = opened.store("team")
        store.execute({"command": "create", "path": "/memories/notes.md", "file_text": "likes tea"})
        given: dict[str, Any] = {"MEMORY_URL": api.url, "MEMORY_KEY": api.key, "STORE": store.id}
        assert node.output(tmp_path / "sdk.mjs", tmp_path, folder, **given) == "/notes.md likes tea\n"


def test_the_program_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = [block.body for block in blocks(PAGE) if block.body.startswith("# remember.py")]
    with retentive.open("sqlite://") as opened, serving(opened) as api:
        monkeypatch.setenv("RETENTIVE_API_KEY", api.key)
        exec(program.replace("https://memory.example.com:8443", api.url).replace(', ca_file="cert.pem"', ""), {})
    shown = "Here's the content of /memories/ada.md with line numbers:\n     1\tAda prefers e-mail.\n"
    assert capsys.readouterr().out == f"True Ada prefers e-mail.\n{shown}"
    assert len([line for line in program.splitlines()[1:] if line]) <= 15
