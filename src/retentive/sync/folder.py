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
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from retentive.errors import InvalidInput, Refused
from retentive.storage.disk import CLOSE_ON_EXEC, NO_FOLLOW, exchange, rename_if_free
from retentive.values.paths import ROOT, MemoryPath, is_editor_file, visible
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
COARSE_TICK_NS, FINE_TICK_NS = 2_000_000_000, 20_000_000
"""Longest tick of a file system whose times are whole seconds (ext4 with small inodes, FAT), and of all others."""
_DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | NO_FOLLOW | CLOSE_ON_EXEC  # Windows lacks some
_READ = os.O_RDONLY | NO_FOLLOW | CLOSE_ON_EXEC | getattr(os, "O_NONBLOCK", 0)
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_FOLLOW | CLOSE_ON_EXEC


class FileChanged(Exception):
    """Raised if another program changes a file during a round. The next round reads the file again."""

    def __str__(self) -> str:
        return "another program changed the file, or another file has its name"


@dataclass(frozen=True, slots=True)
class Stamp:
    """File attributes that change when the content of the file changes. They are compared without reading the file.

    A program can set `mtime_ns` back, but not `ctime_ns`.
    """

    size_bytes: int
    mtime_ns: int
    inode: int
    ctime_ns: int = 0

    def if_certain(self) -> Stamp:
        """Return this stamp, or for a file that changed within the last tick, one that equals no other.

        Within one tick, the next change of the file could get the same times.
        """
        is_coarse = self.mtime_ns % 1_000_000_000 == self.ctime_ns % 1_000_000_000 == 0
        age_ns = time.time_ns() - max(self.mtime_ns, self.ctime_ns)
        is_certain = age_ns > (COARSE_TICK_NS if is_coarse else FINE_TICK_NS)
        return self if is_certain else replace(self, ctime_ns=-time.time_ns())


@dataclass(frozen=True, slots=True)
class LocalFile:
    """File of the synchronised directory.

    `name` is the path of the file, relative to the directory. It is spelled as in the file system, so it is not
    always in Unicode NFC. `sha256` is the hash of the content.
    """

    name: str
    sha256: str
    stamp: Stamp


@dataclass(frozen=True, slots=True)
class FolderScan:
    """Result of a scan of the synchronised directory.

    `files` maps memory paths to the corresponding files. `skipped` contains the paths that are not synchronised, each
    with the reason. `waiting` contains paths that cannot be read or are still being written. Files below a skipped or
    waiting path do not count as deleted, because the scan may not have found them.
    """

    files: dict[str, LocalFile]
    skipped: dict[str, str]
    waiting: set[str]


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
        lines = (self.content(IGNORE) or b"").decode(errors="replace").splitlines()
        return tuple(line.strip() for line in lines if line.strip() and not line.startswith("#"))

    def scan(
        self,
        known: Mapping[str, tuple[str, Stamp | None]],
        kept: Collection[str],
        ignored: tuple[str, ...],
        most_bytes: int,
    ) -> FolderScan:
        """Scan the directory, and return its files with their hashes.

        `known` maps the path of each file to its hash and stamp in an earlier scan. If the file still has this stamp,
        it is not read again. A file that changed very recently is not read yet, unless this object wrote it. `ignored`
        contains the ignore patterns. Backup and temporary files of editors are left out too, except for those in
        `kept`: a command created them. Files larger than `most_bytes` are skipped.
        """
        found = FolderScan({}, {}, set())
        for name, entry in self._walk("", ignored):
            try:
                path = MemoryPath.parse(f"{ROOT}/{name}").text
            except Refused:
                found.skipped[f"{ROOT}/{_shown(name)}"] = "the name cannot be the path of a memory"
                continue
            if is_editor_file(path.rpartition("/")[2]) and path not in kept:
                continue
            if path in found.files:
                found.skipped[path] = "two files have names that differ only in their Unicode form"
                del found.files[path]
            elif entry is None:
                found.waiting.add(path)
            elif path in found.skipped:
                continue
            elif why := _unfit(entry, most_bytes):
                found.skipped[path] = why
            elif (sha256 := self._settled_sha256(name, _stamp(entry), known.get(path))) is None:
                found.waiting.add(path)
            elif sha256:
                found.files[path] = LocalFile(name, sha256, _stamp(entry).if_certain())
            else:
                found.skipped[path] = "the file is not text (UTF-8 without NUL)"
        return found

    def _settled_sha256(self, name: str, stamp: Stamp, known: tuple[str, Stamp | None] | None) -> str | None:
        """Return the hash of a file. Return None if it may be incomplete or cannot be read, and "" if it is not text.

        The file is not read if it has the hash and the stamp in `known`.
        """
        if self._written.get(name) != stamp and abs(time.time_ns() - stamp.mtime_ns) < SETTLE_S * 1e9:
            return None
        if known is not None and known[1] == stamp:
            return known[0]
        try:
            data, read = self._read(name)
        except (OSError, FileChanged):
            return None
        if read != stamp:
            return None
        return _sha256(data) if is_text(data) else ""

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
        if _sha256(data) != file.sha256:
            raise FileChanged
        return data.decode()

    def write(self, path: str, text: str, old: LocalFile | None, *, like: LocalFile | None = None) -> LocalFile:
        """Replace the text of the file `old`. If `old` is None, create a file at `path`.

        The permissions of `old` are kept. A new file gets those of `like`, a file in the same directory.
        Raises `FileChanged` if `old` has changed since the scan, or if the new file exists already.
        """
        name = name_of(path) if old is None else old.name
        data = text.encode()
        parent, last = os.path.split(name)
        with self._parent(parent, make=True) as directory:
            temporary = self._temporary(data, directory, like=old or like)
            try:
                with _as_changed():
                    if old is None:
                        rename_if_free(temporary, directory, last, directory)
                    else:
                        self._exchange(temporary, last, directory, old.sha256)
            except FileChanged:
                self._put_away(temporary, directory, _sha256(data))
                raise
            os.fsync(directory)
            self._written[name] = stamp = _stamp(os.stat(last, dir_fd=directory, follow_symlinks=False))
        return LocalFile(name, _sha256(data), stamp)

    def delete(self, file: LocalFile) -> None:
        """Delete a scanned file, and each directory above it that becomes empty.

        Raises `FileChanged` if the file has changed since the scan.
        """
        parent, last = os.path.split(file.name)
        with _as_changed(), self._parent(parent) as directory:
            temporary = _free_name(ASIDE)
            rename_if_free(last, directory, temporary, directory)
            if _hash(temporary, directory) != file.sha256:
                try:
                    rename_if_free(temporary, directory, last, directory)
                except FileExistsError:
                    self._put_away(temporary, directory)
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
        (old_parent, old), (parent, new) = os.path.split(file.name), os.path.split(name_of(path))
        with _as_changed(), self._parent(old_parent) as before, self._parent(parent, make=True) as after:
            rename_if_free(old, before, new, after)
            os.fsync(after)

    def content(self, name: str) -> bytes | None:
        """Return the content of a file, or None if it is missing or cannot be read."""
        try:
            return self._read(name)[0]
        except (OSError, FileChanged):
            return None

    def has(self, path: str, text: str) -> bool:
        """Return whether the file at a path has this text."""
        return self.content(name_of(path)) == text.encode()

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
                data = _regular(name, directory)[0]
                if name.startswith(ASIDE) and data and not is_stored(_sha256(data)):
                    self._put_away(name, directory)
                else:
                    os.unlink(name, dir_fd=directory)

    def _put_away(self, name: str, directory: int, ours: str = "") -> None:
        """Remove a temporary file if its sha256 is `ours`. If it has any other text, keep it under a visible name."""
        with suppress(FileNotFoundError, FileChanged):
            sha256 = _hash(name, directory)
            if sha256 == ours:
                os.unlink(name, dir_fd=directory)
                return
            try:
                rename_if_free(name, directory, f"recovered-{sha256[:16]}.md", directory)
            except FileExistsError:  # this text was recovered before; somebody may have edited it since
                rename_if_free(name, directory, f"recovered-{sha256[:16]}-{secrets.token_hex(4)}.md", directory)

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
        if _hash(last, directory) != expected:
            raise FileChanged
        if not exchange(temporary, directory, last, directory):
            os.rename(temporary, last, src_dir_fd=directory, dst_dir_fd=directory)
            return
        if _hash(temporary, directory) != expected:
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
        new, name = _free_name(NEW), _free_name(ASIDE)
        with _as_changed():
            mode = None if like is None else os.stat(os.path.basename(like.name), dir_fd=directory).st_mode & 0o777
        descriptor = os.open(new, _WRITE, 0o666 if mode is None else 0o600, dir_fd=directory)
        with open(descriptor, "wb") as file:
            if mode is not None:
                os.fchmod(descriptor, mode)
            file.write(data)
            file.flush()
            os.fsync(descriptor)  # otherwise a power cut could leave an empty file, which would look like an edit
        os.rename(new, name, src_dir_fd=directory, dst_dir_fd=directory)
        return name

    def _read(self, name: str) -> tuple[bytes, Stamp]:
        """Return the content of a regular file, and its stamp: the size, time and inode.

        Raises `FileChanged` if the file changes during the read or is not a regular file. Raises OSError if the file
        cannot be read.
        """
        parent, last = os.path.split(name)
        with self._parent(parent) as directory:
            data, before, after = _regular(last, directory)
        if after != before:
            raise FileChanged
        return data, before

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


def _regular(name: str, directory: int) -> tuple[bytes, Stamp, Stamp]:
    """Return the content of a regular file in an open directory, and its stamps before and after it was read.

    Raises `FileChanged` if it is not a regular file, and OSError if it cannot be read.
    """
    descriptor = os.open(name, _READ, dir_fd=directory)
    try:
        entry = os.fstat(descriptor)
        if not stat.S_ISREG(entry.st_mode):
            raise FileChanged
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(), _stamp(entry), _stamp(os.fstat(descriptor))
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


def refuse_nested(folder: Folder, ignored: tuple[str, ...], location: str | None) -> None:
    """Raise `InvalidInput` if a synchronised directory and a location, or two such directories, lie in one another.

    `location` is the directory or the SQLite database that has the memory store, if it is on this machine.
    """
    ignored = (*ignored, *folder.patterns())
    real = Path(os.path.realpath(folder.path))
    if location is not None:
        names = ("memories", ".retentive") if not os.path.isfile(location) else ("",)
        for own in (Path(os.path.realpath(os.path.join(location, name))) for name in names):
            if own.is_relative_to(real) and not is_ignored(str(own.relative_to(real)), ignored):
                raise InvalidInput(nested(str(own.relative_to(real)), is_location=True))
            if real.is_relative_to(own):
                raise InvalidInput("the directory belongs to the memory store itself; choose another one")
    below = real
    for above in real.parents:
        if below.name == "memories" and (above / LOCATION).exists():
            raise InvalidInput("the directory belongs to a location with memories; choose another one")
        if (above / MARKER).exists() and not _leaves_out(above, str(real.relative_to(above))):
            raise InvalidInput(
                f"the directory {os.path.relpath(above, real)!r} above it is synchronised too, so its files would be"
                f" copied without end; move it, or leave it out in the file {IGNORE} there"
            )
        below = above


def _leaves_out(directory: Path, name: str) -> bool:
    with suppress(OSError), closing(Folder(str(directory))) as folder:
        return is_ignored(name, folder.patterns())
    return False


def _unfit(entry: os.stat_result, most_bytes: int) -> str:
    if stat.S_ISLNK(entry.st_mode):
        return "the file is a link"
    if not stat.S_ISREG(entry.st_mode):
        return "the path is not a regular file"
    return f"the file is larger than {most_bytes:,} bytes" if entry.st_size > most_bytes else ""


def _entry(name: str, directory: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=directory, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _stamp(entry: os.stat_result) -> Stamp:
    return Stamp(entry.st_size, entry.st_mtime_ns, entry.st_ino, entry.st_ctime_ns)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _hash(name: str, directory: int) -> str:
    return _sha256(_regular(name, directory)[0])


def _free_name(prefix: str) -> str:
    return f"{prefix}{secrets.token_hex(8)}"


def name_of(path: str) -> str:
    """Return the path of a file, relative to the synchronised directory, for the path of its memory."""
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
