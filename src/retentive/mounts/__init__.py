"""Several memory stores as one tree."""

from retentive.mounts.tree import MemoryTree, Mounts

__all__ = ["MemoryTree", "Mounts"]
