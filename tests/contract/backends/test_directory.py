"""Memories as plain files: edits by other programs are detected, recorded and never lost."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

import pytest
from anthropic.tools import BetaLocalFilesystemMemoryTool

import retentive
from retentive import MemoryStore, MemoryTool
from retentive.storage.contract import Transaction, create_or_update
from support.commands import create, delete, edit, insert, rename, view
from support.places import OpenPlace
from support.profiles import LONG, combined
from support.second_process import SecondProcess

OLDER, NOW = "older\nsecond\n", "first\nsecond\n"
START = {"a.txt": NOW, "d/b.txt": "b\n", "d/e/c.txt": "c\n"}
TAKES_EFFECT = 0.025  # seconds after which the next modification of a file gets another timestamp


def replace_as_editors_do(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.swp")
    temporary.write_text(text)
    temporary.replace(path)


def change_in_place(path: Path, text: str, *, keep_time: bool = False) -> None:
    before = path.stat()
    with path.open("r+") as file:
        file.write(text)
        file.truncate()
    if keep_time:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def make(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def swap(one: Path, other: Path) -> None:
    between = one.with_name(".between")
    one.rename(between)
    other.rename(one)
    between.rename(other)


def file_for_directory(path: Path, text: str) -> None:
    shutil.rmtree(path)
    path.write_text(text)


def directory_for_file(path: Path, name: str, text: str) -> None:
    path.unlink()
    make(path / name, text)


def do_several(root: Path) -> None:
    append(root / "a.txt", "x")
    (root / "d/b.txt").unlink()
    make(root / "z", "z")


@dataclass(frozen=True)
class Edit:
    """An external edit below `memories/`, and the versions that it must add, as `operation path` in any order."""

    do: Callable[[Path], object]
    versions: tuple[str, ...]
    text: str | None = None  # contents of a.txt after the edit, if the edit changes them


A, B, C = "modified a.txt", "modified d/b.txt", "modified d/e/c.txt"
ALL_GONE = ("deleted a.txt", "deleted d/b.txt", "deleted d/e/c.txt")
EDITS: dict[str, Edit] = {
    "create": Edit(lambda root: make(root / "new.txt", "new"), ("created new.txt",)),
    "create_empty": Edit(lambda root: make(root / "new.txt", ""), ("created new.txt",)),
    "create_deep": Edit(lambda root: make(root / "x/y/z.txt", "z"), ("created x/y/z.txt",)),
    "same_size": Edit(lambda root: change_in_place(root / "a.txt", "First\nsecond\n"), (A,), "First\nsecond\n"),
    "same_size_and_time": Edit(
        lambda root: change_in_place(root / "a.txt", "FIRST\nsecond\n", keep_time=True), (A,), "FIRST\nsecond\n"
    ),
    "by_an_editor": Edit(
        lambda root: replace_as_editors_do(root / "a.txt", "First\nsecond\n"), (A,), "First\nsecond\n"
    ),
    "append": Edit(lambda root: append(root / "a.txt", "third"), (A,), NOW + "third"),
    "empty": Edit(lambda root: os.truncate(root / "a.txt", 0), (A,), ""),
    "revert": Edit(lambda root: change_in_place(root / "a.txt", OLDER), (A,), OLDER),
    "prefix": Edit(lambda root: os.truncate(root / "a.txt", 6), (A,), "first\n"),
    "delete": Edit(lambda root: (root / "a.txt").unlink(), ("deleted a.txt",)),
    "delete_directory": Edit(lambda root: shutil.rmtree(root / "d"), ALL_GONE[1:]),
    "rename": Edit(lambda root: (root / "a.txt").rename(root / "d/a.txt"), ("deleted a.txt", "created d/a.txt")),
    "rename_over": Edit(lambda root: (root / "a.txt").rename(root / "d/b.txt"), ("deleted a.txt", B)),
    "rename_directory": Edit(
        lambda root: (root / "d").rename(root / "n"), (*ALL_GONE[1:], "created n/b.txt", "created n/e/c.txt")
    ),
    "swap": Edit(lambda root: swap(root / "d/b.txt", root / "d/e/c.txt"), (B, C)),
    "file_for_directory": Edit(lambda root: file_for_directory(root / "d", "file"), (*ALL_GONE[1:], "created d")),
    "directory_for_file": Edit(
        lambda root: directory_for_file(root / "a.txt", "in.txt", "in"), ("deleted a.txt", "created a.txt/in.txt")
    ),
    "memories_removed": Edit(shutil.rmtree, ALL_GONE),
    "several": Edit(
        do_several,
        (A, "deleted d/b.txt", "created z"),
        NOW + "x",
    ),
    "touch": Edit(lambda root: (root / "a.txt").touch(), ()),
    "mode": Edit(lambda root: (root / "a.txt").chmod(0o644), ()),
    "written_again": Edit(lambda root: replace_as_editors_do(root / "a.txt", NOW), ()),
    "there_and_back": Edit(lambda root: [(root / "d").rename(root / "n"), (root / "n").rename(root / "d")], ()),
    "empty_directory": Edit(lambda root: (root / "e/f").mkdir(parents=True), ()),
}
WAYS = ("at_once", "later", "reopened", "while_another_has_it_open")
FIRST_COMMANDS: dict[str, dict[str, object]] = {
    "view_root": view("/memories"),
    "view": view("/memories/a.txt"),
    "refused": edit("not there", "x", "/memories/a.txt"),
}
CASES = list(product(EDITS, FIRST_COMMANDS, WAYS)) if LONG else combined(EDITS, list(FIRST_COMMANDS), WAYS)


@pytest.fixture(scope="module")
def another() -> Iterator[SecondProcess]:
    with SecondProcess() as process:
        yield process


def begin(store: MemoryStore) -> None:
    """Create the state before each edit. The older version of a.txt has the same length as the current one."""
    for name, text in (START | {"a.txt": OLDER}).items():
        assert not store.execute(create(f"/memories/{name}", text)).is_error
    change = edit("older", "first", "/memories/a.txt")
    assert not store.execute(change, actor="session:agent").is_error


def on_disk(root: Path) -> dict[str, str]:
    files = [path for path in root.rglob("*") if path.is_file()]
    return {str(path.relative_to(root)): path.read_text() for path in files}


def in_store(store: MemoryStore) -> dict[str, str]:
    return {memory.path.removeprefix("/memories/"): store.read(memory.path) for memory in store.memories()}


def external_edits(store: MemoryStore) -> list[str]:
    """Return the recorded external edits, as `operation path`."""
    found = [version for version in store.versions() if str(version.actor) == "job:external"]
    return sorted(f"{version.operation} {version.path.removeprefix('/memories/')}" for version in found)


def texts(store: MemoryStore) -> set[str]:
    return {store.version_text(version.id) for version in store.versions() if version.operation != "deleted"}


@pytest.mark.parametrize(("edit", "first", "way"), CASES)
def test_the_next_command_detects_every_external_edit(
    edit: str, first: str, way: str, tmp_path: Path, another: SecondProcess
) -> None:
    """Each edit is recorded exactly once, as an external edit. The older texts remain in the versions."""
    done = EDITS[edit]
    root = tmp_path / "memory" / "memories"
    opened = retentive.open(tmp_path / "memory")
    store = opened.store()
    begin(store)
    if way == "while_another_has_it_open":
        another.open(str(tmp_path / "memory"))
        another.execute(view("/memories"))
    if way in {"later", "reopened"}:
        time.sleep(TAKES_EFFECT)
        for path in ("/memories", "/memories", "/memories/a.txt", "/memories/d") * 2:  # until memory answers them
            store.execute(view(path))
    if way == "reopened":
        opened.close()
    before = set(START.values()) | {OLDER}
    done.do(root)
    wanted = on_disk(root) if root.exists() else {}
    if way == "reopened":
        opened = retentive.open(tmp_path / "memory")
        store = opened.store()
    command = FIRST_COMMANDS[first]
    said = another.execute(command) if way == "while_another_has_it_open" else store.execute(command).text
    if first == "view_root":
        assert external_edits(store) == sorted(done.versions)
    elif done.text is not None and first == "view":
        assert said.split("\n")[1:] == [f"{n:6}\t{line}" for n, line in enumerate(done.text.splitlines(), 1)]
    elif done.text is not None:
        assert A in external_edits(store)  # a refused command records the detected edit too
    assert in_store(store) == wanted == on_disk(root)
    assert external_edits(store) == sorted(done.versions)
    assert before <= texts(store)
    assert set(wanted.values()) <= texts(store)
    assert in_store(store) == wanted
    assert external_edits(store) == sorted(done.versions)
    opened.close()
    another.close()


def test_an_edit_right_after_a_command_is_always_detected(store_in: MemoryStore, root: Path) -> None:
    """In a hundred attempts, an edit of the same size in the same clock tick is never mistaken for the stored file."""
    begin(store_in)
    for number in range(1_000 if LONG else 100):
        command = create(f"/memories/{number}", "0000")
        store_in.execute(command)
        assert store_in.read(f"/memories/{number}") == "0000"
        change_in_place(root / str(number), f"{number:04}", keep_time=True)
        assert store_in.execute(view(f"/memories/{number}")).text.endswith(f"\t{number:04}")
    assert len(external_edits(store_in)) == (999 if LONG else 99)  # the first edit writes the same text again


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "memory"


@pytest.fixture
def root(place: Path) -> Path:
    return place / "memories"


@pytest.fixture
def store_in(place: Path, open_place: OpenPlace) -> MemoryStore:
    return open_place(place).store()


COMMANDS: list[dict[str, object]] = [
    create("/memories/new/x.txt", "x"),
    edit("first", "", "/memories/a.txt"),
    insert(0, "top", "/memories/d/b.txt"),
    rename("/memories/d", "/memories/f/g"),
    rename("/memories/a.txt", "/memories/f/a.txt"),
    delete("/memories/f/g/e"),
    create("/memories/d", "a file now"),
    delete("/memories/f"),
    create("/memories/f", ""),
    delete("/memories/missing"),
]


def test_the_files_equal_the_store_after_every_command(store_in: MemoryStore, root: Path) -> None:
    """The directories agree with the store too: no directory is empty, and none is missing."""
    begin(store_in)
    for command in COMMANDS:
        store_in.execute(command)
        assert on_disk(root) == in_store(store_in)
        assert [path for path in root.rglob("*") if path.is_dir() and not list(path.iterdir())] == []
    assert external_edits(store_in) == []
    store_in.clear()
    assert list(root.iterdir()) == []


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o777])
def test_only_the_owner_can_access_files_and_directories(place: Path, umask: int) -> None:
    """Only the owner has access, whatever the umask of the process is."""
    before = os.umask(umask)
    try:
        if umask == 0o777 and os.geteuid() != 0:
            pytest.skip("only root can go on where the umask leaves no rights")
        with retentive.open(place) as opened:
            begin(opened.store())
            begin(opened.store("second"))
            for command in COMMANDS:
                opened.store().execute(command)
    finally:
        os.umask(before)
    found = {str(path.relative_to(place)): path.lstat().st_mode for path in (place, *place.rglob("*"))}
    assert len(found) > 12
    for name, mode in found.items():
        allowed = 0o700 if stat.S_ISDIR(mode) else 0o600
        assert stat.S_IMODE(mode) == allowed & ~umask, name


@pytest.mark.parametrize("command", [*COMMANDS[1:4], delete("/memories/d")])
def test_a_write_records_an_edit_made_just_before(
    store_in: MemoryStore, root: Path, command: dict[str, object]
) -> None:
    """The edit gets its own version before the version of the command, so that no text is overwritten unrecorded."""
    begin(store_in)
    append(root / "a.txt", "by hand\n")
    append(root / "d/b.txt", "by hand\n")
    assert not store_in.execute(command, actor="session:agent").is_error
    assert {NOW + "by hand\n", "b\nby hand\n"} <= texts(store_in) | set(in_store(store_in).values())
    assert on_disk(root) == in_store(store_in)
    assert external_edits(store_in) == [A, B]


@pytest.mark.parametrize("command", [edit("first", "1st", "/memories/a.txt"), delete("/memories/a.txt")])
def test_an_edit_in_the_last_moment_is_kept(store_in: MemoryStore, root: Path, command: dict[str, object]) -> None:
    """A person saves the file between the last look at it and its replacement or removal."""
    begin(store_in)
    with pytest.MonkeyPatch.context() as patch:

        def late(module: str, name: str, *names: object, **options: object) -> object:
            patch.undo()
            change_in_place(root / "a.txt", "by hand\n")
            return getattr(sys.modules[module], name)(*names, **options)

        for module, name in (("retentive.storage.files.tree", "exchange"), ("os", "rename")):
            patch.setattr(f"{module}.{name}", partial(late, module, name))
        assert not store_in.execute(command).is_error
    assert on_disk(root) == in_store(store_in)
    assert store_in.read("/memories/a.txt") == "by hand\n"
    assert len(external_edits(store_in)) == 1


@pytest.mark.parametrize("is_reopened", [False, True])
def test_a_file_that_could_not_be_written_is_written_later(
    is_reopened: bool, place: Path, root: Path, open_place: OpenPlace
) -> None:
    """The command succeeds, because the text is durable in the database. The old text in the file is no edit."""
    opened = open_place(place)
    begin(opened.store())
    with pytest.MonkeyPatch.context() as patch:

        def failing(_: object, data: bytes) -> str:
            raise OSError(errno.EIO, "the disk failed")

        patch.setattr("retentive.storage.disk.Scratch.write", failing)
        assert not opened.store().execute(edit("first", "1st", "/memories/a.txt")).is_error
    assert (root / "a.txt").read_text() == NOW
    if is_reopened:
        opened.close()
        opened = open_place(place)
    opened.store().write("/memories/z.txt", "z")
    assert on_disk(root) == in_store(opened.store()) == START | {"a.txt": "1st\nsecond\n", "z.txt": "z"}
    assert external_edits(opened.store()) == []


def test_a_refused_create_keeps_a_detected_edit(store_in: MemoryStore, root: Path) -> None:
    make(root / "new.txt", "by hand")
    said = store_in.execute(create("/memories/new.txt", "by the agent"))
    assert said.text == "Error: File /memories/new.txt already exists"
    assert external_edits(store_in) == ["created new.txt"]
    assert (root / "new.txt").read_text() == "by hand"


def test_empty_directories_do_not_block_a_memory(store_in: MemoryStore, root: Path) -> None:
    """A memory can be created at the path of an empty directory that another program made."""
    (root / "x/y/z").mkdir(parents=True)
    assert store_in.execute(view("/memories/x")).is_error
    assert not store_in.execute(create("/memories/x", "file")).is_error
    assert on_disk(root) == {"x": "file"}


def test_files_of_the_sdks_local_tool_are_adopted(place: Path, root: Path) -> None:
    """The files become memories, including hidden and nested files, and each gets an external edit.

    No file is rewritten.
    """
    local = BetaLocalFilesystemMemoryTool(base_path=str(place))
    for name, text in (START | {".hidden": "h", "empty": "", "é/ü": "ö\r\n"}).items():
        local.call(create(f"/memories/{name}", text))
    local.call(delete("/memories/empty"))
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    assert len(before) == 5
    tool = MemoryTool(base_path=place)
    tool.call(view("/memories"))
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before
    assert external_edits(tool.store) == sorted(f"created {path.relative_to(root)}" for path in before)
    tool.call(edit("first", "1st", "/memories/a.txt"))
    assert "1st" in str(local.call(view("/memories/a.txt")))
    local.call(insert(0, "by the local tool\n", "/memories/a.txt"))
    assert "by the local tool" in tool.call(view("/memories/a.txt"))
    tool.close()


def test_a_listing_of_many_external_files_is_complete(store_in: MemoryStore, root: Path) -> None:
    """The directory has more files than a view shows. All files become memories, in the byte order of their paths."""
    names = [f"{number % 7}/{number}.txt" if number % 2 else f"{number}.txt" for number in range(1_500)]
    for name in names:
        make(root / name, name)
    rows = store_in.execute(view("/memories")).text.split("\n")
    shown = sorted([*names, *{name.partition("/")[0] + "/" for name in names if "/" in name}], key=str.encode)
    assert [row.split("\t/memories/")[1] for row in rows[2:-1]] == shown[:1_000]
    assert rows[-1].startswith(f"[Truncated: 1000 of {len(shown)} entries shown.")
    assert [memory.path for memory in store_in.memories()] == sorted(f"/memories/{name}" for name in names)
    (root / names[0]).unlink()
    append(root / names[1], "x")
    store_in.execute(view("/memories"))
    assert len(external_edits(store_in)) == len(names) + 2


def test_a_repeated_listing_shows_each_edit(store_in: MemoryStore, root: Path) -> None:
    """The rows of a listing that was shown before are compared with the files too."""
    shown = store_in.execute(view("/memories"))
    for text in ("longer than before\n", "again\n"):
        assert store_in.execute(view("/memories")) == shown
        (root / "new.md").write_text(text)
        shown = store_in.execute(view("/memories"))
        assert f"{len(text)}B\t/memories/new.md" in shown.text


@pytest.mark.parametrize("new", ["/memories/b.md", "/memories/d/e/a.md"])
def test_a_file_follows_a_change_of_path_and_text(place: Path, new: str) -> None:
    """The new text is at the new path and the old file is removed. No external edit is recorded."""
    with retentive.open(place) as opened:
        store = opened.store()
        store.execute(create("/memories/c/a.md", "one"))

        def work(tx: Transaction) -> None:
            tx.record([create_or_update(tx.get("/memories/c/a.md").memory, new, b"two")], None)

        store._core.backend.write(store.id, work)
        files = {path: path.read_bytes() for path in (place / "memories").rglob("*") if path.is_file()}
        assert files == {place / new.lstrip("/"): b"two"}
        assert not (place / "memories/c").exists()
        assert store.read(new) == "two"
        assert [str(version.actor) for version in store.versions()] == ["None", "None"]
