"""What lies in the immutable objects of a memory store, as values and as bytes: no request is made here.

A *page* has some 250 present memories, a *chunk* some 250 versions, a *node* the references to chunks or nodes. A text
is an object of its own, so that to redact it is to delete it.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from base64 import b64decode, b64encode
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from retentive.errors import Damaged, UnknownSchema
from retentive.storage.contract import Actor, Memory, Operation, Version, to_datetime

FORMAT = 1
_DIGEST_BYTES = 8
_DIGITS = 2 * _DIGEST_BYTES
_LEVEL = 1  # of zlib: twice as fast as the default, a tenth larger


class MemoryEntry(NamedTuple):
    """A present memory, as a page holds it."""

    path: str
    id: str
    size: int
    sha256: str | None
    version: str
    born: int
    at: int
    seal: str | None
    text: str | None
    operation: Operation
    actor: str | None
    revision: int

    def memory(self) -> Memory:
        """As the contract has it."""
        return Memory(
            self.id,
            self.path,
            self.size,
            self.sha256 or "",
            self.version,
            to_datetime(self.born),
            to_datetime(self.at),
            unsealed(self.seal),
        )

    def as_version(self) -> Version:
        """The version it was left by."""
        return Version(
            self.version,
            self.id,
            self.operation,
            self.path,
            self.size,
            self.sha256,
            _actor(self.actor),
            to_datetime(self.at),
            self.revision,
            unsealed(self.seal),
        )


class Record(NamedTuple):
    """A version, as log and history hold it.

    `left` is the path a memory is gone from, by a rename or deletion; only in the log. `first` marks one that has none
    of its memory before it, for sure.
    """

    id: str
    memory: str
    operation: Operation
    path: str
    size: int | None
    sha256: str | None
    actor: str | None
    at: int
    revision: int
    seal: str | None
    text: str | None
    born: int
    left: str | None
    first: bool
    redacted_at: int | None = None
    redacted_by: str | None = None

    @property
    def is_version(self) -> bool:
        """Whether it tells of a change; else only that a memory is gone from where it was."""
        return self.revision > 0

    def entry(self) -> MemoryEntry:
        """The memory it left behind; not for a deletion."""
        size = 0 if self.size is None else self.size
        return MemoryEntry(
            self.path,
            self.memory,
            size,
            self.sha256,
            self.id,
            self.born,
            self.at,
            self.seal,
            self.text,
            self.operation,
            self.actor,
            self.revision,
        )

    def blanked(self, at: int, by: str | None) -> Record:
        """What stays of it when it is redacted."""
        return self._replace(
            path="", size=None, sha256=None, seal=None, text=None, left=None, redacted_at=at, redacted_by=by
        )

    def version(self) -> Version:
        """As the contract has it."""
        return Version(
            self.id,
            self.memory,
            self.operation,
            self.path,
            self.size,
            self.sha256,
            _actor(self.actor),
            to_datetime(self.at),
            self.revision,
            unsealed(self.seal),
            None if self.redacted_at is None else to_datetime(self.redacted_at),
            _actor(self.redacted_by),
        )


def _actor(text: str | None) -> Actor | None:
    return None if text is None else Actor.parse(text)


class PageRef(NamedTuple):
    """A page: it has the paths from `first` up to that of the next page. The first page begins with the empty path."""

    first: str
    name: str
    length: int


class Ref(NamedTuple):
    """A chunk of records, or a node of such references; `last` is the newest version in it."""

    last: str
    name: str
    length: int


class Page(NamedTuple):
    """Memories in the order of their paths."""

    paths: list[str]
    entries: list[MemoryEntry]

    def get(self, path: str) -> MemoryEntry | None:
        """The memory at a path."""
        at = bisect_left(self.paths, path)
        return self.entries[at] if at < len(self.paths) and self.paths[at] == path else None

    def between(self, low: str, high: str) -> list[MemoryEntry]:
        """The memories at paths strictly between two."""
        return self.entries[bisect_right(self.paths, low) : bisect_left(self.paths, high)]


def apply(changed: dict[str, Record | None], records: Iterable[Record]) -> None:
    """Add what versions did to what was changed before them."""
    for record in records:
        if record.left is not None:
            there = changed.get(record.left)
            if there is None or there.memory == record.memory:  # else another has taken the path in the same write
                changed[record.left] = None
        if record.operation != "deleted" and record.redacted_at is None:
            changed[record.path] = record


def changes_of(log: Iterable[Record]) -> dict[str, Record | None]:
    """What a log does to the pages below it."""
    changed: dict[str, Record | None] = {}
    apply(changed, log)
    return changed


# -- bytes ---------------------------------------------------------------------------------------------------


def encode_page(entries: Sequence[MemoryEntry]) -> bytes:
    """The bytes of a page."""
    return pack("page", entries)


def decode_page(data: bytes) -> Page:
    """The page in some bytes."""
    entries = _listed("page", data, MemoryEntry)
    return Page([entry.path for entry in entries], entries)


def encode_chunk(records: Sequence[Record]) -> bytes:
    """The bytes of a chunk of the history."""
    return pack("chunk", records)


def decode_chunk(data: bytes) -> list[Record]:
    """The records in some bytes, oldest first."""
    return _listed("chunk", data, Record)


def encode_node(refs: Sequence[Ref]) -> bytes:
    """The bytes of a node over chunks, or over nodes."""
    return pack("node", refs)


def decode_node(data: bytes) -> list[Ref]:
    """The references in some bytes, oldest first."""
    return _listed("node", data, Ref)


class Note(NamedTuple):
    """A small record kept with the store; removed if it has neither a value nor an object in which that lies."""

    key: str
    value: str | None
    held_in: str | None

    @property
    def is_removed(self) -> bool:
        """Whether it says that there is none."""
        return self.value is None and self.held_in is None


def encode_notes(notes: Sequence[Note]) -> bytes:
    """The bytes of some notes."""
    return pack("notes", notes)


def decode_notes(data: bytes) -> dict[str, Note]:
    """The notes in some bytes, by their keys."""
    return {note.key: note for note in _listed("notes", data, Note)}


N = TypeVar("N", bound=tuple[Any, ...])


def _listed(kind: str, data: bytes, item: type[N]) -> list[N]:
    try:
        return all_of(item, unpack(kind, data))
    except (TypeError, ValueError):
        raise Damaged(f"a {kind} of a memory store cannot be read") from None


def all_of(item: type[N], values: list[list[Any]]) -> list[N]:
    """The tuples of a kind; as `_make` of each, in a third of the time, which is most of that of a contended commit."""
    if not set(map(len, values)) <= {len(item._fields)}:  # type: ignore[attr-defined] # of a NamedTuple
        raise ValueError("a tuple of another length")
    return list(map(partial(tuple.__new__, item), values))


def pack(kind: str, value: object) -> bytes:
    """A value with its kind and format before it."""
    return _head(kind, FORMAT) + zlib.compress(json.dumps(value, separators=(",", ":")).encode(), _LEVEL)


def unpack(kind: str, data: bytes) -> Any:
    """The value in some bytes. Raises `Damaged`; `UnknownSchema` for the format of a newer retentive."""
    head, _, body = data.partition(b"\n")
    if head + b"\n" != _head(kind, FORMAT):
        number = head.removeprefix(f"retentive {kind} ".encode())
        if number != head and number.isdigit() and int(number) > FORMAT:
            raise UnknownSchema(f"the memory store was written in format {int(number)}, this retentive knows {FORMAT}")
        raise Damaged(f"the {kind} of a memory store is not one")
    try:
        return json.loads(zlib.decompress(body))
    except (zlib.error, ValueError):
        raise Damaged(f"the {kind} of a memory store cannot be read") from None


def _head(kind: str, number: int) -> bytes:
    return f"retentive {kind} {number}\n".encode()


def name_for(data: bytes, *, folds: int | None = None) -> str:
    """A new name for an immutable object, with a digest of its bytes in it.

    Pages, chunks and nodes also have the number of folds of the root over which they are to be committed: once the root
    has more and does not name them, nobody ever will.
    """
    name = os.urandom(8).hex() + _digest(data)
    return name if folds is None else f"{folds:x}-{name}"


def has_passed(name: str, folds: int) -> bool:
    """Whether an object that a root with so many folds does not name will never be named."""
    number, dash, _ = name.partition("-")
    try:
        return bool(dash) and int(number, 16) < folds
    except ValueError:
        return False


def check_name(name: str, data: bytes) -> bytes:
    """The bytes, if they are those the name was made for. Raises `Damaged`."""
    if name[-_DIGITS:] != _digest(data):
        raise Damaged("an object of the memory store was cut or altered")
    return data


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()


def sealed(seal: bytes | None) -> str | None:
    """A seal as text."""
    return None if seal is None else b64encode(seal).decode()


def unsealed(seal: str | None) -> bytes | None:
    """A seal as it was given."""
    return None if seal is None else b64decode(seal)
