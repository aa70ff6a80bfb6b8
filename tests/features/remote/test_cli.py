"""The command line with the URL of a server: the same output and exit statuses as with the storage itself."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import retentive
from retentive.cli.app import COMMANDS_BY_NAME, app
from retentive.cli.location import NEEDS_MACHINE
from support.http_api import Api, serving
from support.profiles import some
from support.served_process import MAIN

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Api, str]]:
    """A server, and the location that it serves."""
    url = f"sqlite:///{tmp_path_factory.mktemp('cli')}/memory.db"
    with retentive.open(url) as opened, serving(opened) as api:
        opened.store("other")  # where `promote` proposes a memory
        yield api.with_key("admin", act_as=("user:*", "session:*")), url


@pytest.fixture
def key(request: pytest.FixtureRequest) -> str:
    return str(request.node.nodeid)[-250:]


@pytest.fixture
def remote(served: tuple[Api, str], key: str) -> Run:
    return lambda *arguments, text="": run(served[0].url, key, *arguments, text=text, api_key=served[0].key)


@pytest.fixture
def local(served: tuple[Api, str], key: str) -> Run:
    return lambda *arguments, text="": run(served[1], key, *arguments, text=text)


def run(url: str, key: str, *arguments: str, text: str = "", api_key: str = "") -> Result:
    env = {"RETENTIVE_API_KEY": api_key, "LOGNAME": "ann"}
    return CliRunner().invoke(app, ["--at", url, "--store", key, *arguments], input=text, env=env)


def without_origin(output: str) -> str:
    """Output without what only the storage knows."""
    plain = re.sub(r'"provenance": \{[^{}]*(\{[^{}]*\}[^{}]*)*\}', "", output)
    return re.sub(r"(?m)^integration .*\n", "", plain)


SAME = [
    ["ls"], ["--json", "ls"], ["--format", "csv", "ls"], ["ls", "/memories/d"], ["ls", "/memories/d/b.md"],
    ["ls", "/memories/none"], ["cat", "a.md"], ["--json", "cat", "/memories/d/b.md"], ["cat", "none"],
    ["view"], ["view", "a.md", "--range", "1:1"], ["--json", "view", "a.md"], ["view", "none"], ["view", "../x"],
    ["log"], ["log", "a.md"], ["log", "/memories/d"], ["log", "--operation", "created"], ["log", "-n", "1"],
    ["log", "none"], ["settings"], ["--json", "settings"], ["settings", "set", "nothing=1"],
    ["create", "a.md", "again"], ["replace", "a.md", "none", "x"], ["insert", "a.md", "99", "x"],
    ["write", "a.md", "x", "--if-version", ""], ["rm", "none"], ["rm", "/memories"], ["mv", "d", "d/e"],
    ["undo", "HEAD", "--dry-run"], ["restore", "a.md", "--to", "HEAD~3", "--dry-run"], ["undo", "r99999"],
    ["diff", "HEAD"], ["diff", "HEAD", "a.md"], ["--json", "diff", "HEAD"], ["show", "HEAD"],
    ["log", "--source", "web:*"], ["log", "--session", "none"], ["log", "--flag", "x"], ["log", "--trust", "trusted"],
    ["blame", "a.md"], ["--json", "blame", "a.md", "--source", "web:*"], ["blame", "none"],
    ["cat", "a.md", "--as-of", "HEAD~1"], ["cat", "a.md", "--as-of", "r1"], ["cat", "d/c.md", "--as-of", "HEAD"],
    ["ls", "--as-of", "HEAD~2"], ["--json", "ls", "/memories/d/b.md", "--as-of", "HEAD"], ["ls", "--as-of", "r999"],
    ["ls", "none", "--as-of", "HEAD"], ["ls", "d", "--as-of", "HEAD~3"], ["trust", "list"],
    ["exec"], ["rm", "mem_none"], ["review"], ["nothing"], ["stores", "show", "none"],
]  # fmt: skip


@pytest.fixture(scope="module")
def filled(served: tuple[Api, str]) -> str:
    """Key of a memory store with a few changes. No test changes it."""
    for change in ("create a.md one", "create d/b.md ü", "mv a.md d/c.md", "create a.md first", "append a.md second"):
        assert run(served[0].url, "filled", *change.split(), api_key=served[0].key).exit_code == 0
    return "filled"


@pytest.mark.parametrize("arguments", some(SAME, 3), ids=" ".join)
def test_output_and_status_are_the_same(served: tuple[Api, str], filled: str, arguments: list[str]) -> None:
    api, url = served
    lines = '{"command": "view", "path": "/memories"}\n{"id": "t"}\nnothing\n' if arguments == ["exec"] else ""
    found = run(api.url, filled, *arguments, text=lines, api_key=api.key)
    expected = run(url, filled, *arguments, text=lines)
    assert found.exit_code == expected.exit_code, found.output
    assert without_origin(found.stdout) == without_origin(expected.stdout)
    assert found.stderr == expected.stderr


def test_changes(remote: Run, local: Run) -> None:
    made = json.loads(remote("--json", "create", "a.md", "one").stdout)
    expected = json.loads(local("--json", "cat", "a.md").stdout)
    assert (made["version_id"], made["memory_id"]) == (expected["version_id"], expected["memory_id"])
    assert made["changes"] == [
        {"path": "/memories/a.md", "memory_id": made["memory_id"], "version_id": made["version_id"],
         "operation": "created"}
    ]  # fmt: skip
    assert remote("write", "a.md", text="two\n").exit_code == 0
    assert remote("mv", made["memory_id"], "/memories/c.md").exit_code == 0
    assert remote("write", made["memory_id"], "new").exit_code == 0
    assert remote("cat", made["memory_id"]).stdout == local("cat", "c.md").stdout == "new"
    assert remote("undo", "--yes").exit_code == 0
    assert local("cat", "c.md").stdout == "two\n"
    assert remote("settings", "set", "view_chars=5000").exit_code == 0
    assert json.loads(local("--json", "settings").stdout)["view_chars"] == 5000


def test_stores(remote: Run, local: Run, key: str) -> None:
    remote("create", "a.md", "one")
    made = json.loads(remote("--json", "stores", "create", "Team", "--key", f"{key} 2"[-250:], "--meta", "a=1").stdout)
    assert made == json.loads(local("--json", "stores", "show", made["id"]).stdout)
    assert remote("stores", "update", made["id"], "--name", "Help").exit_code == 0
    assert remote("stores", "archive", made["id"]).exit_code == 0
    assert made["id"] in remote("stores").stdout
    assert run_store_erased(remote, made["key"]).exit_code == 0
    assert made["id"] not in local("stores").stdout


def run_store_erased(remote: Run, key: str) -> Result:
    return remote("erase", "--whole-store", "--store", key, "--yes")


def test_the_actor_is_that_of_the_key_or_the_given_one(remote: Run, local: Run) -> None:
    remote("create", "a.md", "one")
    remote("--actor", "ann", "create", "b.md", "one")
    actors = [line.split("\t")[3] for line in local("log").stdout.splitlines()]
    assert (actors[0], actors[1].partition(":")[0]) == ("user:ann", "api_key")


ACCEPTED: dict[str, list[str]] = {
    "ls": [], "cat": ["a.md"], "view": ["a.md"], "search": ["one"], "create": ["new", "x"], "write": ["a.md", "x"],
    "append": ["a.md", "x"], "edit": ["a.md"], "replace": ["a.md", "one", "1"], "insert": ["a.md", "0", "x"],
    "cp": ["a.md", "b.md"], "mv": ["a.md", "b.md"], "rm": ["ID"], "import": ["files"], "log": ["a.md"],
    "show": ["HEAD"], "diff": ["HEAD"], "blame": ["a.md"], "undo": ["HEAD"],
    "restore": ["a.md", "--to", "HEAD~1"], "review": ["list"], "trust": ["confirm", "a.md"],
    "redact": ["--all-of", "a.md", "--yes"], "erase": ["a.md", "--yes"], "stores": [],
    "settings": ["set", "audit=false"], "export": ["directory"], "sync": ["notes"], "exec": [],
    "hook": ["session-start"], "recall": ["one"], "check": ["q.toml"], "evidence": ["--session", "s"],
    "promote": ["a.md", "--to", "other"], "cite": ["a.md", "files/new.md"], "verify": ["--root", "files"],
}  # fmt: skip
"""Arguments with which each command does something on a server."""
CHANGES = {"create", "write", "append", "edit", "replace", "insert", "cp", "mv", "rm", "import", "undo", "restore",
           "erase", "cite"}  # fmt: skip


def test_every_command_is_listed() -> None:
    refused = {name for name in COMMANDS_BY_NAME if name.startswith(NEEDS_MACHINE)}
    assert set(COMMANDS_BY_NAME) - refused == ACCEPTED.keys() | {"mcp", "demo"}


@pytest.mark.parametrize("name", some(ACCEPTED, 4))
def test_every_listed_command_works(
    remote: Run, local: Run, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EDITOR", "sed -i s/one/changed/")
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "new.md").write_text("x")
    (tmp_path / "notes").mkdir()
    (tmp_path / "q.toml").write_text('[[question]]\nask = "one"\npaths = ["a.md"]\n')
    for change in (
        ["create", "a.md", "one"],
        ["--actor", "session:s", "append", "a.md", "two"],
        ["settings", "set", "audit=true"],
    ):
        assert local(*change).exit_code == 0
    before = local("--json", "ls").stdout
    memory_id = json.loads(local("--json", "cat", "a.md").stdout)["memory_id"]
    found = remote(*name.split(), *(memory_id if each == "ID" else each for each in ACCEPTED[name]))
    assert (found.exit_code, "the machine of the server" in found.output) == (0, False), found.output
    assert (local("--json", "ls").stdout != before) == (name in CHANGES)


def test_an_export_of_another_product_is_imported_once(remote: Run, local: Run, tmp_path: Path) -> None:
    """The server updates what an earlier import made."""
    path = tmp_path / "mem0.json"
    for memories, expected in ((["one"], "1 created."), (["one"], "1 same."), (["one", "two"], "1 replaced.")):
        path.write_text(json.dumps([{"id": text, "memory": text, "user_id": "ann"} for text in memories]))
        assert remote("import", "--from", "mem0", str(path)).stderr == f"{expected}\n"
    assert "\t- two\n" in local("search", "two").stdout


def test_a_digest_of_a_server(remote: Run, local: Run, tmp_path: Path) -> None:
    """It is the same as that of the location, whose memories nobody has viewed."""
    assert local("create", "a.md", "one").exit_code == 0
    for name, run_on in (("remote", remote), ("local", local)):
        found = run_on("export", "--digest", str(tmp_path / name))
        assert found.exit_code == 0, found.output
    assert (tmp_path / "remote").read_text() == (tmp_path / "local").read_text()
    assert "/memories/a.md\n    one\n" in (tmp_path / "remote").read_text()


@pytest.mark.long
def test_mcp_works(served: tuple[Api, str], filled: str) -> None:
    """It reads the standard input of its process."""
    version = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    hello = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": version})
    command = [sys.executable, "-c", MAIN, "--at", served[0].url, "--store", filled, "mcp"]
    env = {**os.environ, "RETENTIVE_API_KEY": served[0].key}
    found = subprocess.run(
        command, input=f"{hello}\n", env=env, capture_output=True, text=True, timeout=60, check=False
    )
    assert (found.returncode, json.loads(found.stdout)["id"]) == (0, 1), found.stderr


ARGUMENTS = {"admin backup": ["x.tar"], "admin migrate": ["sqlite://"], "serve": ["--port", "0"]}
NEVER = {"admin", "admin audit", "admin drill", "admin restore-backup"}
"""The groups, and those that read their archive first."""


@pytest.mark.parametrize(
    "name", [name for name in COMMANDS_BY_NAME if name.startswith(NEEDS_MACHINE) and name not in NEVER]
)
def test_other_commands_refuse_a_server(remote: Run, name: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    found = remote(*name.split(), *ARGUMENTS.get(name, []))
    assert found.exit_code == 2, found.output
    assert "the machine of the server" in found.stderr
    assert list(tmp_path.iterdir()) == []
