"""A person connects Claude Code, the official TypeScript client, and the suite for authorization servers."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
from pathlib import Path

import pytest

from support.command_line import environment, interactive
from support.console import Person
from support.http_api import Api
from support.mcp_clients import MODES
from support.node import executable, modules

CLAUDE = "@anthropic-ai/claude-code"
CLIENT_ID = "https://claude.ai/oauth/claude-code-client-metadata"
CONFORMANCE = "@modelcontextprotocol/conformance"
pytestmark = pytest.mark.long


@pytest.mark.parametrize("revision", [*MODES, CONFORMANCE])
def test_a_client_of_another_language_signs_in(tmp_path: Path, alone: Api, revision: str) -> None:
    folder = modules(CONFORMANCE)
    (tmp_path / "node_modules").symlink_to(folder)
    program = tmp_path / "sign_in.mjs"
    program.write_text((Path(__file__).parent / program.name).read_text("utf-8"), "utf-8")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    alone.place.opened.store("team")
    person, callback = Person(alone.with_key("read", "write")), f"http://127.0.0.1:{port}/callback"
    command = [executable(folder), str(program), revision, f"{alone.url}/mcp", str(port)]
    if revision == CONFORMANCE:
        client = alone.post("/oauth/register", {"redirect_uris": [callback]}).body["client_id"]
        command[1:] = [str(folder / CONFORMANCE / "dist" / "index.js"), "authorization", "--url", alone.url]
        command += ["--client-id", client, "--resource", f"{alone.url}/mcp", "--port", str(port)]
    given, last = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}, ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=given) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(f"{alone.url}/console/authorize?"):
                person.http.get(person.connect(line.strip()))
            last = line.strip() or last
    assert (process.returncode, last) == (0, "done" if revision in MODES else "Total: 3 passed, 0 failed")


def test_claude_code_signs_in(tmp_path: Path, alone: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its metadata document is on the Internet, so the server does not fetch it here."""
    claude = str(modules(CLAUDE) / CLAUDE / "bin" / "claude.exe")
    document = {"client_id": CLIENT_ID, "client_name": "Claude Code", "redirect_uris": ["http://localhost/callback"]}
    monkeypatch.setattr("retentive.server.clients.Clients._fetched", lambda *_: json.dumps(document).encode())
    alone.place.opened.store("team")
    person = Person(alone.with_key("read", "write"))
    given = {"HOME": str(tmp_path), "ANTHROPIC_API_KEY": "none", "ANTHROPIC_BASE_URL": alone.url}
    given |= {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}

    def run(*arguments: str) -> str:
        env, command = environment(tmp_path, given), [claude, *arguments]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=env, check=True).stdout

    run("mcp", "add", "--transport", "http", "memory", f"{alone.url}/mcp")
    assert "Needs authentication" in run("mcp", "list")
    with interactive(tmp_path, "mcp", "login", "memory", "--no-browser", program=(claude,), **given) as terminal:
        shown = terminal.expect("Waiting for authorization")
        link = re.search(r"\]8;;(http[^\x07\x1b]+)", shown)
        assert link is not None, shown
        terminal.type(person.connect(link[1]) + "\r")
        terminal.expect("Authenticated with")
    assert "Connected" in run("mcp", "list")
