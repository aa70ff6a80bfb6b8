"""What can be no key of a memory store is a wrong argument everywhere; who only looks makes no memory store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import retentive
from retentive import InvalidInput, NotFound, Retentive
from retentive.locations import open_backend
from retentive.transfer.archive_reader import open_archive
from retentive.transfer.backup import back_up
from retentive.transfer.export import export_whole
from retentive.transfer.migrate import migrate
from retentive.transfer.restore import import_whole, restore

from .running import here

BAD = ["\udcff", "a\0b", "", "x" * 256, "a\nb"]
SAID = "a store key (must have 1 to 255 characters|may not contain control characters or lone surrogates)"


@pytest.fixture
def at(tmp_path: Path) -> str:
    """A place with one memory, and an export and a backup of it beside it."""
    place = f"sqlite:///{tmp_path}/memory.db"
    with retentive.open(place) as opened:
        store = opened.store()
        store.execute({"command": "create", "path": "/memories/a", "file_text": "a"})
        export_whole(store, str(tmp_path / "e.tar"))
        back_up(opened.backend, str(tmp_path / "b.tar"))
    return place


def commands(at: str, directory: Path, key: str) -> list[list[str]]:
    made = f"sqlite:///{directory}/made.db"
    return [
        ["--at", at, "--store", key, "view"],
        ["--at", at, "--store", key, "create", "/memories/b", "b"],
        ["--at", at, "--store", key, "log"],
        ["--at", at, "--store", key, "sweep"],
        ["--at", at, "--store", key, "init"],
        ["--at", at, "erase", "--whole-store", key, "--yes"],
        ["backup", at, str(directory / "new.tar"), "--store", key],
        ["restore-backup", str(directory / "b.tar"), made, "--store", key],
        ["--at", made, "import", "--whole", str(directory / "e.tar"), "--as", key],
        ["migrate", at, made, "--store", key],
    ]


@pytest.mark.parametrize("key", BAD)
def test_on_the_command_line_it_ends_with_2(key: str, at: str, tmp_path: Path) -> None:
    """With a sentence, whatever the command; nothing is written."""
    for command in commands(at, tmp_path, key):
        if key in command:
            from click.testing import CliRunner

            from retentive.cli.app import app

            done = CliRunner().invoke(app, command)
            assert (done.exit_code, done.stdout) == (2, ""), command
            assert done.stderr.startswith("Error: a store key m"), command
    assert not (tmp_path / "new.tar").exists()
    with retentive.open(at) as opened:
        assert [info.key for info in opened.stores()] == ["default"]


CALLS: dict[str, Callable[[Retentive, str, Path], object]] = {
    "store": lambda place, key, _: place.store(key),
    "erase": lambda place, key, _: place.erase(key),
    "back_up": lambda place, key, directory: back_up(place.backend, str(directory / "new.tar"), stores=[key]),
    "migrate": lambda place, key, _: migrate(place.backend, open_backend("sqlite://"), stores=[key]),
    "restore": lambda place, key, directory: _restored(directory, key),
    "import_whole": lambda place, key, directory: _imported(directory, key),
}


def _restored(directory: Path, key: str) -> None:
    with open_archive(str(directory / "b.tar")) as archive, retentive.open("sqlite://") as target:
        restore(archive, target.backend, stores=[key])


def _imported(directory: Path, key: str) -> None:
    with open_archive(str(directory / "e.tar")) as archive, retentive.open("sqlite://") as target:
        import_whole(archive, target.backend, key=key)


@pytest.mark.parametrize("key", BAD)
@pytest.mark.parametrize("call", CALLS)
def test_from_python_it_is_invalid_input(call: str, key: str, at: str, tmp_path: Path) -> None:
    with retentive.open(at) as place, pytest.raises(InvalidInput, match=SAID):
        CALLS[call](place, key, tmp_path)


LOOKING = [["ls"], ["view"], ["log"], ["search", "x"], ["stats"], ["export", "{}/x.tar"], ["audit", "verify"]]


@pytest.mark.parametrize("kind", ["sqlite:///{}/memory.db", "{}/memory"])
def test_looking_makes_no_default_store_where_it_was_erased(kind: str, tmp_path: Path) -> None:
    """It is said not to be there; writing makes it, as at first."""
    place = kind.format(tmp_path)
    assert here(place, "create", "/memories/a", "a").exit_code == 0
    assert here(place, "erase", "--whole-store", "default", "--yes").exit_code == 0
    for command in LOOKING:
        done = here(place, *(part.format(tmp_path) for part in command))
        assert (done.exit_code, done.stderr) == (3, "Error: there is no memory store 'default'\n"), command
    with retentive.open(place) as opened:
        assert opened.stores() == []
        with pytest.raises(NotFound):
            opened.erase("default")
    assert here(place, "create", "/memories/a", "a").exit_code == 0
    assert here(place, "ls").stdout == "1\t/memories/a\n"


def test_files_that_a_person_put_there_are_read(tmp_path: Path) -> None:
    """Before any command wrote there, and after the store was erased."""
    root = tmp_path / "memory"
    (root / "memories").mkdir(parents=True)
    (root / "memories" / "a").write_text("a")
    assert here(str(root), "ls").stdout == "1\t/memories/a\n"
    assert here(str(root), "erase", "--whole-store", "default", "--yes").exit_code == 0
    (root / "memories" / "b").write_text("bb")
    assert here(str(root), "ls").stdout == "2\t/memories/b\n"
