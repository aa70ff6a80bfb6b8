"""Reads and changes the synchronised directory. A change overwrites only a text that the plan expects.

Paths are opened one component at a time, starting from an open directory, and links are never followed. To replace a
file, a new file is written, synced to disk and exchanged with the old file. Only then is the old file compared with the
expected text. If another program has changed the old file meanwhile, the exchange is reversed.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from typing import IO

from retentive.errors import InvalidInput, Refused
from retentive.storage.disk import CLOSE_ON_EXEC, NO_FOLLOW, exchange, rename_if_free
from retentive.sync.files import FileChanged, FolderScan, LocalFile, Stamp
from retentive.values.paths import ROOT, MemoryPath, visible
from retentive.values.text import is_text

MARKER, IGNORE = ".retentive-sync", ".retentive-ignore"
LOCATION = ".retentive/memory.db"
"""Database of a location that is a directory. Its memories are in the directory `memories` beside `.retentive`."""
NEW, ASIDE = ".retentive-new-", ".retentive-aside-"
"""Prefixes of temporary files. A file with the first prefix may be incomplete, a file with the second is complete.

`clean` handles files that are left after a crash.
"""
SETTLE_S = 0.2
"""A file that changed less than this number of seconds ago may be incomplete. A later scan reads it."""
_DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | NO_FOLLOW | CLOSE_ON_EXEC  # Windows lacks some
_READ = os.O_RDONLY | NO_FOLLOW | CLOSE_ON_EXEC | getattr(os, "O_NONBLOCK", 0)
_EMPTY = hashlib.sha256().hexdigest()
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_FOLLOW | CLOSE_ON_EXEC


class Folder:
    """Open directory whose files are synchronised. Not thread-safe."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._written: dict[str, Stamp] = {}

    def close(self) -> None:
        """Close the directory."""
        os.close(self.descriptor)

    def patterns(self) -> tuple[str, ...]:
        """Return the patterns in the ignore file. It has one pattern per line."""
        try:
            lines = self._read(IGNORE)[0].decode(errors="replace").splitlines()
        except (OSError, FileChanged):
            return ()
        return tuple(line.strip() for line in lines if line.strip() and not line.startswith("#"))

    def scan(
        self, known: Mapping[str, tuple[str, Stamp | None]], ignored: tuple[str, ...], most_bytes: int
    ) -> FolderScan:
        """Scan the directory, and return its files with their hashes.

        `known` maps the path of each file to its hash and stamp in an earlier scan. If the file still has this stamp,
        it is not read again. A file that changed very recently is not read yet, unless this object wrote it. `ignored`
        contains the ignore patterns. Files larger than `most_bytes` are skipped.
        """
        files: dict[str, LocalFile] = {}
        skipped: dict[str, str] = {}
        waiting: set[str] = set()
        for name, entry in self._walk("", ignored):
            try:
                path = MemoryPath.parse(f"{ROOT}/{name}").text
            except Refused:
                skipped[f"{ROOT}/{_shown(name)}"] = "the name cannot be the path of a memory"
                continue
            if path in files:
                skipped[path] = "two files have names that differ only in their Unicode form"
                del files[path]
            if path in skipped:
                continue
            why = None if entry is None else _unfit(entry, most_bytes)
            if why is not None:
                skipped[path] = why
                continue
            sha256 = None if entry is None else self._settled_sha256(name, _stamp(entry), known.get(path))
            if entry is None or sha256 is None:
                waiting.add(path)
            elif not sha256:
                skipped[path] = "the file is not text (UTF-8 without NUL)"
            else:
                files[path] = LocalFile(name, sha256, _stamp(entry).if_certain())
        return FolderScan(files, skipped, frozenset(waiting))

    def stamps(self, ignored: tuple[str, ...]) -> tuple[tuple[str, ...], Mapping[str, Stamp | None]]:
        """Return the ignore patterns, and the stamps of all files that are not ignored, by relative name.

        A directory that cannot be read has the stamp None. Only the ignore file is read.
        """
        patterns = self.patterns()
        walked = self._walk("", (*ignored, *patterns))
        return patterns, {name: None if entry is None else _stamp(entry) for name, entry in walked}

    def text(self, file: LocalFile) -> str:
        """Return the text of a scanned file. Raises `FileChanged` if the file has changed since the scan."""
        with _as_changed():
            data, _ = self._read(file.name)
        if hashlib.sha256(data).hexdigest() != file.sha256:
            raise FileChanged
        return data.decode()

    def write(self, path: str, text: str, old: LocalFile | None, *, like: LocalFile | None = None) -> LocalFile:
        """Replace the text of the file `old`. If `old` is None, create a file at `path`.

        The permissions of `old` are kept. A new file gets those of `like`, a file in the same directory.
        Raises `FileChanged` if `old` has changed since the scan, or if the new file exists already.
        """
        name = _name_of(path) if old is None else old.name
        data = text.encode()
        parent, last = os.path.split(name)
        with self._parent(parent, make=True) as directory:
            temporary = self._temporary(data, directory, like=old or like)
            try:
                if old is None:
                    with _as_changed():
                        rename_if_free(temporary, directory, last, directory)
                else:
                    self._exchange(temporary, last, directory, old.sha256)
            except FileChanged:
                self._put_away(temporary, directory, hashlib.sha256(data).hexdigest())
                raise
            os.fsync(directory)
            self._written[name] = stamp = _stamp(os.stat(last, dir_fd=directory, follow_symlinks=False))
        return LocalFile(name, hashlib.sha256(data).hexdigest(), stamp)

    def delete(self, file: LocalFile) -> None:
        """Delete a scanned file, and each directory above it that becomes empty.

        Raises `FileChanged` if the file has changed since the scan.
        """
        parent, last = os.path.split(file.name)
        with _as_changed(), self._parent(parent) as directory:
            temporary = self._free_name(ASIDE)
            rename_if_free(last, directory, temporary, directory)
            if self._sha256_at(temporary, directory) != file.sha256:
                try:
                    rename_if_free(temporary, directory, last, directory)
                except FileExistsError:
                    self._put_away(temporary, directory, "")
                raise FileChanged
            os.unlink(temporary, dir_fd=directory)
            os.fsync(directory)
        while parent:
            above, last = os.path.split(parent)
            with self._parent(above) as directory:
                try:
                    os.rmdir(last, dir_fd=directory)
                except OSError:
                    return
            parent = above

    def rename(self, file: LocalFile, path: str) -> None:
        """Move a scanned file to another path. Raises `FileChanged` if the file is missing or the path is in use."""
        (old_parent, old), (parent, new) = os.path.split(file.name), os.path.split(_name_of(path))
        with (
            _as_changed(),
            self._parent(old_parent) as before,
            self._parent(parent, make=True) as after,
        ):
            try:
                rename_if_free(old, before, new, after)
            except FileExistsError:
                if not _is_same_file(old, before, new, after):
                    raise
                self._rename_in_case(file.name, _name_of(path))
            os.fsync(after)

    def _rename_in_case(self, old: str, new: str) -> None:
        """Rename a file, and each directory above it, to a name that the file system takes for the same."""
        below = ""
        for before, after in zip(old.split("/"), new.split("/"), strict=True):
            with self._parent(below) as directory:
                if before != after:
                    os.rename(before, after, src_dir_fd=directory, dst_dir_fd=directory)
            below = os.path.join(below, after)

    def marker(self) -> bytes | None:
        """Return the content of the marker file `.retentive-sync`, or None if the file is missing or unreadable."""
        try:
            return self._read(MARKER)[0]
        except (OSError, FileChanged):
            return None

    def mark(self, data: bytes) -> None:
        """Write `data` to the marker file `.retentive-sync`."""
        temporary = self._temporary(data, self.descriptor)
        os.rename(temporary, MARKER, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
        os.fsync(self.descriptor)

    def clean(self, is_stored: Callable[[str], bool]) -> None:
        """Remove temporary files that a killed process left in the directory.

        A complete file whose text is not in the store is not removed, but renamed to a visible name. `is_stored` takes
        the sha256 of a text, and returns whether the store has this text.
        """
        for below, name in self._leftovers(""):
            with self._parent(below) as directory, suppress(FileNotFoundError, FileChanged):
                sha256 = self._sha256_at(name, directory)
                if name.startswith(ASIDE) and sha256 != _EMPTY and not is_stored(sha256):
                    self._put_away(name, directory, "")
                else:
                    os.unlink(name, dir_fd=directory)

    def _put_away(self, name: str, directory: int, ours: str) -> None:
        """Remove a temporary file if its sha256 is `ours`. If it has any other text, keep it under a visible name."""
        with suppress(FileNotFoundError, FileChanged):
            sha256 = self._sha256_at(name, directory)
            for length in (8, 16, 64) if sha256 != ours else ():
                visible = f"recovered-{sha256[:length]}.md"
                try:
                    rename_if_free(name, directory, visible, directory)
                except FileExistsError:
                    if self._sha256_at(visible, directory) == sha256:
                        break
                else:
                    return
            os.unlink(name, dir_fd=directory)

    def has(self, path: str, text: str) -> bool:
        """Return whether the file at a path has this text."""
        try:
            return self._read(_name_of(path))[0] == text.encode()
        except (OSError, FileChanged):
            return False

    def _leftovers(self, below: str) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        with suppress(OSError), self._parent(below) as directory, os.scandir(directory) as entries:
            for entry in entries:
                if entry.name.startswith((NEW, ASIDE)):
                    found.append((below, entry.name))
                elif not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
                    found += self._leftovers(os.path.join(below, entry.name))
        return found

    def _exchange(self, temporary: str, last: str, directory: int, expected: str) -> None:
        """Replace the file `last` with the file `temporary`.

        Raises `FileChanged` if the hash of the file `last` is not `expected`. The old file is removed only after its
        hash was compared. If the process is killed before the removal, `clean` later removes or recovers the old file.
        """
        with _as_changed():
            if self._sha256_at(last, directory) != expected:
                raise FileChanged
            if not exchange(temporary, directory, last, directory):
                os.rename(temporary, last, src_dir_fd=directory, dst_dir_fd=directory)
                return
            if self._sha256_at(temporary, directory) != expected:
                exchange(temporary, directory, last, directory)
                raise FileChanged
            os.unlink(temporary, dir_fd=directory)

    def _walk(self, below: str, ignored: tuple[str, ...]) -> Iterator[tuple[str, os.stat_result | None]]:
        """Yield the name and the attributes of each file below the directory `below` that is not ignored.

        If a subdirectory cannot be read, yield its name and None. Raises `InvalidInput` if a subdirectory is
        synchronised by itself, or is a location: its files would be copied without end.
        """
        try:
            with self._parent(below) as directory, os.scandir(directory) as entries:
                names = [entry.name for entry in entries]
                for mark in (MARKER, LOCATION) if below else ():
                    if mark.partition("/")[0] in names and _entry(mark, directory) is not None:
                        raise InvalidInput(nested(below, is_location=mark == LOCATION))
                found = [(name, _entry(name, directory)) for name in sorted(names) if not name.startswith(".")]
        except OSError:
            if not below:
                raise
            yield below, None
            return
        for name, entry in found:
            inner = os.path.join(below, name)
            if entry is None or is_ignored(inner, ignored):  # None: the file was removed in the meantime
                continue
            if stat.S_ISDIR(entry.st_mode):
                yield from self._walk(inner, ignored)
            else:
                yield inner, entry

    def _temporary(self, data: bytes, directory: int, *, like: LocalFile | None = None) -> str:
        new, name = self._free_name(NEW), self._free_name(ASIDE)
        with _as_changed():
            mode = None if like is None else os.stat(os.path.basename(like.name), dir_fd=directory).st_mode & 0o777
        descriptor = os.open(new, _WRITE, 0o666 if mode is None else 0o600, dir_fd=directory)
        try:
            if mode is not None:
                os.fchmod(descriptor, mode)
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            os.fsync(descriptor)  # otherwise a power cut could leave an empty file, which would look like an edit
        finally:
            os.close(descriptor)
        os.rename(new, name, src_dir_fd=directory, dst_dir_fd=directory)
        return name

    @staticmethod
    def _free_name(prefix: str) -> str:
        return f"{prefix}{secrets.token_hex(8)}"

    def _read(self, name: str) -> tuple[bytes, Stamp]:
        """Return the content of a regular file, and its stamp: the size, time and inode.

        Raises `FileChanged` if the file changes during the read or is not a regular file. Raises OSError if the file
        cannot be read.
        """
        parent, last = os.path.split(name)
        with self._parent(parent) as directory, _regular(last, directory) as (file, before):
            data = file.read()
            if _stamp(os.fstat(file.fileno())) != before:
                raise FileChanged
        return data, before

    def _settled_sha256(self, name: str, stamp: Stamp, known: tuple[str, Stamp | None] | None) -> str | None:
        """Return the hash of a file. Return None if the file may be incomplete, and "" if it is not text.

        `known` contains the hash and stamp of the file in an earlier scan. If the stamp is the same, the file is not
        read.
        """
        if self._written.get(name) != stamp and abs(time.time_ns() - stamp.mtime_ns) < SETTLE_S * 1e9:
            return None
        return known[0] if known is not None and known[1] == stamp else self._sha256(name, stamp)

    def _sha256(self, name: str, stamp: Stamp) -> str | None:
        """Read a file, and return its hash. Return "" if the file is not text.

        Return None if the file cannot be read, or if its stamp is no longer `stamp`.
        """
        try:
            data, read = self._read(name)
        except (OSError, FileChanged):
            return None
        if read != stamp:
            return None
        return hashlib.sha256(data).hexdigest() if is_text(data) else ""

    def _sha256_at(self, name: str, directory: int) -> str:
        with _regular(name, directory) as (file, _):
            return hashlib.sha256(file.read()).hexdigest()

    @contextmanager
    def _parent(self, name: str, *, make: bool = False) -> Iterator[int]:
        """Open the subdirectory `name` without following links. If `make` is True, create missing directories."""
        descriptor = os.dup(self.descriptor)
        try:
            for part in filter(None, name.split("/")):
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=descriptor)
                above, descriptor = descriptor, os.open(part, _DIRECTORY, dir_fd=descriptor)
                os.close(above)  # even if this fails, it is closed
            yield descriptor
        finally:
            os.close(descriptor)


@contextmanager
def _regular(name: str, directory: int) -> Iterator[tuple[IO[bytes], Stamp]]:
    """Open a regular file in an open directory for reading. Yield the file and its stamp.

    Raises `FileChanged` if it is not a regular file, and OSError if it cannot be opened.
    """
    descriptor = os.open(name, _READ, dir_fd=directory)
    try:
        entry = os.fstat(descriptor)
        if not stat.S_ISREG(entry.st_mode):
            raise FileChanged
        with open(descriptor, "rb", closefd=False) as file:
            yield file, _stamp(entry)
    finally:
        os.close(descriptor)


def is_ignored(name: str, patterns: tuple[str, ...]) -> bool:
    """Return whether a file is ignored.

    `name` is the path of the file, relative to the synchronised directory. The file is ignored if a component of `name`
    starts with a period. It is also ignored if a pattern matches `name`, a single component of `name`, or the path of a
    directory above the file.
    """
    parts = name.split("/")
    if any(part.startswith(".") for part in parts):
        return True
    names = ["/".join(parts[: end + 1]) for end in range(len(parts))] + parts
    return any(fnmatchcase(each, pattern.rstrip("/")) for pattern in patterns for each in names)


def nested(name: str, *, is_location: bool) -> str:
    """Return the message for a directory in another one, of which only one can be synchronised."""
    what = "is a location with memories" if is_location else "is synchronised by itself"
    return (
        f"the directory {_shown(name)!r} in it {what}, so its files would be copied without end; move it, or leave it"
        f" out with --ignore or in {IGNORE}"
    )


def _is_same_file(name: str, directory: int, other: str, other_directory: int) -> bool:
    """Return whether two names that differ in case only mean one file, as on macOS."""
    found, also = _entry(name, directory), _entry(other, other_directory)
    if found is None or also is None or name.casefold() != other.casefold():
        return False
    return os.path.samestat(found, also)


def _unfit(entry: os.stat_result, most_bytes: int) -> str | None:
    if stat.S_ISLNK(entry.st_mode):
        return "the file is a link"
    if not stat.S_ISREG(entry.st_mode):
        return "the path is not a regular file"
    return f"the file is larger than {most_bytes:,} bytes" if entry.st_size > most_bytes else None


def _entry(name: str, directory: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _stamp(entry: os.stat_result) -> Stamp:
    return Stamp(entry.st_size, entry.st_mtime_ns, entry.st_ino, entry.st_ctime_ns)


def _name_of(path: str) -> str:
    return path.removeprefix(f"{ROOT}/")


def _shown(name: str) -> str:
    return visible(unicodedata.normalize("NFC", name))


@contextmanager
def _as_changed() -> Iterator[None]:
    """Raise `FileChanged` in place of an OSError if another program removed, created or replaced the file."""
    try:
        yield
    except (FileNotFoundError, FileExistsError, NotADirectoryError, IsADirectoryError):
        raise FileChanged from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise FileChanged from None
        raise
