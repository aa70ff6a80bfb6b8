"""Reads of a directory that are answered from memory never differ from those answered by the database."""

from __future__ import annotations

import os
import random
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import CodeType, FrameType

import pytest

import retentive
from retentive import MemoryStore
from retentive.storage.contract import Version
from retentive.storage.files import cache, tree
from retentive.storage.files.backend import DirectoryBackend
from retentive.storage.files.cache import NotCached
from retentive.storage.files.known import KnownFiles, MemoryRow
from retentive.storage.files.observer import FilesObserver
from retentive.storage.files.transaction import CachedSnapshot
from retentive.storage.sql import snapshot
from retentive.storage.sql.connection import Row
from retentive.storage.sqlite.connection import SqliteConnection
from support.second_process import SecondProcess

SETTLED_S = 0.03  # older than a clock tick, so that marks are trusted
NAMES = ("a.txt", "d/b.txt", "d/e/c.txt")
LIST: dict[str, object] = {"command": "view", "path": "/memories"}


def view(name: str) -> dict[str, object]:
    return {"command": "view", "path": f"/memories/{name}"}


def functions_called(work: Callable[[], object]) -> set[CodeType]:
    found: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            found.add(frame.f_code)

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return found


def uses_database(store: MemoryStore, command: dict[str, object]) -> bool:
    """Return True if a command reads the store in a transaction."""
    return snapshot.select_head.__code__ in functions_called(lambda: store.execute(command))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "memory"


@pytest.fixture
def root(place: Path) -> Path:
    return place / "memories"


@pytest.fixture
def store(place: Path) -> Iterator[MemoryStore]:
    """A store whose reads are all answered from memory."""
    with retentive.open(place) as opened:
        made = opened.store()
        for name in NAMES:
            made.execute({"command": "create", "path": f"/memories/{name}", "file_text": f"text of {name}"})
        time.sleep(SETTLED_S)
        warm(made)
        yield made


@pytest.fixture
def files(store: MemoryStore) -> FilesObserver:
    """Files of `store`. Nothing else changes them, so a test may assume fine times on every file system."""
    backend = store._core.backend
    assert isinstance(backend, DirectoryBackend)
    return backend._files


def warm(store: MemoryStore) -> None:
    for _ in range(3):
        for command in (LIST, view("d"), *map(view, NAMES)):
            store.execute(command)
    assert not any(uses_database(store, command) for command in (LIST, view("d"), *map(view, NAMES)))


def test_reads_of_unchanged_files_run_no_transaction(store: MemoryStore) -> None:
    """The fixture checks it. Every commit, also of the same process, ends it for one read of each."""
    store.execute({"command": "create", "path": "/memories/new", "file_text": ""})
    assert uses_database(store, view("a.txt"))
    assert not uses_database(store, view("a.txt"))


def test_files_that_this_process_wrote_are_not_read(store: MemoryStore, files: FilesObserver) -> None:
    """If each change of a file gets another time, its mark is known from the write on."""
    files._scratch.has_fine_times = True
    commands: list[dict[str, object]] = [
        {"command": "create", "path": "/memories/new", "file_text": "one"},
        {"command": "str_replace", "path": "/memories/new", "old_str": "one", "new_str": "two"},
        {"command": "rename", "old_path": "/memories/new", "new_path": "/memories/d/newer"},
        view("d/newer"),
        LIST,
        {"command": "insert", "path": "/memories/d/newer", "insert_line": 0, "insert_text": "top"},
        {"command": "rename", "old_path": "/memories/d", "new_path": "/memories/f"},
        LIST,
        {"command": "delete", "path": "/memories/f/newer"},
    ]
    for command in commands:
        called = functions_called(lambda command=command: store.execute(command))  # type: ignore[misc]
        assert tree._read.__code__ not in called, command


def test_files_that_a_batch_wrote_are_not_read(store: MemoryStore, files: FilesObserver) -> None:
    """Only the first of them was examined before the commit. The others were examined after it."""
    files._scratch.has_fine_times = True
    edits: list[dict[str, object]] = [
        {"command": "str_replace", "path": f"/memories/{name}", "old_str": "text", "new_str": "words"} for name in NAMES
    ]
    store.batch(edits)
    known = files.known(store.id)
    assert known is not None
    for name in NAMES:
        version, mark = known.marks[f"/memories/{name}"]
        assert version == store.versions(path=f"/memories/{name}")[0].id
        assert known.tree.has_mark(f"/memories/{name}", mark)
        called = functions_called(lambda name=name: store.execute(view(name)))  # type: ignore[misc]
        assert tree._read.__code__ not in called
        assert store.execute(view(name)).text.endswith(f"\twords of {name}")


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths below which all files were compared with their records."""
    found: list[str] = []
    original = KnownFiles.is_listed

    def is_listed(known: KnownFiles, under: str, rows: list[MemoryRow]) -> bool:
        found.append(under)
        return original(known, under, rows)

    monkeypatch.setattr(KnownFiles, "is_listed", is_listed)
    return found


def test_a_read_of_the_history_compares_the_files_once(store: MemoryStore, compared: list[str]) -> None:
    """Although it begins with the records in memory, and then needs the database."""
    assert len(store.history.log()) == len(NAMES)
    assert compared == ["/memories"]


def test_files_are_compared_again_after_a_commit_in_between(
    place: Path, root: Path, store: MemoryStore, compared: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with retentive.open(place) as other:

        def versions(*_: object, **__: object) -> Iterator[Version]:
            other.store().execute({"command": "create", "path": "/memories/other", "file_text": "by another handle"})
            (root / "a.txt").write_text("edited\n", "utf-8")
            raise NotCached

        monkeypatch.setattr(CachedSnapshot, "versions", versions)
        changed = [version.path for version in store.history.log()]
    assert changed[:2] == ["/memories/a.txt", "/memories/other"]
    assert compared.count("/memories") > 1


def test_other_handles_and_processes_are_seen_at_once(place: Path, store: MemoryStore) -> None:
    """A view after the reply to a change always shows it."""
    with SecondProcess() as another, retentive.open(place) as opened:
        another.open(str(place))
        handle = opened.store()
        for number in range(20):
            old, new = str(number - 1) if number else "text of a.txt", str(number)
            change: dict[str, object] = {"command": "str_replace", "path": "/memories/a.txt"}
            change |= {"old_str": old, "new_str": new}
            said = another.execute(change) if number % 2 else handle.execute(change).text
            assert said.startswith("The memory file has been edited")
            assert store.execute(view("a.txt")).text.endswith(f"\t{new}")
            assert store.execute(view("a.txt")).text.endswith(f"\t{new}")
            assert f"{len(new)}B\t/memories/a.txt" in store.execute(LIST).text


def test_a_change_of_the_database_by_another_program_is_seen(place: Path, store: MemoryStore) -> None:
    """A text that was damaged in the database is not shown any more."""
    with closing(sqlite3.connect(place / ".retentive" / "memory.db")) as other, other:
        other.execute("UPDATE versions SET text = CAST('text of A.txt' AS BLOB) WHERE path = '/memories/a.txt'")
    assert store.execute(view("a.txt")).text == "Error: The memory /memories/a.txt is damaged"


@pytest.mark.parametrize("name", ["memories", "memories/d", "memories/d/e"])
def test_a_link_in_place_of_a_directory_is_not_followed(place: Path, store: MemoryStore, name: str) -> None:
    """Even if it leads to the same unchanged files."""
    (place / name).rename(place / "elsewhere")
    (place / name).symlink_to(place / "elsewhere")
    said = store.execute(view("d/e/c.txt"))
    assert said.is_error
    assert "text of" not in said.text
    assert "c.txt" not in store.execute(LIST).text


def test_replaced_empty_directories_and_links_are_seen(root: Path, store: MemoryStore) -> None:
    """Entries that are no memories belong to what a listing compares."""
    (root / "empty").mkdir()
    (root / "link").symlink_to("nowhere")
    assert store.execute(LIST).text.count("\n") == 5
    warm(store)
    (root / "empty" / "new.txt").write_text("new")
    (root / "link").unlink()
    (root / "link").write_text("no link")
    said = store.execute(LIST).text
    assert "3B\t/memories/empty/new.txt" in said
    assert "7B\t/memories/link" in said


def test_settings_of_another_handle_apply_at_once(place: Path, store: MemoryStore) -> None:
    """The revision of the store stays the same, but the cached head does not."""
    with retentive.open(place) as opened:
        opened.store().change_settings({"list_rows": 1})
    assert "[Truncated: 1 of " in store.execute(LIST).text


def test_a_full_cache_drops_everything(monkeypatch: pytest.MonkeyPatch, store: MemoryStore) -> None:
    """The replies do not depend on the limit."""
    expected = [store.execute(command).text for command in (LIST, *map(view, NAMES))]
    for limit in (0, 1_100, 2_200):
        monkeypatch.setattr(cache, "_MAX_BYTES", limit)
        store.execute({"command": "create", "path": f"/memories/.{limit}", "file_text": ""})
        for _ in range(3):
            assert [store.execute(command).text for command in (LIST, *map(view, NAMES))] == expected


def test_a_forked_child_and_its_parent_read_and_write(store: MemoryStore) -> None:
    """The connection of the cache is closed before the fork, and opened again in both."""
    child = os.fork()
    if child == 0:
        change = {"command": "create", "path": "/memories/child", "file_text": "by the child"}
        done = not store.execute(change).is_error and "text of" in store.execute(view("a.txt")).text
        os._exit(0 if done else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert store.execute(view("child")).text.endswith("by the child")
    warm(store)


def test_an_erased_store_is_gone_at_once(place: Path, store: MemoryStore) -> None:
    """Nothing of it is answered from memory."""
    with retentive.open(place) as opened:
        opened.erase("default")
    assert store.execute(view("a.txt")).is_error
    assert "text of" not in store.execute(view("a.txt")).text


def number(position: int) -> str:
    return f"n/{position:03d}.txt"


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths that the cache loaded because they were needed; a path twice if it was loaded twice."""
    found: list[str] = []
    original = cache.CachedRecords._load

    def load(
        records: cache.CachedRecords, path: str, connection: SqliteConnection
    ) -> tuple[cache.MarkedEntry, dict[str, Row]]:
        found.append(path)
        return original(records, path, connection)

    monkeypatch.setattr(cache.CachedRecords, "_load", load)
    return found


@pytest.fixture
def many(place: Path) -> Iterator[MemoryStore]:
    """A store of 300 memories whose first reads were made, so that the next ones use the cache."""
    with retentive.open(place) as opened:
        made = opened.store()
        for position in range(300):
            created = {"command": "create", "path": f"/memories/{number(position)}", "file_text": f"text {position}"}
            assert not made.execute(created).is_error
        made.execute(view(number(0)))
        made.execute(view(number(1)))
        yield made


def test_memories_that_are_viewed_in_turn_are_loaded_ahead(many: MemoryStore, loaded: list[str]) -> None:
    for position in range(300):
        assert many.execute(view(number(position))).text.endswith(f"\ttext {position}")
    assert len(loaded) < 30


def test_memories_that_are_viewed_at_random_are_loaded_ahead_too(many: MemoryStore, loaded: list[str]) -> None:
    order = list(range(300))
    random.Random(1).shuffle(order)
    for position in order:
        assert many.execute(view(number(position))).text.endswith(f"\ttext {position}")
    assert len(loaded) < 250


def test_views_of_few_of_many_memories_load_a_quarter_more(many: MemoryStore, loaded: list[str]) -> None:
    """As long as no memory that was loaded ahead is viewed."""
    for position in range(0, 300, 9):
        many.execute(view(number(position)))
        assert len(records_of(many).ahead) <= len(loaded) / 4
    assert len(loaded) == 34
    assert records_of(many).ahead


@pytest.mark.parametrize(
    ("damaged", "is_ahead"), [("CAST('text X' AS BLOB)", True), ("'text 27'", False), ("7", False), ("NULL", False)]
)
def test_a_text_that_was_loaded_ahead_is_verified(
    place: Path, many: MemoryStore, loaded: list[str], damaged: str, *, is_ahead: bool
) -> None:
    """Texts that are missing or of another type are not loaded ahead."""
    with closing(sqlite3.connect(place / ".retentive" / "memory.db")) as other, other:
        other.execute(f"UPDATE versions SET text = {damaged} WHERE path LIKE '%/027.txt'")
    said = [many.execute(view(number(position))).text for position in range(40)]
    assert f"/memories/{number(26)}" not in loaded
    assert (f"/memories/{number(27)}" in loaded) != is_ahead
    assert said[27] == f"Error: The memory /memories/{number(27)} is damaged"
    assert all(text.endswith(f"\ttext {position}") for position, text in enumerate(said) if position != 27)


@pytest.mark.parametrize("damaged", ["'text of a.txt'", "7", "NULL"])
def test_a_text_of_another_type_is_damaged(place: Path, root: Path, store: MemoryStore, damaged: str) -> None:
    """The file is read, because its times differ. It has the recorded text, so it is not an external edit."""
    with closing(sqlite3.connect(place / ".retentive" / "memory.db")) as other, other:
        other.execute(f"UPDATE versions SET text = {damaged} WHERE path LIKE '%/a.txt'")
    os.utime(root / "a.txt", (1, 1))
    for _ in range(3):
        assert store.execute(view("a.txt")).text == "Error: The memory /memories/a.txt is damaged"
    edit = {"command": "insert", "path": "/memories/a.txt", "insert_line": 0, "insert_text": "top"}
    assert store.execute(edit).text == "Error: The memory /memories/a.txt is damaged"
    assert (root / "a.txt").read_text() == "text of a.txt"
    assert [version.operation for version in store.versions(path="/memories/a.txt")] == ["created"]


def test_large_texts_are_not_loaded_ahead(many: MemoryStore, loaded: list[str]) -> None:
    large = "line\n" * 4_000
    for position in range(20, 30):
        many.execute({"command": "delete", "path": f"/memories/{number(position)}"})
        many.execute({"command": "create", "path": f"/memories/{number(position)}", "file_text": large})
    loaded.clear()
    for position in range(80):
        assert not many.execute(view(number(position))).is_error
    assert {f"/memories/{number(position)}" for position in range(20, 30)} <= set(loaded)
    assert len(loaded) < 50


def test_a_full_cache_drops_rows_that_were_loaded_ahead_too(many: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_MAX_BYTES", 40_000)  # each record counts as more than 1,000 bytes
    order = list(range(300))
    random.Random(1).shuffle(order)
    most_ahead = 0
    for position in order:
        assert many.execute(view(number(position))).text.endswith(f"\ttext {position}")
        records = records_of(many)
        most_ahead = max(most_ahead, len(records.ahead))
        assert len(records.entries) + len(records.ahead) < 40
    assert most_ahead > 1


def test_a_change_of_a_memory_that_was_loaded_ahead_is_seen(place: Path, root: Path, many: MemoryStore) -> None:
    for position in range(25):
        many.execute(view(number(position)))
    ahead = sorted(records_of(many).ahead)
    assert len(ahead) > 1
    (root / ahead[0].removeprefix("/memories/")).write_text("edited\n", "utf-8")
    assert many.execute({"command": "view", "path": ahead[0]}).text.endswith("\tedited")
    with retentive.open(place) as other:
        other.store().execute({"command": "delete", "path": ahead[1]})
    assert many.execute({"command": "view", "path": ahead[1]}).is_error


def records_of(store: MemoryStore) -> cache.CachedRecords:
    backend = store._core.backend
    assert isinstance(backend, DirectoryBackend)
    return backend._cache._state.stores[store.id]
