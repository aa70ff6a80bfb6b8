"""Mounts: several memory stores combined into one tree."""

from retentive.mounts.tree import MemoryTree, Mounts, core_of_tree

__all__ = ["MemoryTree", "Mounts", "core_of_tree"]
