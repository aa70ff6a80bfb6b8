"""Object storage backend: each memory store is a copy-on-write map under one mutable manifest."""

from retentive.storage.objects.backend import ObjectsBackend, open_objects

__all__ = ["ObjectsBackend", "open_objects"]
