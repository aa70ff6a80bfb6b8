"""What a memory store is in object storage, as values: no request is made here.

One small *root* object per memory store is replaced by compare-and-swap. It holds a *log* of the latest versions, names
the *pages* (immutable, some 250 memories each, as they were before the log began) and the *history* (immutable chunks
of versions older than the log). So most writes replace the root alone; the log is folded into pages and history now
and then (`objects_folding.py`). Each text is an object of its own, so that to redact it is to delete it.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from base64 import b64decode, b64encode
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

from commonplace.backends.base import Actor, Memory, Operation, StoreInfo, Version, to_datetime
from commonplace.errors import Damaged, UnknownSchema

FORMAT = 1
COMMITS_KEPT = 64  # by these a writer whose reply was lost finds out whether it was committed
_DIGEST_BYTES = 8
_LEVEL = 1  # of zlib: twice as fast as the default, a tenth larger


class Entry(NamedTuple):
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


class Record(NamedTuple):
    """A version, as log and history hold it. `came_from` is the path before a rename."""

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
    came_from: str | None

    def entry(self) -> Entry:
        """The memory it left behind; not for a deletion."""
        size = 0 if self.size is None else self.size
        return Entry(self.path, self.memory, size, self.sha256, self.id, self.born, self.at, self.seal, self.text)

    def version(self) -> Version:
        """As the contract has it."""
        return Version(
            self.id,
            self.memory,
            self.operation,
            self.path,
            self.size,
            self.sha256,
            None if self.actor is None else Actor.parse(self.actor),
            to_datetime(self.at),
            self.revision,
            unsealed(self.seal),
        )


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
    entries: list[Entry]

    def get(self, path: str) -> Entry | None:
        """The memory at a path."""
        at = bisect_left(self.paths, path)
        return self.entries[at] if at < len(self.paths) and self.paths[at] == path else None

    def between(self, low: str, high: str) -> list[Entry]:
        """The memories at paths strictly between two."""
        return self.entries[bisect_right(self.paths, low) : bisect_left(self.paths, high)]


@dataclass(frozen=True, slots=True)
class Root:
    """One state of a memory store. `changed` says what the log did to the pages; None where a path was left."""

    id: str
    key: str | None
    name: str
    created: int
    seal: str | None
    settings: str | None = None
    revision: int = 0
    memories: int = 0
    size_bytes: int = 0
    last_at: int = 0
    folds: int = 0
    commits: tuple[str, ...] = ()
    pages: tuple[PageRef, ...] = ()
    log: tuple[Record, ...] = ()
    history: tuple[tuple[Ref, ...], ...] = ()
    changed: Mapping[str, Record | None] = field(default_factory=dict, compare=False)

    def info(self) -> StoreInfo:
        """As the contract has it."""
        return StoreInfo(
            self.id, self.key, self.name, to_datetime(self.created), self.memories, self.size_bytes, self.seal
        )

    def page_of(self, path: str) -> PageRef | None:
        """The page that has a path, if it is there."""
        at = bisect_right(self.pages, path, key=_first) - 1
        return self.pages[at] if at >= 0 else None

    def pages_between(self, low: str, high: str) -> Sequence[PageRef]:
        """The pages that may have paths strictly between two."""
        return self.pages[
            max(bisect_right(self.pages, low, key=_first) - 1, 0) : bisect_left(self.pages, high, key=_first)
        ]

    def committed_as(self, commit: str) -> Root:
        """This state, to be written under the id of a commit."""
        return replace(self, commits=(*self.commits, commit)[-COMMITS_KEPT:])


def _first(ref: PageRef) -> str:
    return ref.first


def apply(changed: dict[str, Record | None], records: Iterable[Record]) -> None:
    """Add what versions did to what was changed before them."""
    for record in records:
        gone = record.path if record.operation == "deleted" else record.came_from
        if gone is not None:
            there = changed.get(gone)
            if there is None or there.memory == record.memory:  # else another has taken the path in the same write
                changed[gone] = None
        if record.operation != "deleted":
            changed[record.path] = record


def changes_of(log: Iterable[Record]) -> dict[str, Record | None]:
    """What a log does to the pages below it."""
    changed: dict[str, Record | None] = {}
    apply(changed, log)
    return changed


# -- bytes ---------------------------------------------------------------------------------------------------


def encode_root(root: Root) -> bytes:
    """The bytes of a root."""
    return pack(
        "root",
        {
            "store": [root.id, root.key, root.name, root.created, root.seal, root.settings],
            "counts": [root.revision, root.memories, root.size_bytes, root.last_at, root.folds],
            "commits": root.commits,
            "pages": root.pages,
            "log": root.log,
            "history": root.history,
        },
    )


def decode_root(data: bytes, store_id: str) -> Root:
    """The root in some bytes. Raises `Damaged`, `UnknownSchema`."""
    value = unpack("root", data)
    try:
        log = tuple(_all_of(Record, value["log"]))
        store, key, name, created, seal, settings = value["store"]
        revision, memories, size_bytes, last_at, folds = value["counts"]
        root = Root(
            store,
            key,
            name,
            created,
            seal,
            settings,
            revision,
            memories,
            size_bytes,
            last_at,
            folds,
            commits=tuple(value["commits"]),
            pages=tuple(_all_of(PageRef, value["pages"])),
            log=log,
            history=tuple(tuple(_all_of(Ref, level)) for level in value["history"]),
            changed=changes_of(log),
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Damaged("the root of a memory store cannot be read") from None
    if root.id != store_id:
        raise Damaged("the root of a memory store is that of another")
    return root


def encode_page(entries: Sequence[Entry]) -> bytes:
    """The bytes of a page."""
    return pack("page", entries)


def decode_page(data: bytes) -> Page:
    """The page in some bytes."""
    entries = _listed("page", data, Entry)
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


N = TypeVar("N", Entry, Record, Ref, PageRef)


def _listed(kind: str, data: bytes, item: type[N]) -> list[N]:
    try:
        return _all_of(item, unpack(kind, data))
    except (TypeError, ValueError):
        raise Damaged(f"a {kind} of a memory store cannot be read") from None


def _all_of(item: type[N], values: list[list[Any]]) -> list[N]:
    """The tuples of a kind; as `_make` of each, in a third of the time, which is most of that of a contended commit."""
    if not set(map(len, values)) <= {len(item._fields)}:
        raise ValueError("a tuple of another length")
    return list(map(partial(tuple.__new__, item), values))


def pack(kind: str, value: object) -> bytes:
    """A value with its kind and format before it."""
    return _head(kind, FORMAT) + zlib.compress(json.dumps(value, separators=(",", ":")).encode(), _LEVEL)


def unpack(kind: str, data: bytes) -> Any:
    """The value in some bytes. Raises `Damaged`; `UnknownSchema` for the format of a newer commonplace."""
    head, _, body = data.partition(b"\n")
    if head + b"\n" != _head(kind, FORMAT):
        number = head.removeprefix(f"commonplace {kind} ".encode())
        if number != head and number.isdigit() and int(number) > FORMAT:
            raise UnknownSchema(
                f"the memory store was written in format {int(number)}, this commonplace knows {FORMAT}"
            )
        raise Damaged(f"the {kind} of a memory store is not one")
    try:
        return json.loads(zlib.decompress(body))
    except (zlib.error, ValueError):
        raise Damaged(f"the {kind} of a memory store cannot be read") from None


def _head(kind: str, number: int) -> bytes:
    return f"commonplace {kind} {number}\n".encode()


def name_for(data: bytes) -> str:
    """A new name for an immutable object, with a digest of its bytes in it."""
    return os.urandom(8).hex() + _digest(data)


def check_name(name: str, data: bytes) -> bytes:
    """The bytes, if they are those the name was made for. Raises `Damaged`."""
    if name[16:] != _digest(data):
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
