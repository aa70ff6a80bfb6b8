"""Object backends with small pages, and direct access to their objects."""

from __future__ import annotations

from typing import Any

from retentive.storage.objects.backend import ObjectsBackend
from retentive.storage.objects.manifest import Manifest, decode_manifest
from retentive.storage.objects.ordered_map import Sizes
from retentive.storage.objects.requests import Requests

SMALL = Sizes(log=4, page=6, fan_out=3)


def small(url: str, **options: Any) -> ObjectsBackend:
    """A backend that compacts after a few writes."""
    return ObjectsBackend(url, sizes=SMALL, **options)


def manifest_of(url: str, store_id: str) -> Manifest:
    """Return the manifest of a store."""
    return decode_manifest(Bottom(url).get(f"manifests/{store_id}"), store_id)


class Bottom:
    """Direct access to the objects, without a backend."""

    def __init__(self, url: str) -> None:
        self.store: Any = Requests(url).client(retries=False)

    def listed(self, under: str | None = None) -> list[str]:
        return [found["path"] for found in self.store.list(under).collect()]

    def get(self, key: str) -> bytes:
        return bytes(self.store.get(key).bytes())

    def put(self, key: str, data: bytes) -> None:
        self.store.put(key, data)

    def delete(self, key: str) -> None:
        self.store.delete(key)
