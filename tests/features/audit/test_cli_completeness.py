"""Every command of the command line that uses a memory store leaves one entry in its audit log.

The test reads the list of commands from the command line itself. A new command that is in none of the tables fails the
first test.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

import retentive
from retentive.audit.reader import AuditEntry
from retentive.cli.app import app
from retentive.transfer.import_files import Import
from retentive.transfer.sources import DirectorySource
from support.command_line import here, interactive

ROOT, A, B = "/memories", "/memories/a.md", "/memories/b.md"


@dataclass(frozen=True)
class Scene:
    """A location with a used store, and the ids and files that commands name."""

    at: str
    directory: Path
    newest: str
    oldest: str
    proposal: str
    memory_id: str = "mem_1"


ONE: dict[str, Callable[[Scene], list[str]]] = {
    "ls": lambda _: [],
    "ls --as-of": lambda scene: ["--as-of", scene.oldest],
    "ls --json": lambda _: ["/memories", "--json"],
    "view": lambda _: [A],
    "view --as-of": lambda scene: [A, "--as-of", scene.oldest],
    "cat": lambda _: [A],
    "cat --as-of": lambda scene: [A, "--as-of", scene.oldest],
    "create": lambda _: ["/memories/new.md", "x"],
    "write": lambda _: [A, "x"],
    "write of a new memory": lambda _: ["/memories/new.md", "x"],
    "append": lambda _: [A, "x"],
    "replace": lambda _: [A, "two", "2"],
    "insert": lambda _: [A, "0", "zero"],
    "rm": lambda _: [A],
    "mv": lambda _: [A, "/memories/new.md"],
    "search": lambda _: ["two"],
    "log": lambda _: [A],
    "show": lambda scene: [scene.oldest],
    "show HEAD": lambda _: [],
    "show of a path": lambda _: ["HEAD~1", A],
    "diff": lambda scene: [scene.newest],
    "diff of two": lambda scene: [scene.oldest, scene.newest],
    "diff of a path": lambda _: [A],
    "diff of a directory": lambda _: ["/memories"],
    "diff of two changes": lambda _: ["HEAD~2..HEAD", A],
    "diff --session": lambda _: ["--session", "*", "--since", "1h"],
    "diff --since": lambda scene: [A, "--since", scene.oldest],
    "blame": lambda _: [A],
    "restore": lambda scene: [A, "--to", scene.oldest],
    "restore --dry-run": lambda scene: [A, "--to", scene.oldest, "--dry-run"],
    "undo": lambda scene: [scene.newest],
    "undo HEAD~1": lambda _: ["HEAD~1"],
    "undo --yes": lambda _: ["--yes", A],
    "undo --by": lambda _: ["--by", "user:*", "--dry-run"],
    "redact": lambda scene: [scene.oldest, "--yes"],
    "redact --all-of": lambda _: ["--all-of", A, "--yes"],
    "redact --finish": lambda _: ["--finish"],
    "erase": lambda _: [A, "--yes"],
    "erase, missing": lambda _: ["/memories/none.md", "--yes"],
    "update": lambda scene: [scene.memory_id, "--path", "/memories/new.md"],
    "delete-id": lambda scene: [scene.memory_id],
    "stores update": lambda _: ["default", "--name", "New"],
    "stores archive": lambda _: ["default"],
    "settings set": lambda _: ["view_chars=5000"],
    "review list": lambda _: [],
    "review show": lambda scene: [scene.proposal],
    "review accept": lambda scene: [scene.proposal],
    "review accept --all": lambda _: ["--all"],
    "review refuse": lambda scene: [scene.proposal],
    "review refuse --all": lambda _: ["--all", "--by", "session:s"],
    "trust list": lambda _: [],
    "trust confirm": lambda _: [A],
    "trust quarantine": lambda _: ["session:x"],
    "trust release": lambda _: ["session:x"],
    "scan": lambda _: [],
    "scan --redact": lambda _: ["--redact", "--history"],
    "sweep": lambda _: [],
    "sweep --dry-run": lambda _: ["--dry-run"],
    "export": lambda scene: [str(scene.directory / "out")],
    "export to a file": lambda scene: [str(scene.directory / "out.tar.gz"), "--notes"],
    "import": lambda scene: [str(scene.directory / "files")],
    "import --dry-run": lambda scene: [str(scene.directory / "files"), "--dry-run"],
    "stats": lambda _: [],
    "exec": lambda _: [],
    "exec of a tool_use block": lambda _: [],
}
"""Commands with their arguments. Words after the name of a command distinguish its cases."""
INPUT = {
    "exec": b'{"command": "view", "path": "/memories/a.md"}\n',
    "exec of a tool_use block": b'{"type": "tool_use", "id": "t", "name": "memory", '
    b'"input": {"command": "view", "path": "/memories/a.md"}}\n',
}

SEVERAL = {
    "cp": "reads one memory and creates another one",
    "serve": "a server: each request is an operation",
    "sync": "each change of a memory is an operation",
    "hook": "a reader and a process that synchronises: each view is an operation",
    "console": "a server: each page and action is an operation",
    "mcp": "a server: each call of a tool is an operation",
    "demo": "agents, in processes of their own, on a store of its own",
}
"""Commands that run several operations, each with an entry of its own, and the reason."""
EDITED = {"edit": "needs an editor and has tests of its own below"}
NONE = {
    "completion": "prints a script, and opens no store",
    "init": "creates a location and a store, which has no log yet",
    "stores list": "lists what is at a location, and opens no store",
    "stores create": "creates a store, which has no log yet",
    "stores show": "shows the properties of a store, and nothing of memories",
    "settings show": "shows settings, and nothing of memories",
    "audit verify": "is about the log itself",
    "audit export": "is about the log itself",
    "audit anchor": "is about the log itself",
    "audit key": "makes a file, and opens no store",
    "audit show": "is about the log itself",
    "doctor": "checks the storage of a location below its stores",
    "collect": "removes orphans from a location below its stores",
    "migrate-schema": "is about the tables of a location",
    "backup": "copies a location with all its stores, logs included",
    "restore-backup": "copies a location with all its stores, logs included",
    "migrate": "copies a location with all its stores, logs included",
}
"""Commands without an entry, and the reason. The commands of `encryption`, `keys` and `webhooks` use no store."""


def commands() -> Iterator[str]:
    """Yield the names of all commands. The name of a command in a group begins with the group."""
    context = click.Context(app)
    for name in app.list_commands(context):
        command = app.get_command(context, name)
        if isinstance(command, click.Group):
            yield from (f"{name} {inner}" for inner in command.list_commands(context))
        else:
            yield name


def test_every_command_has_a_case() -> None:
    tested = {
        next(known for known in commands() if f"{case} ".replace(",", " ").startswith(f"{known} ")) for case in ONE
    }
    assert set(commands()) == tested | SEVERAL.keys() | EDITED.keys() | NONE.keys() | {
        name for name in commands() if name.startswith(("encryption ", "keys ", "webhooks "))
    }


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    at = f"sqlite:///{tmp_path}/memory.db"
    with retentive.open(at, actor="user:ann") as place:
        store = place.store()
        store.change_settings({"review": ["session:*"], "expire_after_days": 1})
        for path in (A, B):
            store.execute({"command": "create", "path": path, "file_text": "one\ntwo\n"})
        store.execute({"command": "str_replace", "path": A, "old_str": "one", "new_str": "1"})
        store.execute({"command": "create", "path": "/memories/p", "file_text": "p"}, actor="session:s")
        newest, *_, oldest = (version.id for version in store.versions(A))
        memory_id = store.load(A)[0].id
        proposal = store.review.pending()[0].id
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "f.md").write_text("imported")
    return Scene(at, tmp_path, newest, oldest, proposal, memory_id)


def entries_of(
    scene: Scene, *arguments: str, text: bytes = b"", statuses: Collection[int] = (0, 3)
) -> list[AuditEntry]:
    """Switch the log on, run a command, and return the entries of the command."""
    with retentive.open(scene.at) as place:
        place.store().change_settings({"audit": True})
    ended = here(scene.at, "--actor", "user:bob", *arguments, text=text)
    assert ended.exception is None or isinstance(ended.exception, SystemExit), ended
    assert ended.exit_code in statuses, ended.output
    with retentive.open(scene.at, sweep=False) as place:
        verified = place.store().audit.verify()
        assert (verified.problem, verified.unaudited) == (None, ())
        return list(place.store().audit.entries())[1:]


@pytest.mark.parametrize("case", ONE)
def test_a_command_leaves_one_entry(case: str, scene: Scene) -> None:
    """The entry names the integration `cli` and the actor."""
    name = next(known for known in commands() if f"{case} ".replace(",", " ").startswith(f"{known} "))
    (entry,) = entries_of(scene, *name.split(), *ONE[case](scene), text=INPUT.get(case, b""))
    assert entry.integration == "cli"
    expected = {"import": "job:import", "import --dry-run": "job:import", "sweep": "job:expiry"}
    assert entry.actor == expected.get(case, "user:bob")


_NO_SCENE = Scene("", Path(), "memver_1", "memver_2", "proposal")
NAMES_A_PATH = [case for case, given in ONE.items() if any(each.startswith(ROOT) for each in given(_NO_SCENE))]


@pytest.mark.parametrize("case", [*NAMES_A_PATH, "ls --as-of", "redact, asking", "erase, asking", "import"])
def test_a_command_with_an_invalid_path_leaves_one_entry(case: str, scene: Scene) -> None:
    name = next(known for known in commands() if f"{case} ".replace(",", " ").startswith(f"{known} "))
    given = {
        "ls --as-of": ["/elsewhere", "--as-of", scene.oldest],
        "redact, asking": ["--all-of", "/elsewhere"],
        "erase, asking": ["/elsewhere"],
        "import": [str(scene.directory / "files"), "--under", "/elsewhere"],
    }.get(case) or ["/elsewhere" if each.startswith(ROOT) else each for each in ONE[case](scene)]
    (entry,) = entries_of(scene, *name.split(), *given, statuses=range(1, 20))
    assert entry.outcome in {"invalid_path", "invalid_input"}
    assert (entry.integration, entry.paths) == ("cli", ())
    assert entry.actor == ("job:import" if case == "import" else "user:bob")


@pytest.mark.parametrize(
    ("line", "operation", "outcome"),
    [
        (b"no JSON\n", None, "invalid_input"),
        (b"\n", None, "invalid_input"),
        (b"[]\n", None, "invalid_input"),
        (b'{"command": "nothing"}\n', None, "invalid_input"),
        (b'{"command": "view"}\n', "view", "invalid_input"),
        (b'{"command": "view", "path": "/elsewhere"}\n', "view", "invalid_path"),
        (b'{"type": "tool_use", "name": "memory", "input": {}}\n', None, "invalid_input"),
        (b'{"type": "tool_use", "id": "t", "name": "search", "input": {}}\n', None, "invalid_input"),
    ],
)
def test_a_malformed_line_of_exec_leaves_one_entry(
    line: bytes, operation: str | None, outcome: str, scene: Scene
) -> None:
    (entry,) = entries_of(scene, "exec", text=line)
    assert (entry.operation, entry.outcome, entry.integration) == (operation, outcome, "cli")


EDITS = {
    "saved": ('echo three >> "$1"', A, [("write", "ok", (A,))]),
    "not changed": ("true", A, [("load", "ok", (A,))]),
    "a failure of the editor": ("exit 3", A, [("load", "ok", (A,))]),
    "new": ('echo three >> "$1"', "/memories/new.md", [("write", "ok", ("/memories/new.md",))]),
    "a text that no memory can hold": ("printf '\\377' > \"$1\"", A, [("load", "ok", (A,))]),
    "a directory": ("exit 3", "/memories", [("write", "already_exists", ("/memories",))]),
    "below a file": ("exit 3", f"{A}/b", [("write", "not_a_directory", (f"{A}/b",))]),
    "an invalid path": ("exit 3", "/nothing", [("write", "invalid_path", ())]),
}


@pytest.mark.parametrize("case", EDITS)
def test_an_edit_leaves_one_entry(case: str, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The entry is that of the change, or that of the read if nothing was saved."""
    script, path, expected = EDITS[case]
    editor = scene.directory / "editor"
    editor.write_text(f"#!/bin/sh\n{script}\n")
    editor.chmod(0o700)
    monkeypatch.setenv("VISUAL", str(editor))
    found = entries_of(scene, "edit", path, statuses=range(10))
    assert [(entry.operation, entry.outcome, entry.paths) for entry in found] == expected
    assert {entry.integration for entry in found} == {"cli"}


@pytest.mark.parametrize(
    ("arguments", "answer", "expected"),
    [
        (["erase", A], "y", "erase"),
        (["erase", A], "n", "erase.preview"),
        (["redact", "--all-of", A], "y", "redact"),
        (["redact", "--all-of", A], "n", "redact.preview"),
    ],
)
def test_a_removal_with_confirmation_leaves_one_entry(
    scene: Scene, arguments: list[str], answer: str, expected: str
) -> None:
    """Counting the versions for the question has no entry of its own.

    If the answer is no, the entry is of the preview.
    """
    with retentive.open(scene.at) as place:
        place.store().change_settings({"audit": True})
    with interactive(scene.directory, "--at", scene.at, *arguments) as shown:
        shown.expect("Permanently")
        shown.type(f"{answer}\r")
        assert shown.end() == (0 if answer == "y" else 1)
    with retentive.open(scene.at, sweep=False) as place:
        entries = list(place.store().audit.entries())[1:]
    assert [(entry.operation, entry.outcome, entry.integration) for entry in entries] == [(expected, "ok", "cli")]


def test_a_command_that_reads_no_memory_leaves_no_entry(scene: Scene) -> None:
    """Commands about a location or about the log leave no entry."""
    with retentive.open(scene.at, audit=True) as place:
        store = place.store()
        store.read(A)
        with_files = {"audit anchor", "audit key"}  # in test_anchors.py
        for name in NONE.keys() - with_files - {"backup", "restore-backup", "migrate", "migrate-schema", "completion"}:
            words = {"stores create": ["new"], "stores show": ["default"]}.get(name, [])
            assert here(scene.at, *name.split(), *words).exit_code == 0
        assert [entry.operation for entry in store.audit.entries()] == ["load"]


def test_each_piece_of_a_sweep_that_removes_something_leaves_an_entry(scene: Scene) -> None:
    """The entry has the number of pruned versions."""
    now = 0.0
    with retentive.open(scene.at, clock=lambda: now, audit=True, keep_versions=1, sweep=False) as place:
        store = place.store()
        now = store.load(A)[0].updated_at.timestamp() + 100 * 86_400
        before = len(list(store.audit.entries()))
        swept = store.sweep(accept_clock=True)
        entries = list(store.audit.entries())[before:]
        assert {(entry.operation, entry.actor) for entry in entries} == {("sweep", "job:expiry")}
        assert [entry.change_count for entry in entries] == [2, 0]
        assert len(swept.expired) == 2
        assert swept.versions_pruned == json.loads(list(store.audit.export())[-1])["pruned"]


def test_an_import_leaves_an_entry_for_each_file_that_storage_refuses(scene: Scene) -> None:
    """SQLite is limited to texts of 30,000 bytes here. The files below this size are imported in the last attempt."""
    for name in ("a.md", "c.md"):
        (scene.directory / "files" / name).write_text("x" * 40_000)
    with retentive.open(scene.at, audit=True, sweep=False) as place:
        store = place.store()
        store.usage()
        before = len(list(store.audit.entries()))
        place.backend._writer.connection._raw.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 30_000)  # type: ignore[attr-defined]
        outcomes = list(Import(store, under="/memories/in").run(DirectorySource(str(scene.directory / "files"))))
        assert sorted(outcome.became for outcome in outcomes) == ["created", "refused", "refused"]
        entries = [(entry.operation, entry.outcome, entry.change_count) for entry in store.audit.entries()][before:]
        assert entries == [("import", "too_large", 0), ("import", "too_large", 0), ("import", "ok", 1)]
        assert store.read("/memories/in/f.md") == "imported"
        (scene.directory / "files" / "f.md").unlink()
        assert len(list(Import(store, under="/memories/in").run(DirectorySource(str(scene.directory / "files"))))) == 2
        said = [entry.outcome for entry in store.audit.entries()][before + 3 :]
        assert said == ["ok", "too_large", "too_large", "ok"]  # `text` has an entry too


def test_opening_sweeps_without_an_entry_if_nothing_expires(scene: Scene) -> None:
    """The sweep has an entry only if it deletes an expired memory."""
    now = 0.0
    with retentive.open(scene.at, clock=lambda: now, audit=True) as place:
        store = place.store()
        now = store.load(A)[0].updated_at.timestamp()
        before = len(list(store.audit.entries()))
        now += 7_200
        place.store()
        assert len(list(store.audit.entries())) == before
        now += 2 * 86_400
        place.store()
        assert [entry.operation for entry in list(store.audit.entries())[before:]] == ["sweep"]
