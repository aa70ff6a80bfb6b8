"""Every command rejects invalid keys of memory stores. Reading never creates a memory store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import retentive
from retentive import InvalidInput, NotFound, Retentive
from retentive.locations import open_backend
from retentive.transfer.archive import open_archive
from retentive.transfer.export import back_up, export_whole
from retentive.transfer.restore import import_whole, migrate, restore
from support.command_line import here

BAD = ["\udcff", "a\0b", "", "x" * 256, "a\nb"]
SAID = "a store key (must have 1 to 255 characters|must not contain control characters or lone surrogates)"


@pytest.fixture
def at(tmp_path: Path) -> str:
    """Location with one memory, and an export and a backup beside it."""
    location = f"sqlite:///{tmp_path}/memory.db"
    with retentive.open(location) as opened:
        store = opened.store()
        store.execute({"command": "create", "path": "/memories/a", "file_text": "a"})
        export_whole(store, str(tmp_path / "e.tar"))
        back_up(opened.backend, str(tmp_path / "b.tar"))
    return location


CALLS: dict[str, Callable[[Retentive, str, Path], object]] = {
    "store": lambda location, key, _: location.store(key),
    "erase": lambda location, key, _: location.erase(key),
    "back_up": lambda location, key, directory: back_up(location.backend, str(directory / "new.tar"), stores=[key]),
    "migrate": lambda location, key, _: migrate(location.backend, open_backend("sqlite://"), stores=[key]),
    "restore": lambda location, key, directory: _restored(directory, key),
    "import_whole": lambda location, key, directory: _imported(directory, key),
}


def _restored(directory: Path, key: str) -> None:
    with open_archive(str(directory / "b.tar")) as archive, retentive.open("sqlite://") as target:
        restore(archive, target.backend, stores=[key])


def _imported(directory: Path, key: str) -> None:
    with open_archive(str(directory / "e.tar")) as archive, retentive.open("sqlite://") as target:
        import_whole(archive, target.backend, key=key)


@pytest.mark.parametrize("key", BAD)
@pytest.mark.parametrize("call", CALLS)
def test_python_raises_invalid_input(call: str, key: str, at: str, tmp_path: Path) -> None:
    with retentive.open(at) as location, pytest.raises(InvalidInput, match=SAID):
        CALLS[call](location, key, tmp_path)


MISSING = "Error: there is no memory store 'default'; `retentive stores` lists the existing ones\n"
READING = [["ls"], ["view"], ["log"], ["search", "x"], ["export", "{}/x.tar"]]
READING += [["admin", "stats"], ["admin", "audit", "verify"]]


@pytest.mark.parametrize("kind", ["sqlite:///{}/memory.db", "{}/memory"])
def test_reading_does_not_recreate_an_erased_default_store(kind: str, tmp_path: Path) -> None:
    """A read reports that the store does not exist. A write creates it."""
    location = kind.format(tmp_path)
    assert here(location, "create", "/memories/a", "a").exit_code == 0
    assert here(location, "erase", "--whole-store", "--store", "default", "--yes").exit_code == 0
    for command in READING:
        done = here(location, *(part.format(tmp_path) for part in command))
        assert (done.exit_code, done.stderr) == (3, MISSING), command
    with retentive.open(location) as opened:
        assert opened.stores() == []
        with pytest.raises(NotFound):
            opened.erase("default")
    assert here(location, "create", "/memories/a", "a").exit_code == 0
    assert here(location, "ls").stdout == "1\t/memories/a\n"


def test_external_files_are_read(tmp_path: Path) -> None:
    """The files are read before the first command, and after the store was erased."""
    root = tmp_path / "memory"
    (root / "memories").mkdir(parents=True)
    (root / "memories" / "a").write_text("a")
    assert here(str(root), "ls").stdout == "1\t/memories/a\n"
    assert here(str(root), "erase", "--whole-store", "--store", "default", "--yes").exit_code == 0
    (root / "memories" / "b").write_text("bb")
    assert here(str(root), "ls").stdout == "2\t/memories/b\n"
