"""Mounts: several memory stores combined into one tree."""

from retentive.mounts.tree import MemoryTree, Mounts

__all__ = ["MemoryTree", "Mounts"]
