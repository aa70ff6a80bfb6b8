"""Pages and texts of memory stores, read through an LRU cache.

All texts of one commit are in one object, a pack. A reference to a text has the pack, the offset, the length and the
digest of the text. To erase a text, its pack is written again with other bytes in its place, so the other texts stay
where they are. Superseded texts of a memory are moved to compressed packs (`storage.packs`). Such a pack never changes:
to erase one of its texts, another pack is made of the others.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import cast

from retentive.errors import Damaged
from retentive.storage.contract import Clock, NewId
from retentive.storage.objects.ordered_map import Sizes
from retentive.storage.objects.records import PACKED, Page, Ref, TextRef, decode_page, digest, new_name
from retentive.storage.objects.requests import Missing, Requests, together
from retentive.storage.packs import PackingOf

PAGES, PACKS = "pages", "packs"
_CACHE_BYTES = 64 * 1024 * 1024
SIZE_OF_PARSED = 10  # bytes in memory for each byte of a compressed object, as measured
_MANY = 4  # if more texts are wanted, the whole pack is read
_ERASED = b"\xff"  # no text has only such bytes: a plain text is UTF-8, and an encrypted one begins with a header


def by_pack(refs: Iterable[TextRef]) -> dict[str, list[TextRef]]:
    """Group references to texts by the name of their pack. References to empty texts are left out."""
    found = defaultdict[str, list[TextRef]](list)
    for ref in filter(None, refs):
        found[ref.pack].append(ref)
    return found


def without(data: bytes, refs: Iterable[TextRef]) -> bytes | None:
    """Return the bytes of the pack `data` after erasing the texts to which `refs` refer, or None if no text remains."""
    left = bytearray(data)
    for _, offset, length, _ in refs:
        left[offset : offset + length] = _ERASED * len(left[offset : offset + length])
    return bytes(left) if left.strip(_ERASED) else None


class NewTexts:
    """Texts of one attempt to commit a batch, in the pack that the attempt will upload.

    In one pack, equal texts get different references, unless they are empty. `texts` has the texts by reference. The
    pack is made for a manifest of this generation. `packs` has the new compressed packs by name.
    """

    def __init__(self, generation: int) -> None:
        self.generation = generation
        self.pack = new_name(generation)
        self.texts: dict[TextRef, bytes] = {}
        self.packs: dict[str, bytes] = {}
        self._end = 0

    def add(self, data: bytes) -> TextRef:
        """Add a text and return its reference."""
        if not data:
            return TextRef()
        ref = TextRef(self.pack, self._end, len(data), digest(data))
        self._end += len(data)
        self.texts[ref] = data
        return ref

    def undo(self, count: int) -> None:
        """Discard all texts except the first `count`."""
        while len(self.texts) > count:
            self._end -= len(self.texts.popitem()[1])


class Gone(Damaged):
    """A page or text is missing. It may have been deleted after the reader read the state of the store."""

    is_outdated = True

    def __init__(self, message: str = "an object of the memory store is missing") -> None:
        super().__init__(message)


class Cache:
    """LRU cache of at most 64 MB. Threads may share it."""

    def __init__(self) -> None:
        self._held: dict[Hashable, tuple[object, int]] = {}  # the least recently used value first
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> object | None:
        with self._lock:
            value, size_bytes = self._held.pop(key, (None, 0))
            if value is not None:
                self._held[key] = value, size_bytes
            return value

    def put(self, key: Hashable, value: object, size_bytes: int) -> None:
        """Cache a value, unless its size exceeds a quarter of the cache."""
        self.drop(key)
        if size_bytes > _CACHE_BYTES // 4:
            return
        with self._lock:
            self._held[key] = (value, size_bytes)
            self._bytes += size_bytes
            while self._bytes > _CACHE_BYTES:
                self._bytes -= self._held.pop(next(iter(self._held)))[1]

    def drop(self, *keys: Hashable) -> None:
        with self._lock:
            for key in keys:
                self._bytes -= self._held.pop(key, (None, 0))[1]


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads pages and texts of one memory store, including those in `new_texts` and `new_packs`, not uploaded yet.

    All stores of a backend share the other fields. `cache` contains pages and texts.
    """

    store_id: str
    requests: Requests
    cache: Cache
    clock: Clock
    new_id: NewId
    sizes: Sizes
    packing: PackingOf
    new_texts: Mapping[TextRef, bytes] = field(default_factory=dict)
    new_packs: Mapping[str, bytes] = field(default_factory=dict)

    def key(self, *names: str) -> str:
        """Return the object key of a page or pack. `names` are its kind (`PAGES` or `PACKS`) and its name.

        With fewer names, return a prefix of such keys.
        """
        return "/".join(("stores", self.store_id, *names))

    def listed(self, *kinds: str) -> list[str]:
        """Return the objects of the store, or of one kind, as `kind/name`."""
        return [key.removeprefix(self.key() + "/") for key in self.requests.names(self.key(*kinds))]

    def pages(self, refs: Sequence[Ref]) -> list[Page]:
        """Read the pages to which `refs` refer, in parallel. Raises `Gone` or `Damaged`."""
        found = {ref.name: cast("Page | None", self.cache.get((self.store_id, ref.name))) for ref in refs}
        missing = [name for name, page in found.items() if page is None]
        found |= zip(missing, together([partial(self._page, name) for name in missing]), strict=True)
        return [cast("Page", found[ref.name]) for ref in refs]

    def _page(self, name: str) -> Page:
        try:
            data, _ = self.requests.get(self.key(PAGES, name))
        except Missing:
            raise Gone from None
        if not name.endswith(digest(data)):
            raise Damaged("an object of the memory store is truncated or was modified")
        page = decode_page(data)
        self.keep_pages({name: (data, page)})
        return page

    def keep_pages(self, pages: Mapping[str, tuple[bytes, Page]]) -> None:
        """Cache pages that were just read or uploaded. `pages` has their bytes and contents by name."""
        for name, (data, page) in pages.items():
            self.cache.put((self.store_id, name), page, len(data) * SIZE_OF_PARSED)

    def texts(self, refs: Sequence[TextRef]) -> list[bytes]:
        """Read the texts to which `refs` refer, in parallel. A pack with more than four of the texts is read whole."""
        cached = self.cache.get
        found = {ref: self.new_texts.get(ref) or cached((self.store_id, ref)) if ref else b"" for ref in refs}
        parts = list[list[TextRef]]()
        for missing in by_pack(ref for ref, text in found.items() if text is None).values():
            parts += [missing] if len(missing) > _MANY else [[ref] for ref in missing]
        for read in together([partial(self._read, part) for part in parts]):
            self.keep_texts(read)
            found |= read
        return [cast("bytes", found[ref]) for ref in refs]

    def packed(self, name: str) -> bytes:
        """Read a compressed pack. Raises `Gone` or `Damaged`."""
        if name in self.new_packs:
            return self.new_packs[name]
        try:
            data, _ = self.requests.get(self.key(PACKS, name))
        except Missing:
            raise Gone from None
        if not name.removesuffix(PACKED).endswith(digest(data)):
            raise Damaged("a pack of earlier texts is truncated or was modified")
        return data

    def _read(self, refs: Sequence[TextRef]) -> dict[TextRef, bytes]:
        key, start, texts = self.key(PACKS, refs[0].pack), 0, dict[TextRef, bytes]()
        try:
            if len(refs) == 1:
                start = refs[0].offset
                data = self.requests.get_range(key, start, refs[0].length)
            else:
                data, _ = self.requests.get(key)
        except Missing:
            raise Gone from None
        for ref in refs:
            texts[ref] = data[ref.offset - start : ref.offset - start + ref.length]
            if digest(texts[ref]) != ref.digest:
                raise Gone("a text of the memory store was erased, truncated or modified")
        return texts

    def keep_texts(self, texts: Mapping[TextRef, bytes]) -> None:
        """Cache texts that were just read or uploaded. `texts` has them by reference."""
        for ref, data in texts.items():
            self.cache.put((self.store_id, ref), data, len(data))

    def forget(self, names: Iterable[str | TextRef]) -> None:
        """Remove pages (by name) or texts (by reference) from the cache."""
        self.cache.drop(*((self.store_id, name) for name in names))
