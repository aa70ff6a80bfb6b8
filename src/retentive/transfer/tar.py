"""Tar files as exports are: regular files only, by names that are known, and nothing in them that is not checked.

Python's own reader takes headers of any size into memory and passes over what it does not know; a file that somebody
sent must not be read that way. What is written here any tar can read.
"""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from typing import IO, Protocol

from retentive.errors import Damaged, InvalidInput

BLOCK = 512
CHUNK = 64 * 1024
_END = bytes(2 * BLOCK)
_MAX_BYTES = 8**11 - 1  # what the size field of a header holds
_GZIP = b"\x1f\x8b"
_NO_PART = "Not a gzipped file"  # what `gzip` says of bytes after a part with which no other begins


class Sink(Protocol):
    """What bytes are written to."""

    def write(self, data: bytes, /) -> object:
        """Take all of them."""


class TarWriter:
    """A tar file under way. What was written after a mark can be taken back, since a read may have to start over."""

    def __init__(self, raw: IO[bytes], *, compressed: bool) -> None:
        self._raw = raw
        self._compressed = compressed
        self._out: IO[bytes] | gzip.GzipFile = raw
        self._begin()

    def _begin(self) -> None:
        if self._compressed:  # a compressed file may have several parts: each mark begins one
            self._out = gzip.GzipFile("", "wb", compresslevel=6, fileobj=self._raw, mtime=0)

    def _end_part(self) -> None:
        if self._compressed:
            self._out.close()

    def add(self, name: str, size: int, chunks: Iterable[bytes], *, mtime: int) -> None:
        """Add a file of `size` bytes. Raises OSError, `InvalidInput`."""
        if size > _MAX_BYTES:
            raise InvalidInput("there is too much in one memory store for one file")
        header = _header(name, size, mtime)
        if header is None:
            raise InvalidInput("an id is too long to name a file in an export")
        self._out.write(header)
        written = 0
        for chunk in chunks:
            self._out.write(chunk)
            written += len(chunk)
        assert written == size
        self._out.write(bytes(-size % BLOCK))

    def mark(self) -> int:
        """Where the file stands."""
        self._end_part()
        self._raw.flush()
        at = self._raw.tell()
        self._begin()
        return at

    def back_to(self, mark: int) -> None:
        """Take back what was written since."""
        self._end_part()
        self._raw.seek(mark)
        self._raw.truncate()
        self._begin()

    def finish(self) -> None:
        """End the file; it is not closed."""
        self._out.write(_END)
        self._end_part()

    def give_up(self) -> None:
        """Leave it as it is."""
        if self._compressed:
            try:
                self._out.close()
            except OSError:  # that is why it is given up
                return


class TarReader:
    """The entries of a tar file, in their order. Raises `Damaged`, naming the entry, for all that is not as written."""

    def __init__(self, raw: IO[bytes]) -> None:
        raw.seek(0)
        compressed = raw.read(2) == _GZIP
        raw.seek(0)
        self._in: IO[bytes] | gzip.GzipFile = gzip.GzipFile(fileobj=raw, mode="rb") if compressed else raw
        self._name = "the first entry"
        self._left = 0
        self._padding = 0

    def entries(self) -> Iterator[tuple[str, int]]:
        """Names and sizes; what `read` has not given of an entry is passed over."""
        while True:
            while self.read(CHUNK):
                pass
            self._check_zeros(self._padding)
            header = self._take(BLOCK)
            if not any(header):
                self._check_end()
                return
            self._name, self._left = self._parsed(header)
            self._padding = -self._left % BLOCK
            yield self._name, self._left

    def read(self, size: int) -> bytes:
        """Up to `size` bytes of the entry, none at its end."""
        data = self._take(min(size, self._left))
        self._left -= len(data)
        return data

    def _take(self, size: int) -> bytes:
        try:
            data = self._in.read(size) if size else b""
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise self._broken(error) from None
        if len(data) != size:
            raise Damaged(f"the file is cut off after or in {self._name}")
        return data

    def _check_zeros(self, size: int) -> None:
        if any(self._take(size)):
            raise Damaged(f"the file was altered after {self._name}")

    def _check_end(self) -> None:
        self._check_zeros(BLOCK)
        try:
            rest = self._in.read(1)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:  # here the sum of the last part is checked
            if not str(error).startswith(_NO_PART):
                raise self._broken(error) from None
            rest = b"?"
        if rest:
            raise Damaged("something follows the end of the file")

    def _broken(self, error: Exception) -> Damaged:
        what = "cut off" if isinstance(error, EOFError) else "damaged"
        return Damaged(f"the file is {what} after or in {self._name}")

    def _parsed(self, header: bytes) -> tuple[str, int]:
        try:
            info = tarfile.TarInfo.frombuf(header, "ascii", "strict")
        except (tarfile.HeaderError, ValueError):
            raise Damaged(f"what follows {self._name} is not an entry of an export") from None
        if header != _header(info.name, info.size, info.mtime):
            raise Damaged(f"the entry {shown(info.name)} is not a plain file, or was not written by retentive")
        return info.name, info.size


def _header(name: str, size: int, mtime: float) -> bytes | None:
    """The header of a file; None if there can be none."""
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = size, 0o600, mtime
    try:
        return info.tobuf(tarfile.USTAR_FORMAT, "ascii", "strict")
    except (ValueError, UnicodeError):
        return None


def shown(name: str) -> str:
    """A name from the file, so that it can be shown."""
    return ascii(name[:200])
