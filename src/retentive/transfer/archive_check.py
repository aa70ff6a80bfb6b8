"""Checks that the lines of a memory store agree with each other, before anything of them is copied."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from retentive.errors import Damaged, TooLarge
from retentive.storage.contract import Memory, Version
from retentive.transfer.lines import Copied, Header, Line, Record
from retentive.values.paths import ancestors, visible


class LinesCheck:
    """Check of the lines of one memory store. Raises `Damaged`, and `TooLarge` for a long text."""

    def __init__(self, header: Line | None, max_text_bytes: int) -> None:
        if not isinstance(header, Header):
            raise Damaged("the lines of a memory store do not begin with its description")
        self.header = header
        self._max_text_bytes = max_text_bytes
        self._last: Line = header
        self._versions = 0
        self._newest: dict[str, Version] = {}
        self._at: dict[str, str] = {}  # path -> newest version there
        self._below: dict[str, str] = {}  # directory -> newest version below it

    def add(self, line: Line) -> None:
        """Check the next line."""
        if isinstance(line, Header) or (isinstance(line, Copied) and isinstance(self._last, Record)):
            raise Damaged("the lines of a memory store are out of order")
        if isinstance(line, Copied):
            self._add_version(line.version)
            self._check_text(line.version, line.data)
        self._last = line

    def finish(self) -> None:
        """Check that the lines are complete, and that they lead to the memories of the header."""
        header, newest = self.header, self._newest.values()
        memories = [Memory.of(version, version.created_at) for version in newest if not is_absent(version)]
        for memory in memories:  # a later version at, above or below its path would remove it
            path = memory.path
            later = [self._below.get(path, ""), *(self._at.get(each, "") for each in (path, *ancestors(path)))]
            if max(later) > memory.version_id:
                raise Damaged(f"another memory is at, above or below the path of the memory {visible(path)}")
        found = self._versions, len(memories), sum(memory.size_bytes for memory in memories)
        if found != (header.versions, header.memories, header.size_bytes) or digest_of(memories) != header.digest:
            raise Damaged("the versions in the file do not lead to the memories of its header")

    def _add_version(self, version: Version) -> None:
        last = self._last.version if isinstance(self._last, Copied) else None
        is_later = last is None or (
            last.id < version.id and last.created_at < version.created_at and last.revision <= version.revision
        )
        if not is_later or version.revision > self.header.revision:
            raise Damaged(f"version {version.id} is not later than the previous version")
        if (version.seal is not None) != (self.header.seal is not None and version.redacted_at is None):
            raise Damaged(f"version {version.id} and its memory store must be both encrypted or both unencrypted")
        if not is_absent(version):
            self._at[version.path] = version.id
            self._below.update(dict.fromkeys(ancestors(version.path), version.id))
        self._newest[version.memory_id] = version
        self._versions += 1

    def _check_text(self, version: Version, data: bytes | None) -> None:
        if (data is None) != is_absent(version):
            raise Damaged(f"the text of version {version.id} is missing, or a deleted or redacted version has one")
        if data is None:
            return
        if len(data) > self._max_text_bytes:
            raise TooLarge(f"the archive has a text of more than {self._max_text_bytes} bytes")
        is_same = (version.size_bytes, version.sha256) == (len(data), hashlib.sha256(data).hexdigest())
        if self.header.seal is None and not is_same:
            raise Damaged(f"the text of version {version.id} differs from its recorded hash")


def is_absent(version: Version) -> bool:
    """Return whether a version leaves no memory. A redacted version does not say whether it deleted its memory."""
    return version.operation == "deleted" or version.redacted_at is not None


def digest_of(memories: Iterable[Memory]) -> str:
    """Return a digest of the paths, ids and hashes of memories."""
    digest = hashlib.sha256()
    for memory in sorted(memories, key=lambda memory: memory.path):
        digest.update(f"{memory.sha256} {memory.path} {memory.id} {memory.version_id}\n".encode())
    return digest.hexdigest()
