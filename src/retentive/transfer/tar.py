"""Tar files of unknown origin, read in order with bounded memory. The standard module `tarfile` parses the headers."""

from __future__ import annotations

import gzip
import hashlib
import tarfile
import zlib
from collections.abc import Iterator
from typing import IO, Any, cast

from retentive.errors import Damaged, RetentiveError, TooLarge
from retentive.transfer.files import CHUNK

MAX_HEADER_BYTES = 64 * 1024  # of all headers of one entry, because `tarfile` loads them into memory
_GZIP = b"\x1f\x8b"
_MALFORMED = (tarfile.TarError, ValueError, LookupError, OverflowError, TypeError, RecursionError)


class TarReader:
    """Reads a tar file in order. It may be compressed with gzip.

    Raises `Damaged`, and `TooLarge` if the file has more than `max_bytes` after decompression. `tarfile` reads through
    `read`, `seek` and `tell`. It could load headers of any size and go back in the file; these methods prevent both.
    """

    def __init__(self, raw: IO[bytes], *, max_bytes: int | None = None) -> None:
        raw.seek(0)
        is_compressed = raw.read(2) == _GZIP
        raw.seek(0)
        self._file: IO[bytes] | gzip.GzipFile = gzip.GzipFile(fileobj=raw, mode="rb") if is_compressed else raw
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
        except (zlib.error, gzip.BadGzipFile):
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
