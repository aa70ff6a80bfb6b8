"""Memories on a read-only mount or in a snapshot can be read. Nothing is written, and writes say why."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import retentive
from retentive.storage.contract import Snapshot
from support.command_line import here
from support.commands import create, delete, edit, insert, view
from support.profiles import LONG
from support.targets import BACKENDS, url_of

from .ext4 import why_not

NOTES = "/memories/notes.md"
REFUSED = "Error: /memories/notes.md is read-only"

pytestmark = pytest.mark.skipif(why_not() is not None, reason=str(why_not()))


@contextlib.contextmanager
def read_only(place: Path, mounted: Path) -> Iterator[Path]:
    """A read-only mount of the directory `place`, beside the directory itself."""
    mounted.mkdir()
    subprocess.run(["mount", "--bind", str(place), str(mounted)], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", str(mounted)], check=True)
        yield mounted
    finally:
        subprocess.run(["umount", "--lazy", str(mounted)], check=False)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    made = tmp_path / "place"
    made.mkdir()
    return made


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_closed_store_can_be_read_and_says_that_it_is_read_only(backend: str, place: Path, tmp_path: Path) -> None:
    """Views, listings, searches and history work. A write has a code of its own, which is not retryable."""
    with retentive.open(url_of(backend, place)) as location:
        location.store().create(NOTES, "one")
    with read_only(place, tmp_path / "mounted") as mounted, retentive.open(url_of(backend, mounted)) as location:
        store = location.store()
        assert store.read(NOTES) == "one"
        assert NOTES in store.execute(view("/memories")).text
        assert [found.path for found in store.search("one").hits] == [NOTES]
        for command in (
            create(NOTES, "x"),
            edit("one", "two", NOTES),
            delete(NOTES),
        ):
            reply = store.execute(command)
            assert (reply.text, reply.code) == (REFUSED, "storage_read_only")
        with pytest.raises(retentive.RetentiveError) as caught:
            store.delete(NOTES)
        assert (caught.value.code, caught.value.retryable) == ("storage_read_only", False)
    with retentive.open(url_of(backend, place)) as location:
        assert location.store().read(NOTES) == "one"


@pytest.mark.parametrize("backend", BACKENDS if LONG else ["directory"])
def test_every_command_of_the_command_line_names_the_read_only_place(backend: str, place: Path, tmp_path: Path) -> None:
    with retentive.open(url_of(backend, place)) as location:
        location.store().create(NOTES, "one")
    with read_only(place, tmp_path / "mounted") as mounted:
        at = partial(here, url_of(backend, mounted))
        assert at("cat", "notes.md").stdout == "one"
        assert at("ls").stdout == "3\t/memories/notes.md\n"
        for command in (["create", "notes.md", "x"], ["rm", "notes.md"], ["erase", "notes.md", "--yes"]):
            ended = at(*command)
            assert (ended.exit_code, "read-only" in ended.stderr) == (9, True)
        ended = at("doctor")
        assert (ended.exit_code, "damaged" in ended.stdout) == (0, False)


@pytest.mark.parametrize("with_index", [True, False])
@pytest.mark.parametrize("backend", BACKENDS)
def test_the_log_of_a_killed_process_is_read(backend: str, with_index: bool, place: Path, tmp_path: Path) -> None:
    """A snapshot of a store in use has acknowledged changes only in the log of the database."""
    snapshot = tmp_path / "snapshot"
    with retentive.open(url_of(backend, place)) as location:
        location.store().create(NOTES, "one")
        shutil.copytree(place, snapshot)
    if not with_index:
        for index in snapshot.rglob("*-shm"):
            index.unlink()
    assert any(log.stat().st_size for log in snapshot.rglob("*-wal"))
    before = sorted(snapshot.rglob("*"))
    with read_only(snapshot, tmp_path / "mounted") as mounted:
        assert here(url_of(backend, mounted), "cat", "notes.md").stdout == "one"
        assert here(url_of(backend, mounted), "doctor").exit_code == 0
    assert sorted(snapshot.rglob("*")) == before


@pytest.mark.parametrize("backend", BACKENDS)
def test_changes_beside_a_read_only_mount_are_seen(backend: str, place: Path, tmp_path: Path) -> None:
    """Another process writes where the same directory is mounted for writing, as with `docker -v memory:/memory:ro`."""
    with retentive.open(url_of(backend, place)) as location:
        location.store().create(NOTES, "one")
    with read_only(place, tmp_path / "mounted") as mounted, retentive.open(url_of(backend, mounted)) as location:
        store = location.store()
        assert store.read(NOTES) == "one"
        with retentive.open(url_of(backend, place)) as writer:
            for number in range(5):
                writer.store().execute(insert(0, str(number), NOTES))
                assert store.read(NOTES) == writer.store().read(NOTES)
        assert store.read(NOTES).splitlines() == ["4", "3", "2", "1", "0", "one"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_read_during_a_change_runs_again(backend: str, place: Path, tmp_path: Path) -> None:
    """Without locks and log, a read may see pages of two states."""
    with retentive.open(url_of(backend, place)) as location:
        location.store().create(NOTES, "one")
    runs: list[int] = []

    def work(snapshot: Snapshot) -> bytes | None:
        if not runs:
            with retentive.open(url_of(backend, place)) as writer:
                writer.store().write(NOTES, "two")
        runs.append(1)
        return snapshot.get(NOTES).data

    with read_only(place, tmp_path / "mounted") as mounted, retentive.open(url_of(backend, mounted)) as location:
        assert location.backend.read(location.store().id, work) == b"two"
    assert len(runs) == 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_audited_store_is_read_without_entries(
    backend: str, place: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Reads and refused reads answer as elsewhere. The log keeps its entries, and one warning says what is missing."""
    with retentive.open(url_of(backend, place)) as location:
        location.store().create(NOTES, "one")
        location.store().change_settings({"audit": True})
    with read_only(place, tmp_path / "mounted") as mounted, retentive.open(url_of(backend, mounted)) as location:
        store = location.store()
        assert store.read(NOTES) == "one"
        assert NOTES in store.execute(view("/memories")).text
        assert store.execute(view("/memories/none")).code == "not_found"
        assert [found.path for found in store.search("one").hits] == [NOTES]
        assert store.history.log(NOTES)[-1].operation == "created"
        assert location.store().read_only().read(NOTES) == "one"
        assert store.execute(delete(NOTES)).text == REFUSED
        assert [entry.operation for entry in store.audit.entries()] == ["settings"]
        assert here(url_of(backend, mounted), "cat", "notes.md").exit_code == 0
    warnings = [record.getMessage() for record in caplog.records]
    assert warnings == ["reads leave no audit entry: the storage is read-only"]


def test_a_file_that_was_edited_by_hand_is_read_as_it_is(place: Path, tmp_path: Path) -> None:
    """The edit cannot be recorded where nothing can be written, but it is what the file says."""
    with retentive.open(place) as location:
        location.store().create(NOTES, "one")
        location.store().create("/memories/other.md", "other")
    (place / "memories" / "notes.md").write_text("edited")
    with read_only(place, tmp_path / "mounted") as mounted, retentive.open(mounted) as location:
        store = location.store()
        assert store.read(NOTES) == "edited"
        assert [version.operation for version in store.history.log(NOTES)] == ["modified", "created"]
        assert store.execute(delete(NOTES)).text == REFUSED
        assert store.read("/memories/other.md") == "other"
    assert (place / "memories" / "notes.md").read_text() == "edited"


def test_a_directory_that_was_never_opened_can_be_read(place: Path, tmp_path: Path) -> None:
    (place / "memories").mkdir()
    (place / "memories" / "notes.md").write_text("one")
    with read_only(place, tmp_path / "mounted") as mounted, retentive.open(mounted) as location:
        store = location.store()
        assert store.read(NOTES) == "one"
        assert store.execute(delete(NOTES)).text == REFUSED
    assert [file.name for file in place.iterdir()] == ["memories"]
