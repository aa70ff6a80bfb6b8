"""Truncated, modified and hostile files are detected and refused completely. The error names the entry."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import retentive
from retentive.errors import Damaged, UnknownSchema
from retentive.transfer.archive_reader import open_archive
from retentive.transfer.archive_writer import MANIFEST
from retentive.transfer.export import back_up, export_whole
from retentive.transfer.restore import import_whole, restore

from .archives import listed, read, refusal, write
from .copies import fill

SEED = 3


@pytest.fixture(scope="module", params=["e.tar", "e.tar.gz", "b.tar"])
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Bytes of a valid export or backup."""
    path = tmp_path_factory.mktemp("whole") / str(request.param)
    with retentive.open("sqlite://") as opened:
        store = opened.store()
        fill(store, SEED, steps=12)
        if request.param.startswith("b"):
            back_up(opened.backend, str(path))
        else:
            export_whole(store, str(path), records=True)
    assert contents(path) is not None
    return path


def contents(path: Path) -> list[object]:
    """Import a file and return everything in it."""
    with retentive.open("sqlite://") as target, open_archive(str(path)) as archive:
        if archive.is_backup:
            restore(archive, target.backend)
        else:
            import_whole(archive, target.backend)
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
    """Only bytes without meaning may change, such as the operating system in the header of a compressed file."""
    data, altered, expected = whole.read_bytes(), tmp_path / "altered", contents(whole)
    step = max(len(data) // 150, 1)
    for at in range(0, len(data), step):
        altered.write_bytes(data[:at] + bytes([data[at] ^ 0x41]) + data[at + 1 :])
        error = refusal(altered)
        if error is None:
            assert whole.name.endswith(".gz"), at
            assert contents(altered) == expected, at
        else:
            assert isinstance(error, Damaged), at


def test_bytes_after_the_end_are_refused(whole: Path, tmp_path: Path) -> None:
    longer = tmp_path / "longer"
    for more in (b"x", b"x" * 512, whole.read_bytes()):
        longer.write_bytes(whole.read_bytes() + more)
        assert "extra bytes after its end marker" in str(refusal(longer))


def test_an_error_tells_truncation_from_damage(whole: Path, tmp_path: Path) -> None:
    """A wrong checksum at the end is reported as damage, not as extra bytes after the end."""
    data, cut = whole.read_bytes(), tmp_path / "cut"
    for left_out in range(1, 41):
        cut.write_bytes(data[:-left_out])
        assert "the file is truncated" in str(refusal(cut)), left_out
    for at in range(1, 9) if whole.name.endswith(".gz") else ():  # the checksum of the contents and their length
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


def test_entries_in_another_order_are_refused(whole: Path, tmp_path: Path) -> None:
    """A file with reordered entries is refused, even if its manifest has the same order."""
    entries = read(whole)
    names = list(entries)[:-1]
    for at in range(1, len(names) - 1):
        swapped = [*names[:at], names[at + 1], names[at], *names[at + 2 :]]
        assert isinstance(
            refusal(write(tmp_path / "s.tar", listed({name: entries[name] for name in swapped}))), Damaged
        )


REPLACED: list[tuple[str, Callable[[bytes], bytes], str]] = [
    ("versions.jsonl", lambda data: data.replace(b'"created"', b'"made"', 1), "a version in the file cannot be read"),
    ("versions.jsonl", lambda data: b"[]\n" + data, "a version in the file cannot be read"),
    (
        "versions.jsonl",
        lambda data: data.replace(b'"/memories/', b'"/memories/../', 1),
        "a version in the file has a path that no memory can have",
    ),
    (
        "versions.jsonl",
        lambda data: data.replace(b'"/memories/', b'"/etc/', 1),
        "a version in the file has a path that no memory can have",
    ),
    ("versions.jsonl", lambda data: data.split(b"\n", 1)[1], "the text of|differs from its newest|versions"),
    ("versions.jsonl", lambda data: b"".join(reversed(data.splitlines(keepends=True))), "not later|the text of"),
    ("versions.jsonl", lambda data: data.splitlines(keepends=True)[0] + data, "not later"),
    ("versions.jsonl", lambda data: b"", "missing|versions"),
    (
        "memories.jsonl",
        lambda data: b"".join(reversed(data.splitlines(keepends=True))),
        "differs from its newest version",
    ),
    ("memories.jsonl", lambda data: data.split(b"\n", 1)[1], "memories with"),
    ("memories.jsonl", lambda data: b"", "memories with"),
    ("records.jsonl", lambda data: b"{}\n", "a record in the file cannot be read"),
    ("side_records.jsonl", lambda data: b"{}\n", "a record in the file cannot be read"),
]


@pytest.mark.parametrize(("part", "change", "said"), REPLACED)
def test_inconsistent_parts_are_refused(
    whole: Path, part: str, change: Callable[[bytes], bytes], said: str, tmp_path: Path
) -> None:
    """The manifest lists the inconsistent parts correctly."""
    entries = read(whole)
    name = next(name for name in entries if name.endswith(part))
    changed = listed(entries | {name: change(entries[name])})
    with pytest.raises(Damaged, match=said):
        raise refusal(write(tmp_path / "forged.tar", changed)) or AssertionError


def test_a_forged_text_is_refused(whole: Path, tmp_path: Path) -> None:
    """The text differs from its recorded hash or is not valid text, although the manifest lists it correctly."""
    entries = read(whole)
    for name in (name for name in entries if "texts/" in name):
        same_size = bytes(byte ^ 1 for byte in entries[name])
        for data in (b"forged", b"\xff", b"a\0", same_size):
            error = refusal(write(tmp_path / "forged.tar", listed(entries | {name: data})))
            assert "differs from its recorded hash" in str(error)


def test_a_newer_format_says_so(whole: Path, tmp_path: Path) -> None:
    entries = read(whole)
    first = next(iter(entries))
    newer = listed(entries | {first: entries[first].replace(b'"format":1', b'"format":2').replace(b": 1,", b": 2,")})
    assert isinstance(refusal(write(tmp_path / "newer.tar", newer)), UnknownSchema)


def hostile() -> Iterator[tuple[str, tarfile.TarInfo, bytes]]:
    for name in ("/etc/passwd", "../../escape", "texts/../../x", "texts/a/b", "stores/x/store.json", "a\\b", "texts/"):
        yield name, tarfile.TarInfo(name), b"x"
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE):
        info = tarfile.TarInfo("texts/memver_x")
        info.type, info.linkname = kind, "/etc/passwd" if kind in {tarfile.SYMTYPE, tarfile.LNKTYPE} else ""
        yield f"type {kind!r}", info, b""
    for kind in (tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_SPARSE, b"\0", b"7"):
        info = tarfile.TarInfo("texts/memver_x")
        info.type = kind
        yield f"type {kind!r}", info, b"x" * 20


@pytest.mark.parametrize(("info", "data"), [pytest.param(*each[1:], id=each[0]) for each in hostile()])
def test_hostile_entries_are_refused(info: tarfile.TarInfo, data: bytes, whole: Path, tmp_path: Path) -> None:
    """The entry can be at any position. No name from a file is used as the name of a written file."""
    entries = list(read(whole).items())
    for at in (0, 1, len(entries) - 1, len(entries)):
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
    info = tarfile.TarInfo(next(name for name in entries if "texts/" in name))
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
