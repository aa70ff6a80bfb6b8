"""Statistics of a memory store, as `retentive stats` shows them."""

from retentive.doctor.figures import DAYS, TOP, USED_DAYS, MemoryUse, Stats, memory_use, stats

__all__ = ["DAYS", "TOP", "USED_DAYS", "MemoryUse", "Stats", "memory_use", "stats"]
