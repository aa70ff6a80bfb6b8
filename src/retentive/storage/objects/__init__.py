"""Object storage backend. Each memory store is a copy-on-write map; its root is in one mutable object, the manifest."""

from retentive.storage.objects.backend import ObjectsBackend

__all__ = ["ObjectsBackend"]
