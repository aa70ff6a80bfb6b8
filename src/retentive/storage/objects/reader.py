"""Reads pages and texts of memory stores through an LRU cache."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import cast

from retentive.errors import Damaged
from retentive.storage.contract import Clock, NewId
from retentive.storage.objects.ordered_map import Sizes
from retentive.storage.objects.packs import NewTexts, TextRef, by_pack, decode_pack
from retentive.storage.objects.records import Page, Ref, check_name, decode_page, digest
from retentive.storage.objects.requests import Missing, Requests, together

PAGES, PACKS = "pages", "packs"
DEFAULT_CACHE_BYTES = 64 * 1024 * 1024
SIZE_OF_PARSED = 10  # bytes in memory for each byte of a compressed object: measured
_MANY = 4  # above this number of wanted texts, a pack is read whole


class Gone(Damaged):
    """An object is missing. The reader's state may be stale and the object collected since."""


class Cache:
    """LRU cache of values, at most `max_bytes` in total. Threads may share it."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held: OrderedDict[Hashable, tuple[object, int]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> object | None:
        """Cached value, or None."""
        with self._lock:
            found = self._held.get(key)
            if found is None:
                return None
            self._held.move_to_end(key)
            return found[0]

    def put(self, key: Hashable, value: object, size_bytes: int) -> None:
        """Cache a value, unless it is larger than a quarter of the cache."""
        if size_bytes > self._max_bytes // 4:
            return
        with self._lock:
            self._forget(key)
            self._held[key] = (value, size_bytes)
            self._bytes += size_bytes
            while self._bytes > self._max_bytes:
                self._forget(next(iter(self._held)))

    def drop(self, *keys: Hashable) -> None:
        """Remove values."""
        with self._lock:
            for key in keys:
                self._forget(key)

    def clear(self, first: Hashable) -> None:
        """Remove all values whose keys are tuples that begin with `first`."""
        with self._lock:
            for key in [key for key in self._held if isinstance(key, tuple) and key[0] == first]:
                self._forget(key)

    def _forget(self, key: Hashable) -> None:
        self._bytes -= self._held.pop(key, (None, 0))[1]


@dataclass(frozen=True, slots=True)
class Location:
    """Resources and settings that all memory stores of one backend share. `cache` holds immutable objects."""

    requests: Requests
    cache: Cache
    clock: Clock
    new_id: NewId
    sizes: Sizes

    def reader(self, store_id: str) -> Reader:
        """Reader of a memory store."""
        return Reader(store_id, self)


@dataclass(frozen=True, slots=True)
class Reader:
    """Pages and texts of one memory store. `new_texts` and `new_pages` are not uploaded yet."""

    store_id: str
    location: Location
    new_texts: NewTexts | None = None
    new_pages: Mapping[str, tuple[bytes, Page]] | None = None

    @property
    def requests(self) -> Requests:
        """Requests to the location."""
        return self.location.requests

    def key(self, *names: str) -> str:
        """Object name of a page or pack; `names` are `PAGES` or `PACKS` and a name."""
        return "/".join(("stores", self.store_id, *names))

    def listed(self, kind: str | None = None) -> dict[str, datetime]:
        """Objects of the store as `kind/name`, and when each was last written."""
        under = f"stores/{self.store_id}"
        found = self.requests.names(under if kind is None else f"{under}/{kind}")
        return {one.key.removeprefix(under + "/"): one.modified for one in found}

    def pages(self, refs: Sequence[Ref]) -> list[Page]:
        """Read pages in parallel."""
        found = {ref.name: self._known_page(ref.name) for ref in refs}
        missing = [name for name, page in found.items() if page is None]
        found |= zip(missing, together([partial(self._page, name) for name in missing]), strict=True)
        return [cast("Page", found[ref.name]) for ref in refs]

    def _known_page(self, name: str) -> Page | None:
        found = cast("Page | None", self.location.cache.get((self.store_id, name)))
        return self.new_pages[name][1] if found is None and self.new_pages and name in self.new_pages else found

    def _page(self, name: str) -> Page:
        data = self._get(PAGES, name)
        page = decode_page(check_name(name, data))
        self.keep_pages({name: (data, page)})
        return page

    def keep_pages(self, pages: Mapping[str, tuple[bytes, Page]]) -> None:
        """Cache pages that were just read or uploaded."""
        for name, (data, page) in pages.items():
            self.location.cache.put((self.store_id, name), page, len(data) * SIZE_OF_PARSED)

    def text(self, ref: str) -> bytes:
        """Read a text: one range request, or two requests if its pack was rewritten."""
        found = self._known(ref)
        if found is None:
            found = self._range(ref)
            self.keep_text(ref, found)
        return found

    def texts(self, refs: Sequence[str]) -> list[bytes]:
        """Read texts in parallel; a pack with many of them is read whole."""
        found = {ref: self._known(ref) for ref in refs}
        packs = by_pack(ref for ref, text in found.items() if text is None)
        many = [pack for pack, wanted in packs.items() if len(wanted) > _MANY]
        for texts in together([partial(self._whole, pack) for pack in many]):
            for ref, text in texts.items():
                self.keep_text(ref, text)
                found[ref] = text
        missing = [ref for ref in dict.fromkeys(refs) if found[ref] is None]
        found |= zip(missing, together([partial(self.text, ref) for ref in missing]), strict=True)
        return [cast("bytes", found[ref]) for ref in refs]

    def keep_text(self, ref: str, data: bytes) -> None:
        """Cache a text that was just read or uploaded."""
        self.location.cache.put((self.store_id, ref), data, len(data))

    def _known(self, ref: str) -> bytes | None:
        if not ref:
            return b""
        found = cast("bytes | None", self.location.cache.get((self.store_id, ref)))
        return self.new_texts.get(ref) if found is None and self.new_texts is not None else found

    def _range(self, ref: str) -> bytes:
        pack, offset, length, expected = TextRef.parse(ref)
        try:
            data = self.requests.get_range(self.key(PACKS, pack), offset, length)
        except Missing:
            raise Gone("an object of the memory store is missing") from None
        found = data if digest(data) == expected else self._whole(pack).get(ref)
        if found is None:
            raise Gone("a text of the memory store was erased, cut or altered")
        return found

    def _whole(self, pack: str) -> dict[str, bytes]:
        return decode_pack(pack, self._get(PACKS, pack))

    def _get(self, kind: str, name: str) -> bytes:
        try:
            return self.requests.get(self.key(kind, name))[0]
        except Missing:
            raise Gone("an object of the memory store is missing") from None

    def forget(self, names: Iterable[str]) -> None:
        """Remove pages or texts from the cache."""
        self.location.cache.drop(*((self.store_id, name) for name in names))
