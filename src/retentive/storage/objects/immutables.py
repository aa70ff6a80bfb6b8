"""The objects of a memory store that never change: read at most once, and made with names nobody else has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import cast

from retentive.errors import Damaged
from retentive.storage.objects.cache import Cache
from retentive.storage.objects.records import (
    Note,
    Page,
    PageRef,
    Record,
    Ref,
    check_name,
    decode_chunk,
    decode_node,
    decode_notes,
    decode_page,
    name_for,
    unpack,
)
from retentive.storage.objects.requests import Missing, Requests, together

KINDS = ("texts", "pages", "history", "notes", "values", "lists")
_SIZE_OF_PARSED = 10  # bytes in memory for a byte of a compressed page: measured


class Gone(Damaged):
    """An object is missing: the state that names it may have passed, and what nothing named any more been collected."""


class NewObjects:
    """Objects that are to be written. Work that has to run again finds the texts and values written before."""

    def __init__(self) -> None:
        self.named: dict[str, bytes] = {}
        self._given: dict[str, str] = {}
        self._free: dict[tuple[str, bytes], list[str]] = {}

    def name(self, kind: str, data: bytes) -> str:
        """A name for some bytes, that nothing else of this run has."""
        free = self._free.get((kind, data))
        name = free.pop() if free else name_for(data)
        self.named[name] = data
        self._given[name] = kind
        return name

    def add(self, name: str, data: bytes) -> None:
        """An object that has a name."""
        self.named[name] = data

    def again(self) -> None:
        """All names that were given may be given once more."""
        self._free = {}
        for name, kind in self._given.items():
            self._free.setdefault((kind, self.named[name]), []).append(name)


class Immutables:
    """The objects of one memory store but for its root; kept once they were read."""

    def __init__(self, store_id: str, requests: Requests, cache: Cache, new: NewObjects | None = None) -> None:
        self._store_id = store_id
        self._requests = requests
        self._cache = cache
        self._new: Mapping[str, bytes] = {} if new is None else new.named

    def with_new(self, new: NewObjects) -> Immutables:
        """The same, and what is not written yet."""
        return Immutables(self._store_id, self._requests, self._cache, new)

    def key(self, kind: str, name: str) -> str:
        """Where an object lies; `kind` is one of `KINDS`."""
        return f"stores/{self._store_id}/{kind}/{name}"

    def text(self, name: str) -> bytes:
        """A text."""
        return cast("bytes", self._get("texts", name, bytes, 1))

    def texts(self, names: Sequence[str]) -> list[bytes]:
        """Some texts, read at once."""
        return together([partial(self.text, name) for name in names])

    def pages(self, refs: Sequence[PageRef]) -> list[Page]:
        """Some pages, read at once."""
        return together([partial(self.page, ref) for ref in refs])

    def page(self, ref: PageRef) -> Page:
        """A page."""
        return cast("Page", self._get("pages", ref.name, decode_page, _SIZE_OF_PARSED))

    def chunks(self, refs: Sequence[Ref]) -> list[list[Record]]:
        """Some chunks of the history, read at once."""
        return together([partial(self.chunk, ref) for ref in refs])

    def chunk(self, ref: Ref) -> list[Record]:
        """A chunk of the history."""
        return cast("list[Record]", self._get("history", ref.name, decode_chunk, _SIZE_OF_PARSED))

    def node(self, ref: Ref) -> list[Ref]:
        """A node over chunks."""
        return cast("list[Ref]", self._get("history", ref.name, decode_node, _SIZE_OF_PARSED))

    def notes(self, names: Sequence[str]) -> list[dict[str, Note]]:
        """Some objects with notes, read at once."""
        return together([partial(self._notes, name) for name in names])

    def _notes(self, name: str) -> dict[str, Note]:
        return cast("dict[str, Note]", self._get("notes", name, decode_notes, _SIZE_OF_PARSED))

    def values(self, notes: Sequence[Note]) -> list[str]:
        """The values of some notes, long ones read at once. Not of notes that were removed."""
        return together([partial(self._value, note) for note in notes])

    def _value(self, note: Note) -> str:
        if note.held_in is None:
            return note.value or ""
        return cast("str", self._get("values", note.held_in, _decode_value, _SIZE_OF_PARSED))

    def listed(self, name: str) -> list[str]:
        """Names of objects."""
        return cast("list[str]", self._get("lists", name, partial(unpack, "list"), _SIZE_OF_PARSED))

    def keep(self, kind: str, name: str, data: bytes) -> None:
        """Keep an object that was just written, if it will be read soon."""
        if kind == "texts":
            self._cache.put((self._store_id, name), data, len(data))
        elif kind == "notes":
            self._cache.put((self._store_id, name), decode_notes(data), len(data) * _SIZE_OF_PARSED)

    def forget(self, name: str) -> None:
        """Keep an object no longer."""
        self._cache.drop((self._store_id, name))

    def _get(self, kind: str, name: str, decode: Callable[[bytes], object], weight: int) -> object:
        found = self._cache.get((self._store_id, name))
        if found is not None:
            return found
        data = self._new.get(name)
        if data is not None:
            return decode(data)
        try:
            data, _ = self._requests.get(self.key(kind, name))
        except Missing:
            raise Gone("an object of the memory store is missing") from None
        found = decode(check_name(name, data))
        self._cache.put((self._store_id, name), found, len(data) * weight)
        return found


def _decode_value(data: bytes) -> str:
    value = unpack("value", data)
    if not isinstance(value, str):
        raise Damaged("a note of a memory store cannot be read")
    return value
