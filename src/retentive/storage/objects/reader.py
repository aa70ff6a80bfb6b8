"""Reads pages and texts of a memory store through the cache."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeVar, cast

from retentive.errors import Damaged
from retentive.storage.objects.cache import Cache
from retentive.storage.objects.ordered_map import Leaf, Node, Page, Ref, decode_leaf, decode_node
from retentive.storage.objects.packs import NewTexts, TextRef, by_pack, decode_pack
from retentive.storage.objects.records import check_name, digest
from retentive.storage.objects.requests import Missing, Requests, together

T = TypeVar("T", Leaf, Node)
PAGES, PACKS = "pages", "packs"
_SIZE_OF_PARSED = 10  # bytes in memory for each byte of a compressed page: measured
_MANY = 4  # above this number of wanted texts, a pack is read whole


class Gone(Damaged):
    """An object is missing. The reader's state may be stale and the object collected since."""


class Reader:
    """Pages and texts of one memory store. `texts` and `pages` are not uploaded yet."""

    def __init__(
        self,
        store_id: str,
        requests: Requests,
        cache: Cache,
        *,
        texts: NewTexts | None = None,
        pages: Mapping[str, tuple[bytes, Page]] | None = None,
    ) -> None:
        self._store_id = store_id
        self._requests = requests
        self._cache = cache
        self._texts = texts
        self._pages = {} if pages is None else pages

    def with_new(self, texts: NewTexts, pages: Mapping[str, tuple[bytes, Page]]) -> Reader:
        """Reader that also finds texts and pages that are not uploaded yet."""
        return Reader(self._store_id, self._requests, self._cache, texts=texts, pages=pages)

    def key(self, kind: str, name: str) -> str:
        """Object name of a page or pack; `kind` is `PAGES` or `PACKS`."""
        return f"stores/{self._store_id}/{kind}/{name}"

    # -- pages -----------------------------------------------------------------------------------------------

    def leaves(self, refs: Sequence[Ref]) -> list[Leaf]:
        """Read leaves in parallel."""
        return self._read(refs, decode_leaf)

    def nodes(self, refs: Sequence[Ref]) -> list[Node]:
        """Read nodes in parallel."""
        return self._read(refs, decode_node)

    def _read(self, refs: Sequence[Ref], decode: Callable[[bytes], T]) -> list[T]:
        found = [self._known_page(ref.name) for ref in refs]
        if all(found):
            return cast("list[T]", found)
        missing = [ref.name for ref, page in zip(refs, found, strict=True) if page is None]
        read = iter(together([partial(self._page, name, decode) for name in missing]) if missing else ())
        return [next(read) if page is None else cast("T", page) for page in found]

    def _known_page(self, name: str) -> object | None:
        found = self._cache.get((self._store_id, name))
        return self._pages[name][1] if found is None and name in self._pages else found

    def _page(self, name: str, decode: Callable[[bytes], T]) -> T:
        data = self._get(PAGES, name)
        page = decode(check_name(name, data))
        self._cache.put((self._store_id, name), page, len(data) * _SIZE_OF_PARSED)
        return page

    def keep_page(self, name: str, data: bytes, page: Page) -> None:
        """Cache a page that was just uploaded."""
        self._cache.put((self._store_id, name), page, len(data) * _SIZE_OF_PARSED)

    # -- texts -----------------------------------------------------------------------------------------------

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
        self._cache.put((self._store_id, ref), data, len(data))

    def _known(self, ref: str) -> bytes | None:
        if not ref:
            return b""
        found = cast("bytes | None", self._cache.get((self._store_id, ref)))
        return self._texts.get(ref) if found is None and self._texts is not None else found

    def _range(self, ref: str) -> bytes:
        pack, offset, length, expected = TextRef.parse(ref)
        try:
            data = self._requests.get_range(self.key(PACKS, pack), offset, length)
        except Missing:
            raise Gone("an object of the memory store is missing") from None
        if digest(data) == expected:
            return data
        found = self._whole(pack).get(ref)
        if found is None:
            raise Gone("a text of the memory store was erased, cut or altered")
        return found

    def _whole(self, pack: str) -> dict[str, bytes]:
        return decode_pack(pack, self._get(PACKS, pack))

    def forget(self, names: Iterable[str]) -> None:
        """Remove pages or texts from the cache."""
        for name in names:
            self._cache.drop((self._store_id, name))

    def _get(self, kind: str, name: str) -> bytes:
        try:
            return self._requests.get(self.key(kind, name))[0]
        except Missing:
            raise Gone("an object of the memory store is missing") from None
