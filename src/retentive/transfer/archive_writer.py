"""Writes export and backup files: memory stores, each at one revision, and a manifest that lists all entries."""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import IO

from retentive import __version__
from retentive.storage.capabilities import below_encryption
from retentive.storage.contract import Backend, Snapshot, StoreInfo, now_us, to_datetime
from retentive.storage.disk import expanded
from retentive.transfer import lines
from retentive.transfer.contents import read_records, read_side_records
from retentive.transfer.files import mapped_os_errors, new_file
from retentive.transfer.tar import CHUNK, TarWriter
from retentive.transfer.versions import VersionIndex, load, versions_between
from retentive.values.paths import ROOT

TransferProgress = Callable[[int, int], None]
"""Function that shows progress. It gets the number of versions, files or stores that are done, and the total number."""

EXPORT, BACKUP, MANIFEST = "retentive-export.json", "retentive-backup.json", "retentive-manifest.txt"
RECORDS, SIDE_RECORDS = "records.jsonl", "side_records.jsonl"
COMPRESSED = (".tar.gz", ".tgz")


class ArchiveWriter:
    """Writes the entries of a file, and lists them in the manifest."""

    def __init__(self, tar: TarWriter, directory: str) -> None:
        self._tar = tar
        self.directory = directory
        self._manifest = spool(directory)
        self._count = 0
        self._mtime = int(time.time())

    def add(self, name: str, data: bytes) -> None:
        """Add an entry."""
        self._list(name, hashlib.sha256(data).hexdigest())
        self._tar.add(name, len(data), [data], mtime=self._mtime)

    def add_lines(self, name: str, text: Iterable[str]) -> None:
        """Add an entry that consists of lines. The entry may be larger than the available RAM."""
        digest = hashlib.sha256()
        with spool(self.directory) as file:
            for line in text:
                data = line.encode()
                digest.update(data)
                file.write(data)
            size = file.tell()
            file.seek(0)
            self._list(name, digest.hexdigest())
            self._tar.add(name, size, iter(lambda: file.read(CHUNK), b""), mtime=self._mtime)

    def _list(self, name: str, digest: str) -> None:
        self._manifest.write(f"{digest}  {name}\n".encode())
        self._count += 1

    def mark(self) -> tuple[int, int, int]:
        """Return the current position, for `roll_back`."""
        return self._tar.mark(), self._manifest.tell(), self._count

    def roll_back(self, mark: tuple[int, int, int]) -> None:
        """Remove the entries that were added after the position `mark`."""
        position, listed, self._count = mark
        self._tar.roll_back(position)
        self._manifest.seek(listed)
        self._manifest.truncate()

    def finish(self) -> None:
        """Add the manifest, and end the file."""
        head = f"# retentive {lines.FORMAT}: {self._count} entries\n".encode()
        size = len(head) + self._manifest.tell()
        self._manifest.seek(0)
        chunks = iter(lambda: self._manifest.read(CHUNK), b"")
        self._tar.add(MANIFEST, size, chain([head], chunks), mtime=self._mtime)
        self._tar.finish()

    def close(self) -> None:
        """Close the temporary files. If `finish` was not called before, the file is incomplete."""
        self._tar.abandon()
        self._manifest.close()


def spool(directory: str | None = None) -> IO[bytes]:
    """Return a temporary file without a name. Closing the file removes it."""
    return tempfile.TemporaryFile(dir=directory)


@contextmanager
def new_archive(path: str) -> Iterator[ArchiveWriter]:
    """Yield an archive. It appears at `path` when the block ends without an error."""
    path = expanded(path)
    with new_file(path) as raw:
        writer = ArchiveWriter(TarWriter(raw, compressed=path.endswith(COMPRESSED)), os.path.dirname(path) or ".")
        try:
            yield writer
            writer.finish()
        finally:
            with mapped_os_errors():
                writer.close()


@dataclass(frozen=True, slots=True)
class SectionWriter:
    """Writes the section of one memory store. With `records`, it also writes records and side records."""

    archive: ArchiveWriter
    backend: Backend
    info: StoreInfo
    progress: TransferProgress | None
    prefix: str
    header: str
    records: bool

    def write(self) -> lines.Header:
        """Add the memory store as it is at one revision. If the store does not exist, raise `NotFound` and add nothing.

        If an encrypted memory store is read without keys, its texts are added in encrypted form.
        """
        store_id = self.info.id
        record_external_edits(self.backend, store_id)
        mark = self.archive.mark()
        try:
            header = self.backend.read(store_id, partial(self._snapshot, mark=mark))
            if self.records:
                beside = (lines.record_line(record) for record in read_side_records(self.backend, store_id))
                self.archive.add_lines(self.prefix + SIDE_RECORDS, beside)
        except BaseException:
            self.archive.roll_back(mark)
            raise
        return header

    def _snapshot(self, snapshot: Snapshot, *, mark: tuple[int, int, int]) -> lines.Header:
        archive, prefix = self.archive, self.prefix
        archive.roll_back(mark)  # a backend may run this function more than once
        memories = [memory for memory, _ in snapshot.list(ROOT)]
        history = VersionIndex(snapshot)
        raw = snapshot.state.seal is not None and below_encryption(self.backend) is self.backend
        header = self._header_of(snapshot, versions=history.count, raw=raw)
        archive.add(prefix + self.header, lines.header_line(header, about("a memory store")).encode())
        with spool(archive.directory) as versions:
            texts = self._texts(snapshot, history, versions, raw=raw)
            versions.seek(0)
            archive.add_lines(prefix + "versions.jsonl", (line.decode() for line in versions))
        present = (lines.value_line(memory, texts.get(memory.id)) for memory in memories)
        archive.add_lines(prefix + "memories.jsonl", present)
        if self.records:
            records = (lines.record_line(record) for record in read_records(snapshot))
            archive.add_lines(prefix + RECORDS, records)
        return header

    def _header_of(self, snapshot: Snapshot, *, versions: int, raw: bool) -> lines.Header:
        usage, info = snapshot.state.usage, self.info
        return lines.Header(
            id=info.id,
            key=info.key,
            name=info.name,
            created_at=info.created_at,
            seal=snapshot.state.seal if raw else None,
            settings=snapshot.state.settings,
            revision=snapshot.state.revision,
            memories=usage.memories,
            size_bytes=usage.size_bytes,
            versions=versions,
            workspace_id=info.workspace_id,
            properties=snapshot.state.properties,
        )

    def _texts(self, snapshot: Snapshot, history: VersionIndex, versions: IO[bytes], *, raw: bool) -> dict[str, str]:
        """Add all texts to the file, and write the lines of the versions to the temporary file `versions`.

        If a version has the same text as the previous version of the memory (for example, after a rename), the text is
        not added again. Returns a map from the id of each memory to the id of the version under which its newest text
        is stored.
        """
        last: dict[str, tuple[bytes, str]] = {}
        for done, known in enumerate(history.oldest_first(partial(versions_between, snapshot))):
            version, data = load(snapshot, known.id, raw=raw)
            text_of = None
            if data is not None:
                digest = hashlib.sha256(data).digest()
                before = last.get(version.memory_id)
                text_of = before[1] if before is not None and before[0] == digest else version.id
                last[version.memory_id] = digest, text_of
                if text_of == version.id:
                    self.archive.add(f"{self.prefix}texts/{version.id}", data)
            versions.write(lines.value_line(version, text_of).encode())
            if self.progress is not None:
                self.progress(done + 1, history.count)
        return {memory_id: text_of for memory_id, (_, text_of) in last.items()}


def record_external_edits(backend: Backend, store_id: str) -> None:
    """Read the memory store once.

    If the backend is a directory, it records external edits after this read, in a short transaction of its own.
    """
    backend.read(store_id, lambda snapshot: deque(snapshot.list(ROOT), maxlen=0))


def about(what: str) -> dict[str, object]:
    """Return the description of a file: its format and its kind."""
    return {"format": lines.FORMAT, "what": what, "made_at": to_datetime(now_us()), "retentive": __version__}
