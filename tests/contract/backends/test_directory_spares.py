"""Replaced files are used for later texts, and never show one text in place of another."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

import retentive
from retentive import MemoryStore
from retentive.errors import StoreFull
from retentive.storage import spares
from retentive.storage.files import observer
from retentive.storage.spares import could_be_torn
from support.second_process import SecondProcess

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows that no other program uses a file")
SYNC_AFTER = 8
A = "/memories/a.txt"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "memory"


@pytest.fixture
def file(place: Path) -> Path:
    return place / "memories" / "a.txt"


@pytest.fixture
def store(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MemoryStore]:
    monkeypatch.setattr(observer, "SYNC_AFTER", SYNC_AFTER)
    monkeypatch.setattr(spares, "NEEDED_BYTES", 0)
    with retentive.open(place) as opened:
        made = opened.store()
        made.execute({"command": "create", "path": A, "file_text": "0\n"})
        yield made
    assert os.listdir(place / ".retentive" / "tmp") == []


def edit(store: MemoryStore, number: int, path: str = A) -> None:
    command = {"command": "str_replace", "path": path, "old_str": str(number), "new_str": str(number + 1)}
    assert not store.execute(command).is_error


def sync(store: MemoryStore) -> None:
    for number in range(SYNC_AFTER):
        store.execute({"command": "create", "path": f"/memories/.sync/{number}", "file_text": ""})
    store.execute({"command": "delete", "path": "/memories/.sync"})


def left(place: Path) -> dict[int, bytes]:
    """Inode and contents of each file that was kept."""
    found = (place / ".retentive" / "tmp").iterdir()
    return {path.stat().st_ino: path.read_bytes() for path in found if path.stat().st_size}


def test_a_replaced_file_is_used_after_the_next_sync(place: Path, file: Path, store: MemoryStore) -> None:
    """Until then it has only zeros. No file is created or removed any more, and all texts are right."""
    seen = set()
    for number in range(SYNC_AFTER // 2):
        seen.add(file.stat().st_ino)
        edit(store, number)
        assert set(left(place)) == seen  # a file that is used again would not be here
        assert file.stat().st_ino not in seen
        assert set(left(place).values()) == {b"\0\0"}
    sync(store)
    before = file.stat().st_ino
    edit(store, SYNC_AFTER // 2)
    assert file.stat().st_ino in seen
    assert before in left(place)
    assert file.read_text() == f"{SYNC_AFTER // 2 + 1}\n"
    store.execute({"command": "create", "path": "/memories/b.txt", "file_text": "longer than before\n"})
    made = file.with_name("b.txt")
    assert made.stat().st_ino in seen
    assert made.read_text() == "longer than before\n"
    assert [str(version.actor) for version in store.versions() if version.actor] == []


def has_reader(file: Path, keep: list[TextIO]) -> None:
    keep.append(file.open())


def has_link(file: Path, keep: list[TextIO]) -> None:
    os.link(file, file.parents[2] / "backup")


def has_mode(file: Path, keep: list[TextIO]) -> None:
    file.chmod(0o644)


def has_attribute(file: Path, keep: list[TextIO]) -> None:
    os.setxattr(file, "user.note", b"x")


@pytest.mark.parametrize("use", [has_reader, has_link, has_mode, has_attribute])
def test_a_file_that_others_use_is_left_alone(
    place: Path, tmp_path: Path, use: Callable[[Path, list[TextIO]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is removed as soon as it is replaced. An open reader and a hard link keep the old text."""
    monkeypatch.setattr(spares, "NEEDED_BYTES", 0)
    keep: list[TextIO] = []
    with retentive.open(place) as opened:
        store = opened.store()
        store.execute({"command": "create", "path": A, "file_text": "0\n"})
        file = place / "memories" / "a.txt"
        try:
            use(file, keep)
        except OSError:
            pytest.skip("the file system has no extended attributes")
        edit(store, 0)
        assert left(place) == {}
        edit(store, 1)
        assert list(left(place).values()) == [b"\0\0"]
    for reader in keep:
        with reader:
            assert reader.read() == "0\n"
    if use is has_link:
        assert (tmp_path / "backup").read_text() == "0\n"


def test_a_spare_with_a_new_link_is_not_used(place: Path, file: Path, store: MemoryStore) -> None:
    """As a backup with hard links makes them."""
    edit(store, 0)
    spare = next(path for path in (place / ".retentive" / "tmp").iterdir() if path.stat().st_size)
    os.link(spare, place / "backup")
    sync(store)
    edit(store, 1)
    assert (place / "backup").read_bytes() == b"\0\0"
    assert file.read_text() == "2\n"


def test_a_sync_of_another_process_counts(place: Path, file: Path, store: MemoryStore) -> None:
    """The journal says up to which version the files were synced."""
    edit(store, 0)
    spare = set(left(place))
    with SecondProcess() as another:
        another.open(str(place))
        for number in range(observer.SYNC_AFTER * 80):  # the other process has the usual number
            another.execute({"command": "create", "path": f"/memories/.{number}", "file_text": ""})
        edit(store, 1)
        assert {file.stat().st_ino} == spare


def test_a_forked_child_leaves_the_spares_of_its_parent(place: Path, file: Path, store: MemoryStore) -> None:
    """Otherwise both would write to one file."""
    edit(store, 0)
    sync(store)
    spare = set(left(place))
    child = os.fork()
    if child == 0:
        edit(store, 1)
        store._core.backend.close()
        os._exit(0 if file.stat().st_ino not in spare else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert spare <= set(left(place))
    edit(store, 2)
    assert file.stat().st_ino in spare


@pytest.mark.parametrize("torn", [b"\0\0\0\0", b"one\0\0\0", b"\0\0\0\0two\n", b"one two\n\0\0", b"\0ew \0wo"])
def test_recovery_rewrites_a_file_that_was_partly_written(place: Path, torn: bytes) -> None:
    """After a power cut, a reused file may have zeros in place of a part of its text, or after it."""
    child = os.fork()
    if child == 0:
        store = retentive.open(place).store()
        for text in ("one two\n", "new two\n"):
            store.execute({"command": "delete", "path": A})
            store.execute({"command": "create", "path": A, "file_text": text})
        os._exit(0)
    os.waitpid(child, 0)
    file = place / "memories" / "a.txt"
    file.write_bytes(torn)
    with retentive.open(place) as opened:
        assert opened.store().read(A) == "new two\n"
        assert file.read_bytes() == b"new two\n"
        assert [str(one.actor) for one in opened.store().versions() if one.actor] == []


def test_text_of_another_memory_is_no_torn_file(place: Path) -> None:
    """It is an external edit, also if it has zeros: then the memory is gone, and its text is in the history."""
    child = os.fork()
    if child == 0:
        retentive.open(place).store().execute({"command": "create", "path": A, "file_text": "one two\n"})
        os._exit(0)
    os.waitpid(child, 0)
    (place / "memories" / "a.txt").write_bytes(b"one\0too\n")
    with retentive.open(place) as opened:
        assert opened.store().execute({"command": "view", "path": A}).is_error
        assert (place / "memories" / "a.txt").read_bytes() == b"one\0too\n"


def test_a_full_disk_frees_the_spares(place: Path, store: MemoryStore) -> None:
    """They are removed before a command is refused, and the command is tried again."""
    backend = store._core.backend
    edit(store, 0)
    assert left(place) != {}
    calls = []

    def work(_tx: object) -> str:
        calls.append(set(left(place)))
        if len(calls) == 1:
            raise StoreFull("full")
        return "done"

    assert backend.write(store.id, work) == "done"
    assert calls[0] != set()
    assert calls[1] == set()


TEXTS = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=40).map(str.encode)


@given(TEXTS, st.data())
def test_any_zeroed_part_of_a_text_can_be_torn(text: bytes, data: st.DataObject) -> None:
    kept = data.draw(st.lists(st.booleans(), min_size=len(text), max_size=len(text)))
    found = bytes(byte if keep else 0 for byte, keep in zip(text, kept, strict=True))
    assert could_be_torn(found + bytes(data.draw(st.integers(0, 5))), text)
    assert could_be_torn(found[: data.draw(st.integers(0, len(found)))], text)


@given(TEXTS, TEXTS)
def test_any_other_byte_is_no_torn_text(found: bytes, text: bytes) -> None:
    assert could_be_torn(found, text) == text.startswith(found)


def test_spares_need_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a disk that is almost full, a replaced file is removed at once."""
    monkeypatch.setattr(spares, "NEEDED_BYTES", shutil.disk_usage(tmp_path).total + 1)
    with retentive.open(tmp_path / "memory") as opened:
        store = opened.store()
        store.execute({"command": "create", "path": A, "file_text": "0\n"})
        edit(store, 0)
        assert left(tmp_path / "memory") == {}
