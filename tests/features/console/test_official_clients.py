"""The official TypeScript client and the conformance suite for authorization servers, which a person connects."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from support.console import Person
from support.http_api import Api
from support.mcp_clients import MODES
from support.node import executable, modules

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
    person.close()
    assert (process.returncode, last) == (0, "done" if revision in MODES else "Total: 3 passed, 0 failed")
