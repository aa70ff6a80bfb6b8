"""Archives: files with memory stores, for exports and backups.

An archive is a tar file of regular files: a description, an entry of JSON lines for each memory store, and a manifest
with the SHA-256 of each entry. It is verified completely before anything in it is used. Tar files of unknown origin are
read in order with bounded memory; the standard module `tarfile` parses the headers.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import tarfile
import time
import zlib
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from itertools import chain
from typing import IO, Any, cast

from retentive import __version__
from retentive.errors import Damaged, InvalidInput, RetentiveError, TooLarge
from retentive.storage.contract import Memory, Version, now_us, to_datetime
from retentive.storage.disk import expanded
from retentive.storage.packs import zstd
from retentive.transfer.files import CHUNK, mapped_os_errors
from retentive.transfer.lines import (
    FORMAT,
    Copied,
    Header,
    Line,
    Record,
    check_format,
    digest_of,
    is_absent,
    parse_line,
    to_json,
)  # fmt: skip
from retentive.values.paths import ancestors, visible
from retentive.values.records import SYSTEM_STORE, time_in_id, to_us

ABOUT, MANIFEST = "retentive-archive.json", "retentive-manifest.txt"
COMPRESSED, OF_GZIP = (".tar.zst", ".tzst"), (".gz", ".tgz")
MAX_TEXT_BYTES = 2**30  # the limit of a database value; each text is loaded into memory
MAX_HEADER_BYTES = 64 * 1024  # of all headers of one entry, because `tarfile` loads them into memory
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_OPTION = zstd.CompressionParameter
_COMPRESSION = {
    _OPTION.compression_level: 3,
    _OPTION.window_log: 24,  # consecutive versions of a memory are nearly the same, and gzip looks back only 32 KB
    _OPTION.enable_long_distance_matching: 1,
    _OPTION.checksum_flag: 1,
}
_LIMITS = {zstd.DecompressionParameter.window_log_max: 24}  # memory that a file of unknown origin may take: 16 MB
_MALFORMED = (tarfile.TarError, ValueError, LookupError, OverflowError, TypeError, RecursionError)
_MAX_OTHER_BYTES = 64 << 20  # of the manifest, and of a line without its text


def is_compressed(path: str) -> bool:
    """Return whether an archive with this name is compressed. Raises `InvalidInput` for a name of gzip."""
    if path.endswith(OF_GZIP):
        raise InvalidInput("an archive is compressed with zstd: let its name end with .tar.zst, or with .tar")
    return path.endswith(COMPRESSED)


def write_archive(raw: IO[bytes], entries: Iterable[tuple[str, IO[bytes]]], *, compressed: bool) -> None:
    """Write an archive to the file `raw`. `entries` are names with files; each is read before the next is requested."""
    out = zstd.ZstdFile(raw, "wb", options=cast("dict[int, int]", _COMPRESSION)) if compressed else BytesIO()
    about = {"format": FORMAT, "made_at": to_datetime(now_us()), "retentive": __version__}
    with mapped_os_errors():
        try:
            tar, manifest = new_tar(out if compressed else raw, tarfile.GNU_FORMAT), BytesIO()
            for name, file in chain([(ABOUT, BytesIO(to_json(about)))], entries, [(MANIFEST, manifest)]):
                size = file.seek(0, os.SEEK_END)
                file.seek(0)
                digest = hashlib.file_digest(cast("Any", file), "sha256").hexdigest()
                file.seek(0)
                add_entry(tar, name, size, file, mtime=int(time.time()))
                manifest.write(f"{digest}  {name}\n".encode())
            tar.close()
            out.close()
            raw.flush()
        finally:
            with suppress(OSError):  # on a full disk this fails too, and only the first error is raised
                out.close()


class Archive:
    """Archive that is complete and unmodified. `headers` describe its memory stores, in the order of the file.

    `location` describes the hidden memory store with the records of the location. None if they are not in the archive.

    Raises `Damaged` or `UnknownSchema`, and `TooLarge` if a text has more than `MAX_TEXT_BYTES`.
    """

    def __init__(self, raw: IO[bytes]) -> None:
        self.raw = raw
        headers = list[Header]()
        tar, manifest = TarReader(raw), ""
        digests, inconsistent = dict[str, str](), list[Damaged]()
        for entry in tar.entries():
            if not digests and entry.name != ABOUT:
                raise Damaged("the file is not an export or a backup of retentive, or its beginning is damaged")
            if entry.type != tarfile.REGTYPE or not tar.has_one_header:
                raise Damaged(f"the entry {shown(entry.name)} is not a regular file written by retentive")
            if MANIFEST in digests or (entry.name != MANIFEST and entry.name <= next(reversed(digests), "")):
                raise Damaged(f"the entry {shown(entry.name)} is out of order or repeated")
            try:
                if entry.name == MANIFEST:
                    manifest = tar.data(_MAX_OTHER_BYTES).decode("ascii", "replace")
                elif entry.name == ABOUT:
                    check_format(tar.data(_MAX_OTHER_BYTES))
                else:
                    headers.append(_check_lines(entry.name, _lines(tar)))
            except Damaged as error:  # raised below: if the entry was modified, the error says only this
                inconsistent.append(error)
            while tar.data(CHUNK):
                pass
            digests[entry.name] = tar.digest.hexdigest()
        _compare(digests, manifest, *tar.rest(), tar.tell())
        if inconsistent:
            raise inconsistent[0]
        self.headers = [header for header in headers if header.id != SYSTEM_STORE]
        self.location = next((header for header in headers if header.id == SYSTEM_STORE), None)

    def exported(self) -> Header:
        """Return the header of the only memory store. Raises `InvalidInput` if there are others, or encrypted texts."""
        if len(self.headers) != 1:
            many = f"the file is a backup with {len(self.headers)} memory stores"
            raise InvalidInput(f"{many}; restore it with `retentive admin restore-backup`")
        if self.headers[0].seal is not None:
            again = "export it again from a location opened with keys"
            raise InvalidInput(f"the memory store in the file is encrypted; {again}")
        return self.headers[0]

    def stores(self, store_ids: Container[str]) -> Iterator[tuple[Header, Iterator[Line]]]:
        """Yield memory stores, each with its lines after the header. Read them before the next memory store."""
        known = [*self.headers, *([] if self.location is None else [self.location])]
        wanted = {entry_of(header.id): header for header in known if header.id in store_ids}
        for entry in (tar := TarReader(self.raw)).entries():
            if entry.name in wanted:
                lines = _lines(tar)
                next(lines)
                yield wanted[entry.name], lines


def _lines(tar: TarReader) -> Iterator[Line]:
    """Yield the lines of the current entry. A line that is longer than the longest text allows is refused."""
    parts, size = list[bytes](), 0
    while data := tar.data(CHUNK):
        *ends, rest = data.split(b"\n")
        for end in ends:
            yield parse_line(b"".join([*parts, end]))
            parts, size = [], 0
        parts.append(rest)
        size += len(rest)
        if size > 2 * MAX_TEXT_BYTES + _MAX_OTHER_BYTES:
            raise TooLarge(f"the archive has a text of more than {MAX_TEXT_BYTES} bytes")
    if size:
        yield parse_line(b"".join(parts))


def _compare(digests: dict[str, str], manifest: str, padding: int, is_more: bool, size: int) -> None:
    """Compare the entries with the manifest. Raises `Damaged` with the name of an entry that differs."""
    if is_more:
        raise Damaged("the file has extra bytes after its end marker")
    if digests.pop(MANIFEST, None) is None or padding < tarfile.BLOCKSIZE or size % tarfile.RECORDSIZE:
        raise Damaged("the file is truncated: its manifest is missing, or a part of its end marker")
    listed = {name: digest for digest, _, name in (line.partition("  ") for line in manifest.splitlines())}
    for name in sorted(digests.keys() | listed.keys()):
        if name not in digests:
            raise Damaged(f"the entry {shown(name)} is missing in the file")
        if listed.get(name) != digests[name]:
            raise Damaged(f"the entry {shown(name)} was modified" + ("" if name in listed else " or added"))


@contextmanager
def open_archive(path: str) -> Iterator[Archive]:
    """Open the export or backup at a path, verify it, and yield it. Raises `NotFound`, `Damaged` or `UnknownSchema`."""
    with mapped_os_errors(), open(expanded(path), "rb") as raw:
        yield Archive(raw)


def entry_of(store_id: str) -> str:
    """Return the name of the entry of a memory store."""
    return f"stores/{store_id}.jsonl"


def _check_lines(entry: str, lines: Iterator[Line]) -> Header:
    """Check the lines of one memory store, and return the first. Raises `Damaged`, and `TooLarge` for a long text."""
    header, last, has_records, count = next(lines, None), None, False, 0
    if not isinstance(header, Header):
        raise Damaged("the lines of a memory store do not begin with its description")
    newest, at, below = dict[str, Version](), dict[str, str](), dict[str, str]()  # at and below a path: ids of versions
    for line in lines:
        if isinstance(line, Record):
            has_records = True
            continue
        if isinstance(line, Header) or has_records:
            raise Damaged("the lines of a memory store are out of order")
        version = line.version
        _check_version(header, last, line)
        if not is_absent(version):
            at[version.path] = version.id
            below.update(dict.fromkeys(ancestors(version.path), version.id))
        newest[version.memory_id] = last = version
        count += 1
    memories = [Memory.of(version, version.created_at) for version in newest.values() if not is_absent(version)]
    for memory in memories:  # a later version at, above or below its path would remove it
        later = [below.get(memory.path, ""), *(at.get(path, "") for path in (memory.path, *ancestors(memory.path)))]
        if max(later) > memory.version_id:
            raise Damaged(f"another memory is at, above or below the path of the memory {visible(memory.path)}")
    found = count, len(memories), sum(memory.size_bytes for memory in memories)
    if found != (header.versions, header.memories, header.size_bytes) or digest_of(memories) != header.digest:
        raise Damaged("the versions in the file do not lead to the memories of its header")
    if entry != entry_of(header.id):
        raise Damaged(f"the entry {shown(entry)} does not belong in an export or backup")
    return header


def _check_version(header: Header, last: Version | None, copied: Copied) -> None:
    version, data = copied.version, copied.data
    is_later = last is None or (last.id < version.id and last.revision <= version.revision)
    recorded_us = time_in_id(version.id)  # a promoted version can be older
    is_early = recorded_us is None or to_us(version.created_at) <= recorded_us
    if not (is_later and is_early) or version.revision > header.revision:
        raise Damaged(f"version {version.id} is not later than the previous version")
    if (version.seal is not None) != (header.seal is not None and version.redacted_at is None):
        raise Damaged(f"version {version.id} and its memory store must be both encrypted or both unencrypted")
    if (data is None) != is_absent(version):
        raise Damaged(f"the text of version {version.id} is missing, or a deleted or redacted version has one")
    if data is None:
        return
    if len(data) > MAX_TEXT_BYTES:
        raise TooLarge(f"the archive has a text of more than {MAX_TEXT_BYTES} bytes")
    is_same = (version.size_bytes, version.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    if header.seal is None and not is_same:
        raise Damaged(f"the text of version {version.id} differs from its recorded hash")


class TarReader:
    """Reads a tar file in order. It may be compressed with zstd, or with gzip.

    Raises `Damaged`, and `TooLarge` if the file has more than `max_bytes` after decompression. `tarfile` reads through
    `read`, `seek` and `tell`. It could load headers of any size and go back in the file; these methods prevent both.
    """

    def __init__(self, raw: IO[bytes], *, max_bytes: int | None = None) -> None:
        raw.seek(0)
        start = raw.read(4)
        raw.seek(0)
        self._file: IO[bytes] | gzip.GzipFile | zstd.ZstdFile = raw
        if start.startswith(_GZIP):
            self._file = gzip.GzipFile(fileobj=raw, mode="rb")
        elif start == _ZSTD:
            self._file = zstd.ZstdFile(raw, "rb", options=cast("dict[int, int]", _LIMITS))
        self._max_bytes = max_bytes
        self._header_left = MAX_HEADER_BYTES
        self._last_read = b""
        self._left = 0
        self._where = "at its beginning, or is no tar file"
        self.digest = hashlib.sha256()
        """Digest of those bytes of the entry that the caller has read."""
        self.has_one_header = True
        """False if further headers describe the entry, for example its long name."""

    def entries(self) -> Iterator[tarfile.TarInfo]:
        """Yield the entries. The rest of an entry that the caller did not read is skipped."""
        try:
            tar = cast("Any", tarfile.TarFile(fileobj=cast("Any", self), encoding="utf-8", errors="surrogateescape"))
            while (info := tar.next()) is not None:
                tar.members.clear()  # it would keep all entries
                tar.pax_headers.clear()  # headers for all entries, such as the comment of `git archive`
                self._where = f"in or after {shown(info.name)}"
                self.has_one_header = self._header_left >= MAX_HEADER_BYTES - tarfile.BLOCKSIZE - 1
                self._header_left = MAX_HEADER_BYTES
                self._left = info.size if info.isreg() and not info.issparse() else 0
                self.digest = hashlib.sha256()
                yield info
        except RetentiveError:
            raise
        except _MALFORMED:
            raise self._broken("damaged") from None
        if self._last_read != bytes(tarfile.BLOCKSIZE):  # `tarfile` takes damaged headers for the end
            raise self._broken("damaged" if len(self._last_read) == tarfile.BLOCKSIZE else "truncated")

    def data(self, size: int) -> bytes:
        """Return the next `size` bytes of the current entry, or all that are left."""
        size = min(size, self._left)
        data = self._take(size)
        if len(data) != size:
            raise self._broken("truncated")
        self._left -= size
        self.digest.update(data)
        return data

    def rest(self) -> tuple[int, bool]:
        """Read what follows the first block of the end marker: its size, and whether it is more than zeros.

        This also verifies the checksum of a compressed file.
        """
        size, is_more = 0, False
        while data := self._take(CHUNK):
            size, is_more = size + len(data), is_more or any(data)
        return size, is_more

    def read(self, size: int) -> bytes:
        """Return `size` bytes of headers, or less at the end of the file."""
        if not 0 <= size <= self._header_left:
            raise Damaged(f"the header of an entry has more than {MAX_HEADER_BYTES} bytes")
        self._header_left -= size
        self._last_read = self._take(size)
        return self._last_read

    def seek(self, position: int) -> None:
        """Skip to a later position."""
        while (ahead := position - self.tell()) > 0:
            if not self._take(min(ahead, CHUNK)):
                raise self._broken("truncated")
        if ahead < 0:
            raise self._broken("damaged")

    def tell(self) -> int:
        """Return the position in the decompressed file."""
        return self._file.tell()

    def _take(self, size: int) -> bytes:
        try:
            data = self._file.read(size)
        except EOFError:
            raise self._broken("truncated") from None
        except (zlib.error, gzip.BadGzipFile, zstd.ZstdError):
            raise self._broken("damaged") from None
        if self._max_bytes is not None and self.tell() > self._max_bytes:
            raise TooLarge("the archive is too large after decompression")
        return data

    def _broken(self, how: str) -> Damaged:
        return Damaged(f"the file is {how} {self._where}")


def new_tar(raw: object, format: int) -> tarfile.TarFile:  # noqa: A002
    """Return a tar file to write to `raw`, which stays open."""
    return tarfile.TarFile(
        fileobj=cast("Any", raw), mode="w", format=format, encoding="utf-8", errors="surrogateescape"
    )


def add_entry(tar: tarfile.TarFile, name: str, size: int, file: IO[bytes], *, mtime: float = 0) -> None:
    """Add a file of `size` bytes to a tar file. Raises OSError."""
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode = size, mtime, 0o600
    tar.addfile(info, file)
    cast("Any", tar).members.clear()


def shown(name: str) -> str:
    """Escape the unsafe characters in the name of an entry, so that the name can be printed."""
    return ascii(name[:200])
