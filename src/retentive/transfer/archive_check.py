"""Checks that the lines of a memory store agree with each other, before anything of them is copied."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

from retentive.errors import Damaged, TooLarge
from retentive.storage.contract import Memory, Version
from retentive.transfer.lines import Copied, Header, Line, Record
from retentive.values.paths import ancestors, visible


def check_lines(lines: Iterator[Line], max_text_bytes: int) -> Header:
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
        _check_version(header, last, line, max_text_bytes)
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
    return header


def _check_version(header: Header, last: Version | None, copied: Copied, max_text_bytes: int) -> None:
    version, data = copied.version, copied.data
    is_later = last is None or (
        last.id < version.id and last.created_at < version.created_at and last.revision <= version.revision
    )
    if not is_later or version.revision > header.revision:
        raise Damaged(f"version {version.id} is not later than the previous version")
    if (version.seal is not None) != (header.seal is not None and version.redacted_at is None):
        raise Damaged(f"version {version.id} and its memory store must be both encrypted or both unencrypted")
    if (data is None) != is_absent(version):
        raise Damaged(f"the text of version {version.id} is missing, or a deleted or redacted version has one")
    if data is None:
        return
    if len(data) > max_text_bytes:
        raise TooLarge(f"the archive has a text of more than {max_text_bytes} bytes")
    is_same = (version.size_bytes, version.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    if header.seal is None and not is_same:
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
