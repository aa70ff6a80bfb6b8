"""Side records: small values that are stored beside a store, and are written without waiting for its writers.

Side records are not in the map of the store. Every write to the map replaces the manifest, and would conflict with
other writers. Instead, all side records of a kind are in one object, which is replaced by compare-and-swap.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import partial

from retentive.errors import Damaged
from retentive.storage.objects.records import pack, unpack
from retentive.storage.objects.requests import Missing, Requests, Tag

SIDE = "side"


def key_of(store_id: str, kind: str) -> str:
    """Return the key of the object that contains the side records of a kind.

    The key contains a hash of the kind, because a kind may contain characters that are not allowed in object names.
    """
    digest = hashlib.blake2b(kind.encode(errors="surrogatepass"), digest_size=16).hexdigest()
    return f"stores/{store_id}/{SIDE}/{digest}"


def read(requests: Requests, key: str) -> tuple[Tag | None, dict[str, str]]:
    """Return the tag of an object of side records, and its records in key order."""
    try:
        data, tag = requests.get(key)
    except Missing:
        return None, {}
    records = unpack(SIDE, data)
    if not isinstance(records, dict):
        raise Damaged("an object of the memory store is damaged: its records cannot be decoded")
    return tag, records


def write(requests: Requests, key: str, values: Mapping[str, str | None]) -> None:
    """Write side records of one kind. The value None removes a record."""
    requests.until_done(partial(_replace, requests, key, values))


def _replace(requests: Requests, key: str, values: Mapping[str, str | None]) -> None:
    tag, records = read(requests, key)
    left = {name: value for name, value in {**records, **values}.items() if value is not None}
    requests.replace(key, pack(SIDE, dict(sorted(left.items()))), tag)
