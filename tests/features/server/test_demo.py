"""`make run`: a server, and the scripted agent that uses it over HTTP."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

import retentive
from retentive.cli.demo import story
from retentive.server.key_store import KeyStore
from retentive.store.location_records import LocationRecords
from support.command_line import interactive, process
from support.pages import ROOT

AT = "memory-demo/memory.db"


def shown_in(output: str) -> tuple[str, str]:
    """The address and the key of a command that the demo shows."""
    (url,) = re.findall(r'"(http://[^"]+/memories)\?', output)
    (key,) = re.findall(r"export KEY=(\w+)", output)
    return url, key


def status_of(url: str, key: str) -> int:
    """Send a GET request."""
    with urlopen(Request(url, headers={"x-api-key": key}), timeout=60) as answer:
        status: int = answer.status
        return status


def test_the_targets_of_the_readme_exist() -> None:
    """README shows `make TARGET`, and `make run` starts the demo with a server."""
    named = set(re.findall(r"^make (\w+)", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE))
    recipes = dict(re.findall(r"^(\w+):[^\n]*\n\t([^\n]+)", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert named == {"run", "test"} <= recipes.keys()
    assert recipes["run"] == f"{recipes['demo']} --served" == "$(BIN)/retentive demo --served"


def test_an_agent_uses_the_server_and_the_demo_ends(tmp_path: Path) -> None:
    """In a pipe the server stops after the sessions. The agent has a key of its own, and acts as its sessions."""
    done = process(tmp_path, "demo", "--served")
    assert done.status == 0, done.err
    shown = done.out.decode()
    assert "is killed (kill -9)" in shown
    with pytest.raises(URLError):
        status_of(*shown_in(shown))
    with retentive.open(f"sqlite:///{tmp_path}/{AT}") as opened:
        keys = KeyStore(LocationRecords(opened.backend))
        agent, admin = keys.all()
        assert (agent.scopes, agent.act_as, admin.scopes) == (("read", "write"), ("session:*",), ("admin",))
        assert keys.last_uses().keys() == {agent.id, admin.id}
        actors = {str(version.actor) for version in opened.store().versions(story.NOTES)}
    assert actors == {"session:first", "session:second"}


@pytest.mark.long
def test_on_a_terminal_the_server_goes_on_until_interrupted(tmp_path: Path) -> None:
    with interactive(tmp_path, "demo", "--served", COLUMNS="300") as terminal:
        terminal.expect("── The server")
        shown = re.sub(r"\x1b\[[0-9;]*m", "", terminal.expect("Ctrl-C stops the server"))
        url, key = shown_in(shown)
        assert status_of(url, key) == 200
        terminal.type("\x03")
        assert terminal.end() == 0
        assert "Traceback" not in terminal.shown
    with pytest.raises(URLError):
        status_of(url, key)
