"""Import of files as memories. The rules of the store apply, and files that cannot be memories are skipped."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

import retentive
from retentive import MemoryStore
from retentive.errors import Damaged, InvalidInput, NotFound, TooLarge
from retentive.storage.contract import Created
from retentive.transfer.export import export_files, export_whole
from retentive.transfer.import_files import IMPORT, FileOutcome, Source, directory_source, import_files, tar_source
from support.commands import tree


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    with retentive.open("sqlite://") as opened:
        yield opened.store()


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Create regular files, and files that cannot be memories."""
    root = tmp_path / "files"
    for name, data in {
        "a.md": b"one\n",
        "d/b.md": "zwei é\r\n".encode(),
        "d/e/empty": b"",
        "binary": b"\xff\xfe",
        "nul": b"a\0b",
        "100%.md": b"percent",
        "%2e%2e": b"up",
        "back\\slash": b"x",
        ".git/config": b"x",
        ".hidden": b"hidden",
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (root / "link").symlink_to("/etc/passwd")
    (root / "loop").symlink_to(root)
    os.mkfifo(root / "fifo")
    return root


def run(store: MemoryStore, source: Source, **options: object) -> dict[str, FileOutcome]:
    under = str(options.pop("under", "/memories"))
    outcomes = import_files(store, source, under=under, **options).files  # type: ignore[arg-type]
    assert len({outcome.name for outcome in outcomes}) == len(outcomes)
    return {outcome.name: outcome for outcome in outcomes}


TREE = {
    "/memories/a.md": "one\n",
    "/memories/d/b.md": "zwei é\r\n",
    "/memories/d/e/empty": "",
    "/memories/100%.md": "percent",
    "/memories/.hidden": "hidden",
}


def test_a_directory_is_imported(store: MemoryStore, files: Path) -> None:
    """The bytes of files stay the same.

    Files that cannot be memories are reported with the reason. No link is followed.
    """
    outcomes = run(store, directory_source(str(files)))
    assert tree(store) == TREE
    assert {name for name, outcome in outcomes.items() if outcome.became == "created"} == {
        "a.md", "d/b.md", "d/e/empty", "100%.md", ".hidden",
    }  # fmt: skip
    why = {name: outcome.why for name, outcome in outcomes.items() if outcome.became == "refused"}
    assert {name: text for name, text in why.items() if name not in {"%2e%2e", "back\\slash"}} == {
        "binary": "not a text (UTF-8 without NUL)",
        "nul": "not a text (UTF-8 without NUL)",
        "link": "a symbolic link",
        "loop": "a symbolic link",
        "fifo": "not a regular file",
    }
    assert (outcomes[".git"].became, outcomes[".git"].path) == ("left", None)
    assert "Invalid path" in str(why["%2e%2e"])
    assert "Invalid path" in str(why["back\\slash"])
    assert {version.actor for version in store.versions()} == {IMPORT}


ELSEWHERE = {".git": "gitdir: ../x", "d/.hg/hgrc": "x", ".Obsidian/app.json": "{}", ".trash/old.md": "x"}
OF_EDITORS = ("d/a.md~", "#a.md#", ".a.md.swp", "~$a.docx", "4913", "a.md.orig")


def packed(files: dict[str, bytes]) -> Source:
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as archive:
        for name, data in files.items():
            (entry := tarfile.TarInfo(name)).size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return tar_source(raw)


@pytest.mark.parametrize("is_tar", [False, True])
def test_reserved_and_editors_names_are_left(store: MemoryStore, tmp_path: Path, is_tar: bool) -> None:
    """Each is reported, and none is a failure. An editor's name is imported if a command has made such a memory."""
    files = {"a.md": b"one", ".gitignore": b"x"} | {name: text.encode() for name, text in ELSEWHERE.items()}
    files |= dict.fromkeys(OF_EDITORS, b"old") | {"b.md~": b"\xff"}
    for name, data in files.items():
        (path := tmp_path / "files" / name).parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    store.execute({"command": "create", "path": "/memories/4913", "file_text": "mine"})
    source = packed(files) if is_tar else directory_source(str(tmp_path / "files"))
    found = {name: (one.became, one.why) for name, one in run(store, source, overwrite=True).items()}
    reserved, editors = ("left", "holds no memories"), ("left", "a temporary or backup file of an editor")
    assert found == {
        "a.md": ("created", None), ".gitignore": ("created", None), "4913": ("replaced", None),
        ".git": reserved, "d/.hg": reserved, ".Obsidian": reserved, ".trash": reserved, "b.md~": editors,
    } | dict.fromkeys(set(OF_EDITORS) - {"4913"}, editors)  # fmt: skip
    assert tree(store) == {"/memories/a.md": "one", "/memories/.gitignore": "x", "/memories/4913": "old"}


def test_a_dry_run_reports_the_same_and_writes_nothing(store: MemoryStore, files: Path) -> None:
    store.execute({"command": "create", "path": "/memories/a.md", "file_text": "mine"})
    dry = run(store, directory_source(str(files)), dry_run=True)
    assert tree(store) == {"/memories/a.md": "mine"}
    assert len(list(store.versions())) == 1
    assert run(store, directory_source(str(files))) == dry


def test_nothing_is_overwritten_unless_asked_for(store: MemoryStore, files: Path) -> None:
    """A file with the same text as the memory adds no version."""
    for path, text in (("/memories/a.md", "mine"), ("/memories/d/b.md", "zwei é\r\n")):
        store.execute({"command": "create", "path": path, "file_text": text})
    outcomes = run(store, directory_source(str(files)))
    assert (outcomes["a.md"].became, outcomes["d/b.md"].became) == ("exists", "same")
    assert store.read("/memories/a.md") == "mine"
    outcomes = run(store, directory_source(str(files)), overwrite=True)
    assert outcomes["a.md"].became == "replaced"
    assert {outcomes[name].became for name in ("d/b.md", "d/e/empty", "100%.md")} == {"same"}
    assert tree(store) == TREE
    assert len(list(store.versions(path="/memories/d/b.md"))) == 1


def test_the_layout_of_the_local_tool_is_known(store: MemoryStore, tmp_path: Path) -> None:
    """Only the files in the directory `memories` are imported, and the files beside it are not."""
    (tmp_path / "tool" / "memories" / "d").mkdir(parents=True)
    (tmp_path / "tool" / "memories" / "d" / "a.md").write_text("one")
    (tmp_path / "tool" / "beside.md").write_text("two")
    source = directory_source(str(tmp_path / "tool"))
    assert set(run(store, source)) == {"d/a.md"}
    assert (source.inside, tree(store)) == ("memories", {"/memories/d/a.md": "one"})
    with pytest.raises(NotFound):
        directory_source(str(tmp_path / "nothing"))


def test_conflicting_paths_are_reported(store: MemoryStore, tmp_path: Path) -> None:
    """The conflicts are a memory above, a directory at the path, and two files with one path after normalization."""
    for path in ("/memories/above", "/memories/below/x"):
        store.execute({"command": "create", "path": path, "file_text": ""})
    root = tmp_path / "files"
    (root / "above").mkdir(parents=True)
    for name in ("above/a", "below", "e\u0301", "é"):
        (root / name).write_text(name)
    outcomes = run(store, directory_source(str(root)), overwrite=True)
    assert "is a file, not a directory" in str(outcomes["above/a"].why)
    assert "already exists" in str(outcomes["below"].why)
    assert sorted(outcomes[name].became for name in ("e\u0301", "é")) == ["created", "refused"]


def test_the_guards_of_the_store_hold(store: MemoryStore, tmp_path: Path) -> None:
    """The guards are sensitive values, sizes and read-only paths. The import continues after a refused file."""
    store.change_settings({"max_memory_bytes": 100, "read_only_paths": ["/memories/fixed/**"], "max_memories": 3})
    root = tmp_path / "files"
    (root / "fixed").mkdir(parents=True)
    secret = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    for name, text in {"a": "x" * 101, "b": f"token {secret}", "c": "fine", "d": "fine", "e": "one more"}.items():
        (root / name).write_text(text)
    (root / "fixed" / "x").write_text("x")
    outcomes = run(store, directory_source(str(root)))
    assert [outcomes[name].became for name in ("a", "b", "c", "d", "e")] == ["refused", *["created"] * 3, "refused"]
    assert "over the limit" in str(outcomes["a"].why)
    assert "is read-only" in str(outcomes["fixed/x"].why)
    assert secret not in str(tree(store))
    assert "sensitive value" in str(outcomes["b"].why)
    store.change_settings({"sensitive": "reject"})
    assert run(store, directory_source(str(root)), overwrite=True)["b"].became == "refused"


def test_an_export_with_its_history_is_not_imported_as_files(store: MemoryStore, tmp_path: Path) -> None:
    export_whole(store, str(tmp_path / "e.tar.zst"))
    with pytest.raises(InvalidInput, match="--whole"), open(tmp_path / "e.tar.zst", "rb") as raw:
        tar_source(raw)


def test_exported_files_are_imported_unchanged(store: MemoryStore, files: Path, tmp_path: Path) -> None:
    """The files of an export are imported into another store."""
    run(store, directory_source(str(files)))
    done = export_files(store, str(tmp_path / "out"))
    assert (done.memories, done.left_out) == (5, [])
    assert (tmp_path / "out" / "d" / "b.md").read_bytes() == "zwei é\r\n".encode()
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "out" / "a.md").stat().st_mode & 0o777 == 0o600
    with retentive.open("sqlite://") as other:
        run(other.store(), directory_source(str(tmp_path / "out")))
        assert tree(other.store()) == TREE
    with pytest.raises(InvalidInput, match="with this name exists"):
        export_files(store, str(tmp_path / "out"))
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".out")) == []


def test_an_export_writes_no_reserved_name(tmp_path: Path) -> None:
    """Git would run a hook that a store of another program holds."""
    with retentive.open("sqlite://") as opened:
        store = opened.store()
        store.write("/memories/a.md", "one")
        hook = Created("/memories/.git/hooks/post-checkout", b"#!/bin/sh\n")
        store._core.backend.write(store.id, lambda tx: tx.record([hook], None))
        done = export_files(store, str(tmp_path / "out"))
    assert [path for path, _ in done.left_out] == [hook.path]
    assert "reserved" in done.left_out[0][1]
    assert os.listdir(tmp_path / "out") == ["a.md"]


END = bytes(10_240)


def header(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.type = size, kind
    return info.tobuf(tarfile.GNU_FORMAT)


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 512)


def pax(field: bytes, value: bytes, kind: bytes = tarfile.XHDTYPE) -> bytes:
    body = b" " + field + b"=" + value + b"\n"
    length = len(body) + len(str(len(body) + 3))
    record = str(length).encode() + body
    return header("pax", len(record), kind) + padded(record)


PLAIN = header("a.md", 3) + padded(b"one")
HOSTILE = {
    "a long name": pax(b"path", b"x" * 5_000_000) + PLAIN,
    "a long global header": pax(b"comment", b"x" * 5_000_000, tarfile.XGLTYPE) + PLAIN,
    "a false size": header("pax", 2**40, tarfile.XHDTYPE) + PLAIN,
    "many names": (header("././@LongLink", 2, tarfile.GNUTYPE_LONGNAME) + padded(b"x\0")) * 3_000 + PLAIN,
    "many global headers": pax(b"comment", b"x" * 400, tarfile.XGLTYPE) * 3_000 + PLAIN,
    "a negative size": header("a.md", -512) + PLAIN,
    "a size that leads back": PLAIN + pax(b"size", b"-2048") + header("b.md", 3) + padded(b"two"),
    "no number": pax(b"size", b"x") + PLAIN,
    "a damaged header": PLAIN + b"x" * 512 + PLAIN,
    "a damaged header at the end": PLAIN + PLAIN[:100] + b"?" + PLAIN[101:],
}


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("data", [pytest.param(data, id=name) for name, data in HOSTILE.items()])
def test_a_hostile_header_is_refused_in_little_memory(data: bytes, compressed: bool) -> None:
    raw = io.BytesIO(gzip.compress(data + END) if compressed else data + END)
    tracemalloc.start()
    try:
        with pytest.raises(Damaged):
            list(tar_source(raw, max_files=100).items())
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.long
def test_many_entries_take_no_memory() -> None:
    raw = io.BytesIO(header("d", 0, tarfile.DIRTYPE) * 3_000 + PLAIN + END)
    tracemalloc.start()
    try:
        assert [read() for _, read in tar_source(raw, max_files=1).items()] == [b"one"]
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


def test_the_limits_hold_for_decompressed_bytes() -> None:
    """A skipped entry counts too."""
    raw = io.BytesIO(gzip.compress(header("large", 50_000_000) + bytes(50_000_000) + END))
    with pytest.raises(TooLarge):
        tar_source(raw, max_bytes=1_000_000)


def test_a_file_of_unusual_headers_is_read() -> None:
    """Long names in both forms, and the comment of `git archive` for all entries."""
    comment = pax(b"comment", b"0" * 40, tarfile.XGLTYPE)
    long_pax = pax(b"path", b"d/" * 100 + b"pax.md") + PLAIN
    long_gnu = header("././@LongLink", 207, tarfile.GNUTYPE_LONGNAME) + padded(b"d/" * 100 + b"gnu.md\0") + PLAIN
    source = tar_source(io.BytesIO(comment + long_pax + long_gnu + END))
    assert [(name[-6:], read()) for name, read in source.items()] == [("pax.md", b"one"), ("gnu.md", b"one")]
