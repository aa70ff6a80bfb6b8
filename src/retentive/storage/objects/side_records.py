"""Side records: small values that are stored beside a store, and are written without waiting for its writers.

Side records are not in the map of the store. Every write to the map replaces the manifest, and would conflict with
other writers. Instead, all side records of a kind are in one object, which is replaced by compare-and-swap.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import cast

from retentive.errors import Damaged, NotFound
from retentive.storage.objects.reader import SIZE_OF_PARSED, ObjectStorage
from retentive.storage.objects.records import pack, unpack
from retentive.storage.objects.requests import Missing, Tag

SIDE = "side"


class SideRecords:
    """Side records of all stores at one location. Threads may share it.

    After each write, the function `check` is called with the store id. If the store was erased during the write,
    `check` raises `NotFound`. The new object is then deleted, so that no object of an erased store remains.
    """

    def __init__(self, storage: ObjectStorage, check: Callable[[str], object]) -> None:
        self._requests = storage.requests
        self._cache = storage.cache
        self._check = check

    def write(self, store_id: str, kind: str, values: Mapping[str, str | None]) -> None:
        """Write side records of one kind. The value None removes a record."""
        key = _key(store_id, kind)
        if values:
            self._requests.until_done(partial(self._replace, key, values))
        try:
            self._check(store_id)
        except NotFound:
            self._requests.delete([key])
            raise

    def all(self, store_id: str, kind: str) -> dict[str, str]:
        """Return the keys and values of all side records of a kind, in key order."""
        self._check(store_id)
        return self._read(_key(store_id, kind))[1]

    def _replace(self, key: str, values: Mapping[str, str | None]) -> None:
        tag, records = self._read(key)
        left = {name: value for name, value in {**records, **values}.items() if value is not None}
        changed = dict(sorted(left.items()))
        data = pack(SIDE, changed)
        self._keep(key, self._requests.replace(key, data, tag), changed, len(data))

    def _read(self, key: str) -> tuple[Tag | None, dict[str, str]]:
        tag, records = cast("tuple[Tag | None, dict[str, str]]", self._cache.get(key) or (None, {}))
        try:
            found = self._requests.get_unless(key, tag)
        except Missing:
            return None, {}
        if found is None:
            return tag, records
        data, tag = found
        records = unpack(SIDE, data)
        if not isinstance(records, dict):
            raise Damaged("an object of the memory store is damaged: its records cannot be decoded")
        return self._keep(key, tag, records, len(data))

    def _keep(self, key: str, tag: Tag, records: dict[str, str], size_bytes: int) -> tuple[Tag, dict[str, str]]:
        self._cache.put(key, (tag, records), size_bytes * SIZE_OF_PARSED)
        return tag, records


def _key(store_id: str, kind: str) -> str:
    """Return the key of the object that contains the side records of a kind.

    The key contains a hash of the kind, because a kind may contain characters that are not allowed in object names.
    """
    digest = hashlib.blake2b(kind.encode(errors="surrogatepass"), digest_size=16).hexdigest()
    return f"stores/{store_id}/{SIDE}/{digest}"
