"""Truncated, modified and hostile files are detected and refused completely. The error names the entry."""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import retentive
from retentive.errors import Damaged, UnknownSchema
from retentive.transfer.archive import MANIFEST, open_archive
from retentive.transfer.export import back_up, export_whole
from retentive.transfer.restore import restore

from .copies import Entries, Steps, fill, listed, read, refusal, steps, store_in, write

SEED = 3


@pytest.fixture(scope="module", params=["e.tar", "b.tar.zst", "b.tar"])
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Bytes of a valid export or backup."""
    path = tmp_path_factory.mktemp("whole") / str(request.param)
    with retentive.open("sqlite://") as opened:
        store = opened.store()
        fill(store, SEED, steps=12)
        if request.param.startswith("b"):
            back_up(opened.backend, str(path))
        else:
            store._core.backend.write(store.id, lambda tx: tx.put_record("contributors", "mem_x", "[]"))
            export_whole(store, str(path))
    assert contents(path) is not None
    return path


def contents(path: Path) -> list[object]:
    """Import a file and return everything in it."""
    with retentive.open("sqlite://") as target, open_archive(str(path)) as archive:
        restore(archive, target.backend)
        store = target.store()
        versions = list(store.versions())
        return [
            *versions,
            *(store.version_text(version.id) for version in versions),
            *store.memories(),
            store.settings(),
        ]


def test_a_file_truncated_anywhere_is_refused(whole: Path, tmp_path: Path) -> None:
    data, cut = whole.read_bytes(), tmp_path / "cut"
    step = max(len(data) // 150, 1)
    for end in [*range(0, len(data), step), len(data) - 1, len(data) - 512, len(data) - 1_024, len(data) - 1_025]:
        cut.write_bytes(data[:end])
        assert isinstance(refusal(cut), Damaged), end


def test_a_byte_modified_anywhere_is_detected(whole: Path, tmp_path: Path) -> None:
    """Only bytes without meaning may change, such as the padding of an entry."""
    data, altered, expected = whole.read_bytes(), tmp_path / "altered", contents(whole)
    step = max(len(data) // 150, 1)
    for at in range(0, len(data), step):
        altered.write_bytes(data[:at] + bytes([data[at] ^ 0x41]) + data[at + 1 :])
        error = refusal(altered)
        if error is None:
            assert contents(altered) == expected, at
        else:
            assert isinstance(error, Damaged), at


def test_bytes_after_the_end_are_refused(whole: Path, tmp_path: Path) -> None:
    longer = tmp_path / "longer"
    for more in (b"x", b"x" * 512, whole.read_bytes()):
        longer.write_bytes(whole.read_bytes() + more)
        assert re.search("extra bytes after its end marker|the file is damaged", str(refusal(longer)))


def test_an_error_tells_truncation_from_damage(whole: Path, tmp_path: Path) -> None:
    """A wrong checksum at the end is reported as damage, not as extra bytes after the end."""
    data, cut = whole.read_bytes(), tmp_path / "cut"
    for left_out in range(1, 41):
        cut.write_bytes(data[:-left_out])
        assert "the file is truncated" in str(refusal(cut)), left_out
    for at in range(1, 5) if whole.name.endswith(".zst") else ():  # the checksum of the contents
        cut.write_bytes(data[:-at] + bytes([data[-at] ^ 1]) + data[len(data) - at + 1 :])
        assert "the file is damaged" in str(refusal(cut)), at


def test_a_missing_entry_is_named(whole: Path, tmp_path: Path) -> None:
    """The first and the last entry are tested too."""
    entries = read(whole)
    for name in entries:
        left = {other: data for other, data in entries.items() if other != name}
        error = refusal(write(tmp_path / "less.tar", left))
        assert isinstance(error, Damaged)
        said = "manifest is missing" if name == MANIFEST else "not an export" if name == next(iter(entries)) else name
        assert said in str(error)


def test_a_modified_entry_is_named(whole: Path, tmp_path: Path) -> None:
    entries = read(whole)
    for name, data in entries.items():
        if name != MANIFEST:
            altered = entries | {name: data + b" "}
            assert str(refusal(write(tmp_path / "altered.tar", altered))) == f"the entry '{name}' was modified"


def test_entries_in_another_order_or_twice_are_refused(tmp_path: Path) -> None:
    """The manifest is correct."""
    with retentive.open("sqlite://") as opened:
        for key in ("one", "two"):
            fill(opened.store(key), SEED, steps=3)
        back_up(opened.backend, str(tmp_path / "b.tar"))
    about, first, second, _ = entries = read(tmp_path / "b.tar")
    swapped = write(tmp_path / "s.tar", listed({name: entries[name] for name in (about, second, first)}))
    assert "out of order or repeated" in str(refusal(swapped))
    write(tmp_path / "twice.tar", entries)
    with tarfile.open(tmp_path / "twice.tar", "a") as tar:
        tar.addfile(_plain(first, entries[first]), io.BytesIO(entries[first]))
    assert "out of order or repeated" in str(refusal(tmp_path / "twice.tar"))


Lines = list[dict[str, object]]


def of_kind(lines: Lines, kind: str) -> Lines:
    return [line for line in lines if line["line"] == kind]


def with_text(lines: Lines, text: object) -> Lines:
    version = next(line for line in lines if line.get("text"))
    return [line | {"text": text} if line is version else line for line in lines]


def altered(lines: Lines, kind: str, **values: object) -> Lines:
    first = of_kind(lines, kind)[0]
    return [line | values if line is first else line for line in lines]


REPLACED: list[tuple[str, Callable[[Lines], Lines], str]] = [
    ("operation", lambda lines: altered(lines, "version", operation="made"), "a version in the file cannot be read"),
    ("path", lambda lines: altered(lines, "version", path="/etc/x"), "has a path that no memory can have"),
    ("above", lambda lines: altered(lines, "version", path="/memories/../x"), "has a path that no memory can have"),
    ("no path", lambda lines: altered(lines, "version", path=""), "has no path"),
    ("unknown", lambda lines: altered(lines, "version", line="other"), "a line in the file cannot be read"),
    ("late", lambda lines: altered(lines, "version", created_at="2200-01-01T00:00:00Z"), "not later"),
    ("no header", lambda lines: lines[1:], "do not begin with its description"),
    ("two headers", lambda lines: lines[:1] + lines, "out of order"),
    ("a record first", lambda lines: lines[:1] + of_kind(lines, "record") + lines[1:], "out of order"),
    ("one less", lambda lines: lines[:1] + lines[2:], "the text of|do not lead to|not later"),
    ("reversed", lambda lines: lines[:1] + of_kind(lines, "version")[::-1], "not later|the text of"),
    ("repeated", lambda lines: [*lines[:2], *lines[1:]], "not later"),
    ("no versions", lambda lines: lines[:1], "do not lead to the memories"),
    ("usage", lambda lines: altered(lines, "header", size_bytes=1), "do not lead to the memories"),
    ("digest", lambda lines: altered(lines, "header", digest="0" * 64), "do not lead to the memories"),
    ("no text", lambda lines: with_text(lines, None), "the text of"),
    ("a number", lambda lines: with_text(lines, 7), "a version in the file cannot be read"),
    ("NUL", lambda lines: with_text(lines, "a\0"), "a version in the file cannot be read"),
    ("surrogate", lambda lines: with_text(lines, "\ud800"), "a version in the file cannot be read"),
    ("other text", lambda lines: with_text(lines, "forged"), "differs from its recorded hash"),
    ("sealed", lambda lines: altered(lines, "version", seal="eA=="), "both encrypted or both unencrypted"),
    ("record", lambda lines: altered(lines, "record", key=""), "a record in the file cannot be read"),
    ("store", lambda lines: altered(lines, "header", id="memstore_x"), "does not belong"),
]


@pytest.mark.parametrize(("change", "said"), [pytest.param(*each[1:], id=each[0]) for each in REPLACED])
def test_inconsistent_lines_are_refused(
    whole: Path, change: Callable[[Lines], Lines], said: str, tmp_path: Path
) -> None:
    """The manifest lists the inconsistent entry correctly."""
    entries = read(whole)
    name = store_in(entries)
    lines = [json.loads(line) for line in entries[name].splitlines()]
    data = b"".join(json.dumps(line).encode() + b"\n" for line in change(lines))
    with pytest.raises(Damaged, match=said):
        raise refusal(write(tmp_path / "forged.tar", listed(entries | {name: data}))) or AssertionError


@pytest.mark.parametrize("line", [b"", b"[]", b"{", b"\xff", b"[" * 100_000, b'"' + b"x" * 10_000])
def test_lines_that_are_no_objects_are_refused(line: bytes, whole: Path, tmp_path: Path) -> None:
    entries = read(whole)
    name = store_in(entries)
    for data in (line, line + b"\n" + entries[name], entries[name] + line + b"\n"):
        assert isinstance(refusal(write(tmp_path / "forged.tar", listed(entries | {name: data}))), Damaged)


def test_a_newer_format_says_so(whole: Path, tmp_path: Path) -> None:
    entries = read(whole)
    first = next(iter(entries))
    newer = listed(entries | {first: entries[first].replace(b'"format":1', b'"format":2')})
    assert isinstance(refusal(write(tmp_path / "newer.tar", newer)), UnknownSchema)


def hostile() -> Iterator[tuple[str, tarfile.TarInfo, bytes]]:
    for name in ("/etc/passwd", "../../escape", "stores/../../x", "stores/a/b", "stores/x.jsonl", "a\\b", "stores/"):
        yield name, tarfile.TarInfo(name), b"x"
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE):
        info = tarfile.TarInfo("stores/memstore_x.jsonl")
        info.type, info.linkname = kind, "/etc/passwd" if kind in {tarfile.SYMTYPE, tarfile.LNKTYPE} else ""
        yield f"type {kind!r}", info, b""
    for kind in (tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_SPARSE, b"\0", b"7"):
        info = tarfile.TarInfo("stores/memstore_x.jsonl")
        info.type = kind
        yield f"type {kind!r}", info, b"x" * 20


@pytest.mark.parametrize(("info", "data"), [pytest.param(*each[1:], id=each[0]) for each in hostile()])
def test_hostile_entries_are_refused(info: tarfile.TarInfo, data: bytes, whole: Path, tmp_path: Path) -> None:
    """The entry can be at any position. No name from a file is used as the name of a written file."""
    entries = list(read(whole).items())
    for at in range(len(entries) + 1):
        path = tmp_path / "hostile.tar"
        with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
            for number, (name, content) in enumerate([*entries, ("", b"")]):
                if number == at:
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
                if name:
                    tar.addfile(_plain(name, content), io.BytesIO(content))
        assert isinstance(refusal(path), Damaged), at


@pytest.mark.parametrize("size", [2**30 + 1, 8**11 - 1, 2**62])
def test_a_false_size_takes_no_memory(size: int, whole: Path, tmp_path: Path) -> None:
    entries = read(whole)
    path = tmp_path / "huge.tar"
    first = next(iter(entries))
    info = tarfile.TarInfo(store_in(entries))
    info.size = size
    head = _plain(first, entries[first]).tobuf() + entries[first].ljust(
        -len(entries[first]) % 512 + len(entries[first]), b"\0"
    )
    path.write_bytes(head + info.tobuf(tarfile.GNU_FORMAT) + b"x" * 2_000)
    assert isinstance(refusal(path), Damaged)


def test_a_file_that_is_not_tar_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "none"
    for data in (
        b"",
        b"x",
        b"\0" * 512,
        b"\0" * 1_024,
        b"\0" * 4_096,
        b"hello " * 1_000,
        b"\x1f\x8b",
        b"\x1f\x8b\x08" + b"\0" * 99,
        b"\x28\xb5\x2f\xfd",
        b"\x28\xb5\x2f\xfd" + b"\0" * 99,
    ):
        path.write_bytes(data)
        assert isinstance(refusal(path), Damaged)
    with tarfile.open(path, "w") as tar:
        tar.addfile(tarfile.TarInfo("a"), io.BytesIO(b""))
    assert isinstance(refusal(path), Damaged)


def _plain(name: str, data: bytes) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), 0o600
    return info


A, BX = "/memories/a", "/memories/b_x"
BOTH: Steps = [("create", A, "1"), ("create", BX, "2")]
GONE: Steps = [*BOTH, ("delete", BX)]


def entries(given: Steps, directory: Path, *, prune: int | None = None) -> Entries:
    """Return the entries of a backup of a store with this history. `prune` removes one version."""
    path = directory / "whole.tar"
    with retentive.open("sqlite://") as place:
        store = place.store()
        steps(store, given)
        if prune is not None:
            ids = [version.id for version in reversed(list(store.versions()))]
            store._core.backend.write(store.id, lambda tx: tx.prune([ids[prune]]))
        back_up(place.backend, str(path))
    return read(path)


def moved(found: Entries, old: str, new: str) -> Entries:
    """Return the same entries with one path replaced and a correct manifest."""
    name = store_in(found)
    lines = [json.loads(line) for line in found[name].splitlines()]
    forged = [line | {"path": new} if line.get("path") == old else line for line in lines]
    newest = {line["memory_id"]: line for line in forged if line["line"] == "version"}
    present = sorted(
        (line for line in newest.values() if line["operation"] != "deleted"), key=lambda line: line["path"]
    )
    digest = hashlib.sha256()
    for line in present:
        digest.update(f"{line['sha256']} {line['path']} {line['memory_id']} {line['id']}\n".encode())
    forged[0]["digest"] = digest.hexdigest()
    return listed(found | {name: b"".join(json.dumps(line).encode() + b"\n" for line in forged)})


GAP: Steps = [*BOTH, ("create", "/memories/c", "3"), ("delete", "/memories/c"), ("delete", BX)]
CONFLICT = "another memory is at, above or below the path of the memory /memories/a"


@pytest.mark.parametrize(
    ("given", "prune", "new", "said"),
    [
        *((given, None, f"{A}{below}", CONFLICT) for given in (BOTH, GONE) for below in ("", "/x", "/y/x")),
        (GAP, 2, f"{A}/x", CONFLICT),
        (BOTH, None, "/memories/.git/hooks/x", "has a path that no memory can have"),
    ],
)
def test_conflicting_and_reserved_paths_are_refused(
    given: Steps, prune: int | None, new: str, said: str, tmp_path: Path
) -> None:
    """A path conflicts with one equal to it, above it or below it, now or after the other memory was written.

    A gap in the history can hide the deletion of a memory, but not of a memory that is listed as present. Nothing is
    restored into a name such as `.git`, where other programs would run it.
    """
    error = refusal(write(tmp_path / "forged.tar", moved(entries(given, tmp_path, prune=prune), BX, new)))
    assert isinstance(error, Damaged)
    assert said in str(error)
