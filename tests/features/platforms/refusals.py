"""Tests that only `test_other_platforms.py` runs, in a Python that lacks what Windows or macOS lacks."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner

import retentive
from retentive.cli.app import app
from retentive.errors import InvalidInput

WINDOWS = sys.platform == "win32"
of_windows = pytest.mark.skipif(not WINDOWS, reason="of Windows")
of_macos = pytest.mark.skipif(WINDOWS, reason="of macOS")


def ran(*arguments: str) -> str:
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == 0, (arguments, done.output, done.exception)
    return done.output


@pytest.mark.parametrize("words", ["serve", "console", "sync {}"])
@of_windows
def test_commands_that_need_posix_are_refused_with_a_sentence(words: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["--at", f"sqlite:///{tmp_path}/m.db", *words.format(tmp_path).split()])
    assert (done.exit_code, "needs Linux or macOS" in done.output) == (2, True), (done.output, done.exception)


@of_windows
def test_a_directory_is_refused_with_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="a directory of memories needs Linux or macOS; on this system use sqlite"):
        retentive.open(tmp_path / "memory")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "memories").mkdir()
    (tmp_path / "memories" / "a.md").write_text("one", "utf-8")
    for words in (["--at", str(tmp_path), "doctor"], ["--at", "sqlite://", "import", str(tmp_path)]):
        done = CliRunner().invoke(app, words)
        assert "needs Linux or macOS" in done.output + str(done.exception), (done.output, done.exception)


def test_the_command_line_works_on_sqlite(tmp_path: Path) -> None:
    """Commands, history, encryption, doctor, export, backup and import of archives."""
    at, copy = f"sqlite:///{tmp_path}/m.db", f"sqlite:///{tmp_path}/copy.db"
    ran("--at", at, "create", "/memories/a.md", "one\r\ntwo\n")
    ran("--at", at, "replace", "/memories/a.md", "two", "three")
    with retentive.open(at) as place:
        assert place.store().read("/memories/a.md") == "one\r\nthree\n"
    assert "user:" in ran("--at", at, "log")
    ran("--at", at, "undo", "--yes")
    ran("--at", at, "doctor")
    ran("--at", at, "export", str(tmp_path / "one.tar.zst"))
    ran("--at", copy, "import", "--whole", str(tmp_path / "one.tar.zst"))
    with retentive.open(copy) as place:
        assert place.store().read("/memories/a.md") == "one\r\ntwo\n"
    ran("--at", at, "admin", "backup", str(tmp_path / "all.tar.zst"))
    ran("--at", f"sqlite:///{tmp_path}/restored.db", "admin", "restore-backup", str(tmp_path / "all.tar.zst"))
    ran("--at", at, "export", str(tmp_path / "files"))
    assert (tmp_path / "files" / "a.md").read_bytes() == b"one\r\ntwo\n"


@of_macos
def test_a_directory_works_without_exchange(tmp_path: Path) -> None:
    """macOS has no `renameat2`: a file is replaced by a rename, after a check."""
    from retentive.storage.disk import exchange

    assert not exchange("a", -1, "b", -1)
    with retentive.open(tmp_path / "memory") as place:
        store = place.store()
        for number in range(3):
            store.write("/memories/a.md", f"{number}\n")
        (tmp_path / "memory" / "memories" / "a.md").write_text("by hand\n", "utf-8")
        assert store.read("/memories/a.md") == "by hand\n"
        assert (
            store.execute({"command": "rename", "old_path": "/memories/a.md", "new_path": "/memories/b/c.md"}).code
            is None
        )
    assert (tmp_path / "memory" / "memories" / "b" / "c.md").read_text("utf-8") == "by hand\n"


@of_macos
def test_names_that_differ_only_in_case_are_refused(tmp_path: Path) -> None:
    """As APFS has one file for both."""
    with retentive.open(tmp_path / "memory") as place:
        place.store().create("/memories/Café.md", "one\n")
        reply = place.store().execute({"command": "create", "path": "/memories/café.md", "file_text": "two\n"})
        assert reply.code in {"path_folds", "path_taken"}
        assert {memory.path: place.store().read(memory.path) for memory in place.store().memories()} == {
            "/memories/Café.md": "one\n"
        }


@pytest.mark.parametrize("module", ["retentive.aio", "retentive.mcp.service", "retentive.remote.client"])
def test_modules_of_clients_are_imported(module: str) -> None:
    assert import_module(module).__name__ == module
