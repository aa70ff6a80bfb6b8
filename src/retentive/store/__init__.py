"""Memory stores for applications: `MemoryStore`, access to memories by id, and the opened location of the stores."""

from retentive.store.memory_store import MemoryStore, core_of, with_options

__all__ = ["MemoryStore", "core_of", "with_options"]
