"""Reading creates nothing: a foreign directory of files stays as it is until the first change."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

import retentive
from retentive import errors
from retentive.storage.sealed.keys import KeyRing
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


def test_an_unreadable_file_is_reported_when_it_is_read(foreign: Path) -> None:
    os.mkfifo(foreign / "memories" / "pipe")
    (foreign / "memories" / "binary").write_bytes(b"\xff\0")
    assert here(str(foreign), "ls").stdout == f"8\t{A}\n6\t/memories/d/b.md\n"


def test_init_takes_the_files_over(foreign: Path) -> None:
    said = here(str(foreign), "init").stdout
    assert said.startswith(f"The memory store default is at {foreign}, with 2 memories.\n")
    assert here(str(foreign), "init").stdout.startswith("The memory store default is at")


def test_doctor_checks_what_there_is(foreign: Path) -> None:
    (foreign / "memories" / "link").symlink_to("/etc/hosts")
    before = state(foreign)
    for option in ("--quick", "--repair"):
        done = here(str(foreign), "doctor", option)
        assert [line.split("\t")[2] for line in done.stdout.splitlines()] == ["directory_plain", "file_foreign"]
        assert "(2 files can be memories)\t`retentive init`" in done.stdout
        assert (done.exit_code, state(foreign)) == (0, before)


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


def test_commands_that_write_adopt_the_directory(foreign: Path) -> None:
    assert here(str(foreign), "replace", A, "two", "2").exit_code == 0
    assert (foreign / "memories" / "a.md").read_bytes() == b"one\n2\n"
    assert here(str(foreign), "undo", "--by", "*").exit_code == 0
    assert (foreign / ".retentive").is_dir()


def test_settings_of_a_foreign_directory_are_stored(foreign: Path) -> None:
    with retentive.open(foreign, create=False) as opened:
        opened.store().change_settings({"max_memories": 7})
    with retentive.open(foreign) as opened:
        assert opened.store().settings().max_memories == 7


def test_threads_read_during_the_first_change(foreign: Path) -> None:
    with retentive.open(foreign, create=False) as opened:
        store, failures = opened.store(), list[BaseException]()
        done = threading.Event()

        def read() -> None:
            try:
                while not done.is_set():
                    assert store.read("/memories/d/b.md") == "three\n"
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=read) for _ in range(3)]
        for thread in threads:
            thread.start()
        store.append(A, "three")
        done.set()
        for thread in threads:
            thread.join()
        assert failures == []
        assert store.read(A) == "one\ntwo\nthree\n"


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


def test_a_location_without_memories_is_not_found(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no memory")
    for place in (tmp_path, tmp_path / "gone"):
        with pytest.raises(errors.NotFound):
            retentive.open(place, create=False)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_the_home_directory_in_names_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`~` is the home directory in locations, key files and archives."""
    from retentive.audit.anchor import AnchorKey
    from retentive.storage.sealed.keys import add_key
    from retentive.transfer.archive import open_archive
    from retentive.transfer.export import back_up, export_files, export_whole
    from retentive.transfer.import_files import directory_source

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    add_key("~/keys.json")
    ring = KeyRing.from_environment({"RETENTIVE_KEYS_FILE": "~/keys.json"})
    assert ring is not None
    assert ring.to_text() == KeyRing.from_file(Path("~/keys.json")).to_text()
    with retentive.open("~/m", keys="~/keys.json") as opened:
        store = opened.store()
        store.create(A, "text")
        export_whole(store, "~/whole.tar")
        export_files(store, "~/files")
        back_up(opened.backend, "~/all.tar")
    with open_archive("~/whole.tar"):
        assert len(list(directory_source("~/files").items())) == 1
    made = AnchorKey.create("~/anchor.key")
    assert AnchorKey.read("~/anchor.key") == made
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "all.tar", "anchor.key", "files", "keys.json", "m", "whole.tar",
    ]  # fmt: skip
