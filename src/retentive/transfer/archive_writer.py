"""Writing the file of an export or a backup: memory stores as they were at one revision each, and a manifest."""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import IO

from retentive import __version__
from retentive.storage.contract import Backend, Memory, Snapshot, StoreInfo, now_us, to_datetime
from retentive.transfer import lines
from retentive.transfer.files import new_file, said
from retentive.transfer.kinds import JOTTING_KINDS, NOTE_KINDS
from retentive.transfer.tar import CHUNK, TarWriter
from retentive.transfer.versions import History, between, load
from retentive.values.paths import ROOT

Progress = Callable[[int, int], None]
"""Hears how many versions, files or stores are done, and how many there are."""

EXPORT, BACKUP, MANIFEST = "retentive-export.json", "retentive-backup.json", "retentive-manifest.txt"
COMPRESSED = (".tar.gz", ".tgz")


class ArchiveWriter:
    """The file under way: entries, and the list of them for the manifest."""

    def __init__(self, tar: TarWriter, directory: str) -> None:
        self._tar = tar
        self._directory = directory
        self._manifest = spool(directory)
        self._count = 0
        self._mtime = int(time.time())

    def add(self, name: str, data: bytes) -> None:
        """Add an entry."""
        self._added(name, hashlib.sha256(data).hexdigest())
        self._tar.add(name, len(data), [data], mtime=self._mtime)

    def add_lines(self, name: str, text: Iterable[str]) -> None:
        """Add an entry of lines that need not fit into memory."""
        digest = hashlib.sha256()
        with spool(self._directory) as file:
            for line in text:
                data = line.encode()
                digest.update(data)
                file.write(data)
            size = file.tell()
            file.seek(0)
            self._added(name, digest.hexdigest())
            self._tar.add(name, size, iter(lambda: file.read(CHUNK), b""), mtime=self._mtime)

    def spool(self) -> IO[bytes]:
        """A file without a name, beside the one that is made."""
        return spool(self._directory)

    def _added(self, name: str, digest: str) -> None:
        self._manifest.write(f"{digest}  {name}\n".encode())
        self._count += 1

    def mark(self) -> tuple[int, int, int]:
        """Where the file stands."""
        return self._tar.mark(), self._manifest.tell(), self._count

    def back_to(self, mark: tuple[int, int, int]) -> None:
        """Take back what was added since."""
        at, listed, self._count = mark
        self._tar.back_to(at)
        self._manifest.seek(listed)
        self._manifest.truncate()

    def finish(self) -> None:
        """Add the manifest, and end the file."""
        head = f"# retentive {lines.FORMAT}: {self._count} entries\n".encode()
        size = len(head) + self._manifest.tell()
        self._manifest.seek(0)
        chunks = iter(lambda: self._manifest.read(CHUNK), b"")
        self._tar.add(MANIFEST, size, _after(head, chunks), mtime=self._mtime)
        self._tar.finish()

    def close(self) -> None:
        """Let go of what was spooled."""
        self._tar.give_up()
        self._manifest.close()


def spool(directory: str | None = None) -> IO[bytes]:
    """A file without a name, gone when it is closed."""
    return tempfile.TemporaryFile(dir=directory)


@contextmanager
def new_archive(path: str) -> Iterator[ArchiveWriter]:
    """A new export at a path; it has its name when the block ends without an error."""
    with new_file(path) as raw:
        writer = ArchiveWriter(TarWriter(raw, compressed=path.endswith(COMPRESSED)), os.path.dirname(path) or ".")
        try:
            yield writer
            writer.finish()
        finally:
            with said():
                writer.close()


class StoreSection:
    """The part of a file that holds one memory store."""

    def __init__(
        self, archive: ArchiveWriter, backend: Backend, info: StoreInfo, *, prefix: str, header: str, notes: bool
    ) -> None:
        self._archive = archive
        self._backend = backend
        self._info = info
        self._prefix = prefix
        self._header = prefix + header
        self._notes = notes

    def write(self, progress: Progress | None = None) -> lines.Header:
        """Add the store as it is at one revision. Raises `NotFound` if it is gone, and has added nothing then.

        As it is: of a store that is sealed and read without keys, what rests.
        """
        store_id = self._info.id
        see_hand_edits(self._backend, store_id)
        mark = self._archive.mark()
        try:
            header = self._backend.read(store_id, partial(self._snapshot, mark=mark, progress=progress))
            if self._notes:
                jotted = (
                    lines.note_line(kind, key, value)
                    for kind in JOTTING_KINDS
                    for key, value in self._backend.side_records(store_id, kind)
                )
                self._archive.add_lines(self._prefix + "jottings.jsonl", jotted)
        except BaseException:
            self._archive.back_to(mark)
            raise
        return header

    def _snapshot(self, snapshot: Snapshot, *, mark: tuple[int, int, int], progress: Progress | None) -> lines.Header:
        self._archive.back_to(mark)  # it may be run again
        memories = list(snapshot.memories(ROOT))
        history = History(snapshot)
        usage = snapshot.usage()
        raw = is_raw(self._backend, snapshot)
        header = lines.Header(
            self._info.id,
            self._info.key,
            self._info.name,
            self._info.created_at,
            snapshot.seal if raw else None,
            snapshot.settings,
            snapshot.revision,
            usage.memories,
            usage.size_bytes,
            history.count,
        )
        self._archive.add(self._header, header.to_json(about("a memory store")).encode())
        with self._archive.spool() as versions:
            texts = self._texts(snapshot, history, versions, raw=raw, progress=progress)
            versions.seek(0)
            self._archive.add_lines(self._prefix + "versions.jsonl", (line.decode() for line in versions))
        self._archive.add_lines(self._prefix + "memories.jsonl", _memory_lines(memories, texts))
        if self._notes:
            noted = (lines.note_line(kind, *note) for kind in NOTE_KINDS for note in snapshot.records(kind))
            self._archive.add_lines(self._prefix + "notes.jsonl", noted)
        return header

    def _texts(
        self, snapshot: Snapshot, history: History, versions: IO[bytes], *, raw: bool, progress: Progress | None
    ) -> dict[str, str]:
        """Add all texts, and spool the lines of the versions; under which version the text of each memory stands.

        A text that is that of the version before, as after a rename, is not added again.
        """
        last: dict[str, tuple[bytes, str]] = {}
        for done, known in enumerate(history.oldest_first(partial(between, snapshot))):
            version, data = load(snapshot, known.id, raw=raw)
            text_of = None
            if data is not None:
                digest = hashlib.sha256(data).digest()
                before = last.get(version.memory_id)
                text_of = before[1] if before is not None and before[0] == digest else version.id
                last[version.memory_id] = digest, text_of
                if text_of == version.id:
                    self._archive.add(f"{self._prefix}texts/{version.id}", data)
            versions.write(lines.version_line(version, text_of).encode())
            if progress is not None:
                progress(done + 1, history.count)
        return {memory_id: text_of for memory_id, (_, text_of) in last.items()}


def is_raw(backend: Backend, snapshot: Snapshot) -> bool:
    """Whether what is read of a sealed store is what rests: read without keys."""
    return snapshot.seal is not None and bare(backend) is backend


def bare(backend: Backend) -> Backend:
    """The backend below encryption, of which a bare backend knows nothing: it has `inner`."""
    inner = getattr(backend, "inner", None)
    return inner if isinstance(inner, Backend) else backend


def see_hand_edits(backend: Backend, store_id: str) -> None:
    """Have what was changed by hand recorded first: a long read that finds it would become a long write."""
    backend.read(store_id, lambda snapshot: deque(snapshot.sizes(ROOT), maxlen=0))


def now_text() -> str:
    """The time, as it stands in a file."""
    made: datetime = to_datetime(now_us())
    return lines.time_text(made)


def about(what: str) -> dict[str, object]:
    """What a file says of itself."""
    return {"format": lines.FORMAT, "what": what, "made_at": now_text(), "retentive": __version__}


def _memory_lines(memories: Iterable[Memory], texts: dict[str, str]) -> Iterator[str]:
    return (lines.memory_line(memory, texts.get(memory.id)) for memory in memories)


def _after(head: bytes, chunks: Iterable[bytes]) -> Iterator[bytes]:
    yield head
    yield from chunks
