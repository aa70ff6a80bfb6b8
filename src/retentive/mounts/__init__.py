"""Mounts: several memory stores combined into one tree."""

from retentive.engine.memories import MemoryTree
from retentive.mounts.tree import Mounts, core_of_tree

__all__ = ["MemoryTree", "Mounts", "core_of_tree"]
