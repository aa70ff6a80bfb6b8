"""The web service keeps the memories of its users apart, in real requests to a real server process."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from retentive.testing.scripted_claude import Call, Check, Script, Turn, scripted_claude
from support.pages import ROOT

STOP_S = 30
TOKENS = {"ann": "token of ann", "ben": "token of ben"}
NOTES = "/memories/notes.md"


def script(name: str, likes: str) -> Script:
    """A conversation that finds an empty memory and takes a note."""
    empty = Check(contains=("0B\t/memories",))
    return Script(
        (
            Turn((Call({"command": "view", "path": "/memories"}, empty),)),
            Turn((Call({"command": "create", "path": NOTES, "file_text": f"likes {likes}\n"}, Check()),)),
            Turn((f"Noted, {name}.",)),
        ),
        when=f"I am {name} and like {likes}.",
    )


class Service:
    """Running web service."""

    def __init__(self, port: int) -> None:
        self.port = port

    def request(self, method: str, path: str, user: str, body: object = None) -> tuple[int, Any]:
        """Send a request with the token of a user, and return status and body."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        headers = {"authorization": f"Bearer {TOKENS.get(user, user)}", "content-type": "application/json"}
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        finally:
            connection.close()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The service with two worker processes."""
    tmp_path = tmp_path_factory.mktemp("service")
    users = {hashlib.sha256(token.encode()).hexdigest(): name for name, token in TOKENS.items()}
    (tmp_path / "users.json").write_text(json.dumps(users), "utf-8")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ANTHROPIC_", "RETENTIVE_"))}
    scripts = (script("ann", "green tea"), script("ben", "coffee"))
    # The socket listens before the server starts, so the first request waits for the server and needs no retry.
    with scripted_claude(*scripts) as claude, socket.create_server(("127.0.0.1", 0)) as listening:
        ours = {
            "ANTHROPIC_BASE_URL": claude.url,
            "ANTHROPIC_API_KEY": "none-needed",
            "RETENTIVE_AT": f"sqlite:///{tmp_path / 'memory.db'}",
            "WEB_USERS": str(tmp_path / "users.json"),
        }
        server = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", "web_service:app", "--workers", "2", "--fd", str(listening.fileno())],
            cwd=ROOT / "examples",
            env={**kept, **ours},
            pass_fds=[listening.fileno()],
        )
        try:
            yield Service(listening.getsockname()[1])
        finally:
            server.terminate()
            server.wait(STOP_S)
        assert claude.failures == []


@pytest.mark.long
def test_two_users_at_once_have_separate_memories(service: Service) -> None:
    """Both users chat at the same time. Each sees, undoes and erases only memories of their own."""
    told = {"ann": "I am ann and like green tea.", "ben": "I am ben and like coffee."}
    with ThreadPoolExecutor() as pool:
        answers = list(pool.map(lambda user: service.request("POST", "/chat", user, {"text": told[user]}), told))
    assert [(status, answer["text"]) for status, answer in answers] == [(200, "Noted, ann."), (200, "Noted, ben.")]
    anns, bens = (answer["session"] for _, answer in answers)
    assert service.request("GET", "/memories/notes.md", "ann") == (200, {"text": "likes green tea\n"})
    assert service.request("GET", "/memories/notes.md", "ben") == (200, {"text": "likes coffee\n"})
    history = [{"operation": "created", "path": NOTES, "actor": f"session:{anns}"}]
    assert service.request("GET", "/history", "ann") == (200, history)

    assert service.request("POST", f"/undo/{anns}", "ben") == (404, {"detail": "not_found"})
    assert service.request("POST", f"/undo/{bens}", "ben") == (200, {"undone": [NOTES]})
    assert service.request("GET", "/memories", "ben") == (200, {})
    assert service.request("GET", "/memories", "ann") == (200, {NOTES: 16})

    assert service.request("DELETE", "/memories", "ben") == (200, {"pending": False})
    assert service.request("GET", "/history", "ben") == (200, [])
    assert service.request("GET", "/history", "ann") == (200, history)


@pytest.mark.long
def test_invalid_requests_are_refused(service: Service) -> None:
    assert service.request("GET", "/memories", "somebody else") == (401, {"detail": "unknown token"})
    assert service.request("GET", "/memories/none.md", "ann") == (404, {"detail": "not_found"})
    assert service.request("GET", "/memories/..%2Fusers.json", "ann")[0] == 400
    assert service.request("POST", "/undo/*", "ann")[0] == 422
    assert service.request("POST", "/chat", "ann", {"text": " "}) == (400, {"detail": "invalid_input"})


def test_the_log_has_the_cause_of_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The user gets only the code."""
    users = {hashlib.sha256(b"token of ann").hexdigest(): "ann"}
    (tmp_path / "users.json").write_text(json.dumps(users), "utf-8")
    monkeypatch.syspath_prepend(ROOT / "examples")
    monkeypatch.setenv("WEB_USERS", str(tmp_path / "users.json"))
    monkeypatch.setenv("RETENTIVE_AT", f"sqlite:///{tmp_path}/memory.db")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none-needed")
    with scripted_claude(Script(("Hello.",), when="a greeting")) as claude:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", claude.url)
        with TestClient(importlib.import_module("web_service").app) as client:
            headers = {"authorization": "Bearer token of ann"}
            answer = client.post("/chat", headers=headers, json={"text": "no script has this"})
    assert (answer.status_code, answer.json()) == (502, {"detail": "request_refused"})
    (record,) = [each for each in caplog.records if each.name == "web_service"]
    assert "request_refused: " in record.getMessage()
    assert claude.failures
