"""Tar files of exports and backups. They contain only regular files, and the reader checks every byte.

The module `tarfile` of Python is unsafe for files of unknown origin, because it loads headers of any size and skips
unknown entries. Any tar program can read the files written here.
"""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import IO

from retentive.errors import Damaged, InvalidInput, TooLarge

BLOCK = 512
CHUNK = 64 * 1024
_END = bytes(2 * BLOCK)
_MAX_BYTES = 8**11 - 1  # maximum of the size field in a header
_GZIP = b"\x1f\x8b"
_NO_PART = "Not a gzipped file"  # error of the module `gzip` if other bytes follow the compressed data


class TarWriter:
    """Writes a tar file.

    `roll_back` removes the entries after a position. This is needed because a backend may repeat the read that supplies
    the entries.
    """

    def __init__(self, raw: IO[bytes], *, compressed: bool) -> None:
        self._raw = raw
        self._compressed = compressed
        self._out: IO[bytes] | gzip.GzipFile = raw
        self._begin()

    def _begin(self) -> None:
        if self._compressed:  # a compressed file consists of parts; `mark` begins a new part
            self._out = gzip.GzipFile("", "wb", compresslevel=6, fileobj=self._raw, mtime=0)

    def _end_part(self) -> None:
        if self._compressed:
            self._out.close()

    def add(self, name: str, size: int, chunks: Iterable[bytes], *, mtime: int) -> None:
        """Add a file of `size` bytes. Raises OSError or `InvalidInput`."""
        if size > _MAX_BYTES:
            raise InvalidInput("the memory store is too large for an export or backup file")
        header = _header(name, size, mtime)
        if header is None:
            raise InvalidInput("an id is too long for the name of an entry in the file")
        self._out.write(header)
        written = 0
        for chunk in chunks:
            self._out.write(chunk)
            written += len(chunk)
        assert written == size
        self._out.write(bytes(-size % BLOCK))

    def mark(self) -> int:
        """Return the current position, for `roll_back`."""
        self._end_part()
        self._raw.flush()
        at = self._raw.tell()
        self._begin()
        return at

    def roll_back(self, mark: int) -> None:
        """Remove the entries that were written after the position `mark`."""
        self._end_part()
        self._raw.seek(mark)
        self._raw.truncate()
        self._begin()

    def finish(self) -> None:
        """End the tar file without closing it."""
        self._out.write(_END)
        self._end_part()

    def abandon(self) -> None:
        """Close the compressor, even after a write error."""
        if self._compressed:
            with suppress(OSError):
                self._out.close()


_FIRST = "the first entry"


class TarReader:
    """Reads the entries of a tar file in order.

    Raises `Damaged` at the first unexpected byte, with the name of the entry. Raises `TooLarge` if the file has more
    than `max_bytes` after decompression.
    """

    def __init__(self, raw: IO[bytes], *, max_bytes: int | None = None) -> None:
        self._bytes_left = max_bytes
        raw.seek(0)
        compressed = raw.read(2) == _GZIP
        raw.seek(0)
        self._in: IO[bytes] | gzip.GzipFile = gzip.GzipFile(fileobj=raw, mode="rb") if compressed else raw
        self._name = _FIRST
        self._left = 0
        self._padding = 0

    def entries(self) -> Iterator[tuple[str, int]]:
        """Yield the name and size of each entry. If the caller did not read all bytes of an entry, skip the rest."""
        while True:
            while self.read(CHUNK):
                pass
            self._check_zeros(self._padding)
            try:
                header = self._take(BLOCK)
                found = self._parsed(header) if any(header) else None
            except Damaged:
                if self._name != _FIRST:
                    raise
                raise Damaged("the file is no export or backup of retentive, or its beginning is damaged") from None
            if found is None:
                self._check_end()
                return
            self._name, self._left = found
            self._padding = -self._left % BLOCK
            yield self._name, self._left

    def read(self, size: int) -> bytes:
        """Return at most `size` bytes of the current entry. At the end of the entry, return no bytes."""
        data = self._take(min(size, self._left))
        self._left -= len(data)
        return data

    def _take(self, size: int) -> bytes:
        self._count(size)
        data = self._some(size) if size else b""
        if len(data) != size:
            raise Damaged(f"the file is truncated in or after {self._name}")
        return data

    def _some(self, size: int) -> bytes:
        """Return up to `size` bytes, even from beyond the current entry."""
        try:
            return self._in.read(size)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise self._broken(error) from None

    def _count(self, size: int) -> None:
        if self._bytes_left is not None:
            self._bytes_left -= size
            if self._bytes_left < 0:
                raise TooLarge("the archive is too large after decompression")

    def _check_zeros(self, size: int) -> None:
        if any(self._take(size)):
            raise Damaged(f"the archive is damaged after its entry {self._name}: the padding is not zero")

    def _check_end(self) -> None:
        self._check_zeros(BLOCK)
        try:
            rest = self._in.read(1)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:  # this also verifies the checksum of the last part
            if not str(error).startswith(_NO_PART):
                raise self._broken(error) from None
            rest = b"?"
        if rest:
            raise Damaged("the file has extra bytes after its end marker")

    def _broken(self, error: Exception) -> Damaged:
        what = "truncated" if isinstance(error, EOFError) else "damaged"
        return Damaged(f"the file is {what} in or after {self._name}")

    def _parsed(self, header: bytes) -> tuple[str, int]:
        try:
            info = tarfile.TarInfo.frombuf(header, "ascii", "strict")
        except (tarfile.HeaderError, ValueError):
            raise Damaged(f"the bytes after {self._name} are not an entry of an export or backup") from None
        if header != _header(info.name, info.size, info.mtime):
            raise Damaged(f"the entry {shown(info.name)} is not a regular file written by retentive")
        return info.name, info.size


def _header(name: str, size: int, mtime: float) -> bytes | None:
    """Return the header of an entry, or None if the name or the size does not fit into a tar header."""
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = size, 0o600, mtime
    try:
        return info.tobuf(tarfile.USTAR_FORMAT, "ascii", "strict")
    except (ValueError, UnicodeError):
        return None


def shown(name: str) -> str:
    """Escape the unsafe characters in the name of an entry, so that the name can be printed."""
    return ascii(name[:200])
