"""Tar files of plain files. Writes them for `export?format=files`. Reads tar files written by any tar program.

The module `tarfile` of Python is unsafe for files of unknown origin, because it loads headers of any size.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO

from retentive.errors import Damaged
from retentive.transfer.tar import BLOCK, CHUNK, TarReader, shown

MAX_NAME_BYTES = 64 * 1024  # of an extended header, or of the name in it
_REGULAR = {tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.CONTTYPE}
_KINDS: Mapping[bytes, str] = {
    tarfile.SYMTYPE: "a symbolic link",
    tarfile.LNKTYPE: "a hard link",
    tarfile.GNUTYPE_SPARSE: "a sparse file",
}
_EXTENDED = {tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE}
_WITHOUT_DATA = {tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE}


@dataclass(frozen=True, slots=True)
class PlainEntry:
    """Entry of a tar file. The name of a directory ends with `/`.

    `why` is None for a regular file. Otherwise it describes the entry, for example as "a symbolic link".
    """

    name: str
    size: int
    why: str | None = None


class PlainTar(TarReader):
    """Reads the entries of a tar file in order. Raises `Damaged`.

    If a name is not UTF-8, its invalid bytes become surrogates. Data after the end marker is ignored, as in tar
    programs.
    """

    def plain(self) -> Iterator[PlainEntry]:
        """Yield the entries. If the caller did not read all bytes of an entry, the rest is skipped."""
        pax: Mapping[str, str] = {}
        while (info := self._next()) is not None:
            if info.type in _EXTENDED:
                pax = {**pax, **_records(self._whole(info))}
            elif info.type == tarfile.GNUTYPE_LONGNAME:
                pax = {**pax, "path": _decoded(self._whole(info).rstrip(b"\0"))}
            elif info.type in {tarfile.XGLTYPE, tarfile.GNUTYPE_LONGLINK}:
                self._whole(info)  # ignored: a comment of `git archive`, or the target of a link
            else:
                yield self._entry(info, pax)
                pax = {}

    def _next(self) -> tarfile.TarInfo | None:
        while self.read(CHUNK):
            pass
        self._take(self._padding)
        header = self._take(BLOCK)
        if not any(header):
            self._skip_filler()
            return None
        try:
            info = tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
        except (tarfile.HeaderError, ValueError):
            raise Damaged(f"the bytes after {self._name} are not an entry of a tar file") from None
        self._name = shown(info.name)
        if info.size < 0:
            raise Damaged(f"the size of the entry {self._name} is negative")
        self._begin(0 if info.type in _WITHOUT_DATA else info.size)
        return info

    def _skip_filler(self) -> None:
        """Read and ignore the data after the end marker. This also verifies the checksum of a compressed file."""
        while data := self._some(CHUNK):
            self._count(len(data))

    def _begin(self, size: int) -> None:
        self._left, self._padding = size, -size % BLOCK

    def _whole(self, info: tarfile.TarInfo) -> bytes:
        """Return the bytes of a header that describes the next entry."""
        if info.size > MAX_NAME_BYTES:
            raise Damaged(f"the header of an entry has more than {MAX_NAME_BYTES} bytes")
        return self.read(info.size)

    def _entry(self, info: tarfile.TarInfo, pax: Mapping[str, str]) -> PlainEntry:
        name = pax.get("path", info.name)
        if "size" in pax:
            if not (pax["size"].isascii() and pax["size"].isdecimal() and len(pax["size"]) < 20):
                raise Damaged(f"the size of the entry {shown(name)} is not a number")
            self._begin(int(pax["size"]))
        if info.type == tarfile.DIRTYPE or name.endswith("/"):
            return PlainEntry(name.rstrip("/") + "/", 0)
        why = None if info.type in _REGULAR else _KINDS.get(info.type, "not a regular file")
        if any(each.startswith("GNU.sparse.") for each in pax):
            why = _KINDS[tarfile.GNUTYPE_SPARSE]
        return PlainEntry(name, self._left, why)


def _records(data: bytes) -> Mapping[str, str]:
    """Return the fields of an extended header.

    Each field is `LENGTH NAME=VALUE` and a newline. LENGTH is the size of the whole field, including LENGTH and
    newline.
    """
    found: dict[str, str] = {}
    while data:
        digits, _, _ = data[:20].partition(b" ")
        size = int(digits) if digits.isdigit() else 0
        name, separator, value = data[len(digits) + 1 : size - 1].partition(b"=")
        if not separator or data[size - 1 : size] != b"\n":
            raise Damaged("an extended header of the tar file cannot be decoded")
        found[_decoded(name)] = _decoded(value)
        data = data[size:]
    return found


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


class PlainTarWriter:
    """Writes a tar file of plain files. A name that does not fit into a standard header gets an extended header."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw

    def directory(self, name: str) -> None:
        """Add a directory."""
        self._header(name, 0, 0, tarfile.DIRTYPE)

    def add(self, name: str, size: int, chunks: Iterable[bytes], *, mtime: int = 0) -> None:
        """Add a file of `size` bytes. Raises OSError."""
        self._header(name, size, mtime, tarfile.REGTYPE)
        for chunk in chunks:
            self._raw.write(chunk)
        self._raw.write(bytes(-size % BLOCK))

    def _header(self, name: str, size: int, mtime: int, kind: bytes) -> None:
        info = tarfile.TarInfo(name)
        info.size, info.mtime, info.type = size, mtime, kind
        info.mode = 0o700 if kind == tarfile.DIRTYPE else 0o600
        self._raw.write(info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape"))

    def finish(self) -> None:
        """End the tar file without closing it."""
        self._raw.write(bytes(2 * BLOCK))
        self._raw.flush()
