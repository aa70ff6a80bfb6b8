"""Keys and values in the map of a memory store, and their encoding. This module does no I/O.

The map has three groups of keys, each with a prefix of one letter: existing memories by path, records by kind and key,
and versions by id. The value of an existing memory is the row of its newest version.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import zlib
from base64 import b64decode
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from retentive.errors import Damaged, UnknownSchema
from retentive.storage.contract import Operation, Version, as_actor, to_datetime
from retentive.values.records import time_in_id

FORMAT = 1
MEMORY, RECORD, VERSION = "m", "r", "v"
LONG_CHARS = 1_024  # a longer record value is stored in the pack
DIGEST_CHARS = 16
PACKED = ".zst"  # ending of the name of a compressed pack (`storage.packs`)
_LEVEL = 1  # compression level: twice as fast as the default of zlib, with output a tenth larger


class TextRef(NamedTuple):
    """Reference to a text: its pack, its offset there, its length in bytes and its digest. False for an empty text.

    In a compressed pack, `offset` is the number of the text, and there is no digest: the name of the pack has one.
    """

    pack: str = ""
    offset: int = 0
    length: int = 0
    digest: str = ""

    def __bool__(self) -> bool:
        return self.length > 0

    @property
    def is_packed(self) -> bool:
        """True if the pack is compressed."""
        return self.pack.endswith(PACKED)


def packed(pack: str, number: int, text: bytes) -> TextRef:
    """Return the reference to a text in a compressed pack."""
    return TextRef(pack, number, len(text) or 1)


class VersionRow(NamedTuple):
    """Row of one version in the map of a memory store.

    `memory` is the id of the memory. `text` is a reference to its text. `at` is its time in microseconds.
    """

    id: str
    memory: str
    operation: Operation
    actor: str | None
    at: int
    revision: int
    path: str = ""
    size: int | None = None
    sha256: str | None = None
    seal: str | None = None
    text: TextRef | None = None
    redacted_at: int | None = None
    redacted_by: str | None = None
    provenance: str | None = None

    @property
    def is_first(self) -> bool:
        """True if this version is known to be the first version of its memory: the memory got its id at this time."""
        return time_in_id(self.memory) == self.at

    def as_version(self) -> Version:
        actor, by = as_actor(self.actor), as_actor(self.redacted_by)
        redacted = None if self.redacted_at is None else to_datetime(self.redacted_at)
        known = self.id, self.memory, self.operation, self.path, self.size, self.sha256, actor, to_datetime(self.at)
        seal = None if self.seal is None else b64decode(self.seal)
        return Version(*known, self.revision, seal, redacted, by, self.provenance)

    def redacted(self, at: int, by: str | None) -> VersionRow:
        """Return a redacted copy of the row: without path, size, hash, text, seal and provenance.

        `at` is the time of the redaction, and `by` is the actor who redacts.
        """
        kept = self._replace(path="", size=None, sha256=None, seal=None, text=None, provenance=None)
        return kept._replace(redacted_at=at, redacted_by=by)


MapValue: TypeAlias = VersionRow | TextRef | str
"""Row of a version, or the value of a record. A long value is a text in a pack."""
Edits: TypeAlias = "Mapping[str, MapValue | None]"
"""Edits of the map: new values by key. The value None removes a key."""


def record_key(kind: str, key: str) -> str:
    """Return the key under which the map stores the record `key` of a kind."""
    return f"{RECORD}{kind}\0{key}"


def text_in(value: MapValue) -> TextRef | None:
    """Return the text reference that a value of the map contains, or None if it contains none."""
    return value.text if isinstance(value, VersionRow) else value if isinstance(value, TextRef) else None


class Ref(NamedTuple):
    """Reference to a page: the lowest key in the page, and the name of the page."""

    first: str
    name: str


class Page(NamedTuple):
    """Page of the tree in which a memory store keeps its map.

    A leaf has only `keys`, which are sorted, and their `values`. An inner node has only `refs`, which refer to the
    pages below it.
    """

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
    """Return the bytes of a page."""
    return pack("page", [list(zip(page.keys, page.values, strict=True)), page.refs])


def decode_page(data: bytes) -> Page:
    """Decode a page. Raises `Damaged`, or `UnknownSchema` if it has another format."""
    try:
        items, refs = unpack("page", data)
        return Page([key for key, _ in items], [decoded(value) for _, value in items], list(map(Ref._make, refs)))
    except (TypeError, ValueError):
        raise Damaged("a page of a memory store cannot be decoded") from None


def decoded(value: Any) -> Any:
    """Return a value of the map from its JSON. Raises `TypeError` for a wrong number of fields."""
    if not isinstance(value, list):
        return value
    if len(value) == len(TextRef._fields):
        return TextRef(*value)
    row = VersionRow(*value)
    return row if row.text is None else row._replace(text=TextRef(*row.text))


def pack(kind: str, value: object) -> bytes:
    """Return the bytes of an object: a first line with its kind and format number, a digest, and the encoded value."""
    body = zlib.compress(json.dumps(value, separators=(",", ":")).encode(), _LEVEL)
    return f"retentive {kind} {FORMAT}\n{digest(body)}".encode() + body


def unpack(kind: str, data: bytes) -> Any:
    """Return the value that `pack` encoded. Raises `Damaged`, or `UnknownSchema` for another format."""
    head = re.match(rf"retentive {kind} (\d+)\n".encode(), data)
    if head is not None and int(head[1]) != FORMAT:
        known = f"but this version of retentive supports only format {FORMAT}; upgrade retentive"
        raise UnknownSchema(f"the object storage was written in format {int(head[1])}, {known}")
    content = b"" if head is None else data[head.end() :]
    body = content[DIGEST_CHARS:]
    try:
        if content == digest(body).encode() + body:  # zlib alone ignores some bits at the end
            return json.loads(zlib.decompress(body))
    except (zlib.error, ValueError, RecursionError):
        pass
    raise Damaged(f"a stored object (kind: {kind}) is truncated or was modified")


def new_name(generation: int, page: bytes | None = None) -> str:
    """Return a new unique name for a page or pack that is made for a commit on a manifest of this generation.

    The name of a page ends with the digest of its bytes, so another page in its place is noticed.
    """
    return f"{generation:x}.{os.urandom(8).hex()}{'' if page is None else digest(page)}"


def is_obsolete(name: str, generation: int) -> bool:
    """Return True if an object was made for a manifest of an earlier generation.

    If the manifest of this generation does not refer to such an object, no later manifest refers to it: a commit only
    adds objects that were made for the generation of the manifest that it replaces.
    """
    found = re.match(r"([0-9a-f]+)(\.|$)", name)
    return found is not None and int(found[1], 16) < generation


def digest(data: bytes) -> str:
    """Return a short digest, which detects truncated or corrupted data."""
    return hashlib.blake2b(data, digest_size=DIGEST_CHARS // 2).hexdigest()
