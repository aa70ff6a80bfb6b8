"""Memory stores in object storage: one copy-on-write map for each, below a manifest that is replaced."""

from retentive.storage.objects.backend import ObjectsBackend, open_objects

__all__ = ["ObjectsBackend", "open_objects"]
