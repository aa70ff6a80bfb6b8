"""Memory stores for programs: `MemoryStore`, memories by id, and the open location that contains the stores."""

from retentive.store.memory_store import MemoryStore, core_of, for_request, limited_to, search_once

__all__ = ["MemoryStore", "core_of", "for_request", "limited_to", "search_once"]
