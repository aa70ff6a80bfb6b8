"""Keys and values in the map of a memory store, and their encoding. No I/O.

The map has four key spaces, each with a one-letter prefix: garbage (texts to erase), memories by path, records by kind
and key, and versions by id. The value of a present memory, whose key is its path, is the row of its newest version.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import zlib
from base64 import b64decode
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias, TypeVar

from retentive.errors import Damaged, UnknownSchema
from retentive.storage.contract import Actor, Memory, Operation, Version, to_datetime

FORMAT = 1
SPACES = GARBAGE, MEMORY, RECORD, VERSION = "g", "m", "r", "v"
LONG_CHARS = 1_024  # a longer record value is stored in the pack
INLINE, PACKED = "=", "@"  # prefix of a record value in the map, or of a reference to a record value in a pack
_DIGEST_BYTES = 8
DIGEST_CHARS = 2 * _DIGEST_BYTES
_LEVEL = 1  # compression level: twice as fast as the default of zlib, with output a tenth larger


class VersionRow(NamedTuple):
    """One version. `text` is the reference to its text; the reference to an empty text is the empty string.

    `first` is true if this version is known to be the first version of its memory.
    """

    id: str
    memory: str
    operation: Operation
    actor: str | None
    born: int
    at: int
    revision: int
    path: str = ""
    size: int | None = None
    sha256: str | None = None
    seal: str | None = None
    text: str | None = None
    first: bool = False
    redacted_at: int | None = None
    redacted_by: str | None = None
    provenance: str | None = None

    def as_memory(self) -> Memory:
        """The memory in the state that this version created. The version must not be a deletion."""
        born, at, seal = to_datetime(self.born), to_datetime(self.at), unsealed(self.seal)
        return Memory(
            self.memory, self.path, self.size or 0, self.sha256 or "", self.id, born, at, seal, self.provenance
        )

    def as_version(self) -> Version:
        actor, by = (None if one is None else Actor.parse(one) for one in (self.actor, self.redacted_by))
        redacted = None if self.redacted_at is None else to_datetime(self.redacted_at)
        known = self.id, self.memory, self.operation, self.path, self.size, self.sha256, actor, to_datetime(self.at)
        return Version(*known, self.revision, unsealed(self.seal), redacted, by, self.provenance)

    def redacted(self, at: int, by: str | None) -> VersionRow:
        """Redacted copy of the row, without path, size, text, digest, seal and provenance."""
        kept = self._replace(path="", size=None, sha256=None, seal=None, text=None, provenance=None)
        return kept._replace(redacted_at=at, redacted_by=by)


MapValue: TypeAlias = VersionRow | str
Edits: TypeAlias = "Mapping[str, MapValue | None]"
"""Edits of the map: new values by key. None removes a key."""


def record_key(kind: str, key: str) -> str:
    """Key of a record in the map."""
    return f"{RECORD}{kind}\0{key}"


def record_value(value: str, add_text: Callable[[bytes], str]) -> str:
    """Value of a record as stored in the map.

    A long value is stored as a text, and the map has a reference to the text.
    """
    is_long = len(value) > LONG_CHARS
    return PACKED + add_text(value.encode(errors="surrogatepass")) if is_long else INLINE + value


def text_in(value: MapValue) -> str | None:
    """Reference to the text of a row or of a long record value. None if the value has no text."""
    if isinstance(value, VersionRow):
        return value.text
    return value[1:] if value.startswith(PACKED) else None


def garbage(texts: Iterable[str | None]) -> dict[str, str | None]:
    """Edits of the map that mark texts as garbage."""
    return {GARBAGE + text: "" for text in texts if text}


def unsealed(seal: str | None) -> bytes | None:
    """Convert a seal from its stored form in the map to its original form."""
    return None if seal is None else b64decode(seal)


class Ref(NamedTuple):
    """Reference to a page: its lowest key, its name and its number of items."""

    first: str
    name: str
    length: int


class Page(NamedTuple):
    """Page of the map's tree. A leaf has sorted keys and their values; a node has references to the pages below it."""

    keys: Sequence[str] = ()
    values: Sequence[MapValue] = ()
    refs: Sequence[Ref] = ()

    def get(self, key: str) -> MapValue | None:
        at = bisect_left(self.keys, key)
        return self.values[at] if at < len(self.keys) and self.keys[at] == key else None

    def between(self, low: str, high: str) -> list[tuple[str, MapValue]]:
        start, end = bisect_left(self.keys, low), bisect_left(self.keys, high)
        return list(zip(self.keys[start:end], self.values[start:end], strict=True))


def encode_page(page: Page) -> bytes:
    """Encode a page. Keys of memories and versions are derived from their rows."""
    parts: dict[str, list[object]] = {space: [] for space in SPACES}
    for key, value in zip(page.keys, page.values, strict=True):
        parts[key[0]].append(value if isinstance(value, VersionRow) else [key, value])
    return pack("page", [*parts.values(), page.refs])


def decode_page(data: bytes) -> Page:
    """Decode a page. Raises `Damaged`."""
    try:
        garbage, memories, records, versions, refs = unpack("page", data)
        present = ((MEMORY + row.path, row) for row in all_of(VersionRow, memories))
        history = ((VERSION + row.id, row) for row in all_of(VersionRow, versions))
        keys, values = zip(*garbage, *present, *records, *history, strict=True) if not refs else ((), ())
        return Page(keys, values, all_of(Ref, refs))
    except (TypeError, ValueError):
        raise Damaged("a page of a memory store cannot be decoded") from None


N = TypeVar("N", bound=tuple[Any, ...])


def all_of(item: type[N], values: Sequence[Sequence[Any]]) -> list[N]:
    """Convert lists to named tuples.

    Three times as fast as `_make`, which took most of the time of contended commits.
    """
    if not set(map(len, values)) <= {len(item._fields)}:  # type: ignore[attr-defined] # of a NamedTuple
        raise ValueError("a row has the wrong number of fields")
    return list(map(partial(tuple.__new__, item), values))


def pack(kind: str, value: object) -> bytes:
    """Encode a value, preceded by its kind, format number and digest."""
    body = zlib.compress(json.dumps(value, separators=(",", ":")).encode(), _LEVEL)
    return head_of(kind) + digest(body).encode() + body


def unpack(kind: str, data: bytes) -> Any:
    """Decode a value. Raises `Damaged`, or `UnknownSchema` for another format."""
    content = check_head(kind, data)
    body = content[DIGEST_CHARS:]
    try:
        if content == digest(body).encode() + body:  # zlib alone ignores some bits at the end
            return json.loads(zlib.decompress(body))
    except (zlib.error, ValueError, RecursionError):
        pass
    raise Damaged(f"a {kind} of a memory store is truncated or was modified")


def head_of(kind: str) -> bytes:
    """First line of every object of a kind, which contains the kind and the format number."""
    return f"retentive {kind} {FORMAT}\n".encode()


def check_head(kind: str, data: bytes) -> bytes:
    """Bytes after the first line. Raises `Damaged`, or `UnknownSchema` for another format."""
    head = head_of(kind)
    if data.startswith(head):
        return data[len(head) :]
    other = re.match(rf"retentive {kind} (\d+)\n".encode(), data)
    if other is None or int(other[1]) == FORMAT:
        raise Damaged(f"a {kind} of a memory store is truncated or was modified")
    known = f"but this version of retentive supports only format {FORMAT}; upgrade retentive"
    raise UnknownSchema(f"the object storage was written in format {int(other[1])}, {known}")


def name_for(data: bytes, *, generation: int | None = None) -> str:
    """New unique name for an immutable object. The name includes a digest of the data.

    Names of pages also include the generation of their manifest. If a manifest with a later generation does not refer
    to a page, no later manifest refers to it.
    """
    name = os.urandom(8).hex() + digest(data)
    return name if generation is None else f"{generation:x}-{name}"


def is_obsolete(name: str, generation: int) -> bool:
    """Return whether a page can never become reachable again if a manifest of this generation does not refer to it."""
    found = re.match("([0-9a-f]+)-", name)
    return found is not None and int(found[1], 16) < generation


def check_name(name: str, data: bytes) -> bytes:
    """Return the data if it matches the digest in the name. Raises `Damaged`."""
    if name[-DIGEST_CHARS:] != digest(data):
        raise Damaged("an object of the memory store is truncated or was modified")
    return data


def digest(data: bytes) -> str:
    """Short digest that detects accidental truncation or corruption."""
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()
