"""Repositories and the backup files of editors may lie between the memories. Nothing takes them up or touches them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import retentive
from retentive import MemoryStore
from support.commands import create, delete, rename, view

DAY_S = 86_400
NAMES = [".git", ".GIT", ".hg", ".svn", ".jj", ".obsidian", ".Trash", ".stversions", ".g\u200cit"]


class Place:
    """A directory with a clock that a test can move."""

    def __init__(self, root: Path) -> None:
        self.root = root / "memory" / "memories"
        self.now = 1_800_000_000.0
        self.opened = retentive.open(root / "memory", clock=lambda: self.now)
        self.store: MemoryStore = self.opened.store()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    found = Place(tmp_path)
    yield found
    found.opened.close()


def repository(folder: Path) -> None:
    """Like a repository, it has empty directories, and a file with a secret."""
    (folder / "refs" / "tags").mkdir(parents=True)
    (folder / "config").write_text("url = https://ann:a-token@example.com/notes.git\n")


def on_disk(folder: Path) -> dict[str, str | None]:
    return {str(path.relative_to(folder)): path.read_text() if path.is_file() else None for path in folder.rglob("*")}


@pytest.mark.parametrize("name", NAMES)
def test_nothing_below_a_reserved_name_is_a_memory(name: str, place: Place) -> None:
    """Whatever happens to the directory around it, all its files and empty directories stay."""
    store = place.store
    for path in ("/memories/a.md", "/memories/p/b.md", "/memories/q/c.md"):
        store.write(path, "one\n")
    folders = [place.root / name, place.root / "p" / name, place.root / "q" / name]
    for folder in folders:
        repository(folder)
    before = [on_disk(folder) for folder in folders]
    (place.root / "a.md").write_text("by hand\n")
    assert name not in store.execute(view("/memories")).text
    assert store.execute(view(f"/memories/{name}/config")).is_error
    assert [memory.path for memory in store.memories()] == ["/memories/a.md", "/memories/p/b.md", "/memories/q/c.md"]
    store.undo("HEAD", actor="user:ann")
    for command in (
        rename("/memories/p", "/memories/r"),
        delete("/memories/q"),
    ):
        assert not store.execute(command).is_error
    assert store.execute(create("/memories/q", "")).code == "path_taken"
    assert not store.execute(create("/memories/q/new.md", "")).is_error
    store.change_settings({"expire_after_days": 30})
    place.now += 31 * DAY_S
    assert store.sweep(accept_clock=True).expired
    assert store.memories() == []
    place.opened.backend.erase_store(store.id, None)
    assert [on_disk(folder) for folder in folders] == before


def test_git_works_between_the_memories(place: Place) -> None:
    """`undo` of a commit's change changes the file and not the repository, and expiry leaves the repository."""

    def git(*arguments: str) -> str:
        who = ["-c", "user.email=ann@example.com", "-c", "user.name=ann"]
        done = subprocess.run(["git", *who, *arguments], cwd=place.root, capture_output=True, text=True, check=True)
        return done.stdout

    place.store.write("/memories/notes.md", "one\n")
    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "first")
    (place.root / "notes.md").write_text("two\n")
    git("commit", "-qam", "second")
    assert place.store.read("/memories/notes.md") == "two\n"
    place.store.undo("HEAD")
    assert (place.root / "notes.md").read_text() == "one\n"
    assert git("log", "--format=%s") == "second\nfirst\n"
    assert git("fsck") == ""
    git("checkout", "-q", "--", "notes.md")
    assert place.store.read("/memories/notes.md") == "two\n"


EDITORS = ["notes.md~", "#notes.md#", ".notes.md.swp", ".notes.md.swo", "~$notes.md", "4913", "notes.md.orig"]


@pytest.mark.parametrize("name", EDITORS)
def test_backup_files_of_editors_are_not_taken_up(name: str, place: Place) -> None:
    """A command on their path is refused. They stay."""
    place.store.write("/memories/notes.md", "one\n")
    (place.root / name).write_text("an older text\n")
    listed = place.store.execute(view("/memories")).text
    assert listed.splitlines()[1:] == ["4B\t/memories", "4B\t/memories/notes.md"]
    for command in (
        view(f"/memories/{name}"),
        create(f"/memories/{name}", "new\n"),
    ):
        assert place.store.execute(command).code == "path_taken"
    assert [memory.path for memory in place.store.memories()] == ["/memories/notes.md"]
    assert (place.root / name).read_text() == "an older text\n"


@pytest.mark.parametrize("name", EDITORS)
def test_a_memory_with_such_a_name_that_a_command_made_is_one(name: str, place: Place) -> None:
    """So are edits of its file."""
    place.store.write(f"/memories/{name}", "one\n")
    assert place.store.read(f"/memories/{name}") == "one\n"
    (place.root / name).write_text("by hand\n")
    assert place.store.read(f"/memories/{name}") == "by hand\n"
    assert str(place.store.versions()[0].actor) == "job:external"
