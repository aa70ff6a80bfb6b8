"""Reading creates nothing: a foreign directory of files stays as it is until the first change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import retentive
from retentive import errors
from support.command_line import here

A = "/memories/a.md"


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A directory as the SDK's local tool leaves it."""
    root = tmp_path / "foreign"
    (root / "memories" / "d").mkdir(parents=True)
    (root / "memories" / "a.md").write_bytes(b"one\ntwo\n")
    (root / "memories" / "d" / "b.md").write_bytes(b"three\n")
    return root


def state(root: Path) -> dict[str, Any]:
    """Every file and directory with its content and time of change."""
    return {
        str(path.relative_to(root)): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else None)
        for path in [root, *root.rglob("*")]
    }


@pytest.mark.parametrize(
    "command",
    [
        ("ls",), ("view", "/memories"), ("view", A), ("cat", A), ("search", "two"), ("log",), ("blame", A),
        ("admin", "stats"),
        ("stores",), ("settings", "show"), ("admin", "scan"), ("review", "list"), ("trust", "list"), ("doctor",),
    ],
    ids=" ".join,
)  # fmt: skip
def test_commands_that_read_create_nothing(foreign: Path, command: tuple[str, ...]) -> None:
    before = state(foreign)
    assert here(str(foreign), *command).exit_code == 0
    assert state(foreign) == before


def test_reading_with_the_library_creates_nothing(foreign: Path) -> None:
    before = state(foreign)
    with retentive.open(foreign, create=False) as opened:
        store = opened.store()
        assert [memory.path for memory in store.memories()] == [A, "/memories/d/b.md"]
        assert store.read(A) == "one\ntwo\n"
        assert "two" in store.view(A)
        assert store.search("three").total == 1
        assert [str(version.actor) for version in store.versions()] == ["job:external"] * 2
        assert store.directory() == str(foreign / "memories")
        with pytest.raises(errors.NotFound):
            opened.store("other")
    assert state(foreign) == before


@pytest.mark.parametrize("command", [("create", "/memories/new", "x"), ("write", A, "x"), ("init",), ("rm", A)])
def test_the_first_change_takes_the_files_over(foreign: Path, command: tuple[str, ...]) -> None:
    assert here(str(foreign), "log").exit_code == 0
    assert here(str(foreign), *command).exit_code == 0
    assert (foreign / ".retentive").is_dir()
    assert "job:external" in here(str(foreign), "log").stdout
    assert [line.split("\t")[2] for line in here(str(foreign), "doctor").stdout.splitlines()] == ["healthy"]


def test_the_first_change_creates_the_bookkeeping(foreign: Path) -> None:
    """Ids that were read before the change stay valid, and the change is there when the directory is opened again."""
    with retentive.open(foreign, create=False, actor="user:ann") as opened:
        store = opened.store()
        memory = store.load(A)[0]
        store.write(A, "new\n", if_version=memory.version_id)
        assert store.load(A)[0].id == memory.id
        assert (foreign / ".retentive" / "memory.db").exists()
    assert (foreign / "memories" / "a.md").read_bytes() == b"new\n"
    with retentive.open(foreign, create=False) as opened:
        assert opened.store().id == store.id
        assert [str(each.actor) for each in opened.store().versions(A)] == ["user:ann", "job:external"]
    assert sorted(path.name for path in foreign.iterdir()) == [".retentive", "memories"]


def test_another_process_that_came_first_wins(foreign: Path) -> None:
    """If the directory got its bookkeeping meanwhile, the change is refused and nothing is overwritten."""
    with retentive.open(foreign, create=False) as opened, retentive.open(foreign) as other:
        first, second = opened.store(), other.store()
        assert first.read(A) == second.read(A)
        with pytest.raises(errors.Unavailable):
            first.write(A, "lost\n")
        assert second.read(A) == "one\ntwo\n"
        assert first.read(A) == "one\ntwo\n"
    assert sorted(path.name for path in foreign.iterdir()) == [".retentive", "memories"]
