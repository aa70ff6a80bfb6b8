"""Memory stores for applications: `MemoryStore`, access to memories by id, and the opened location of the stores."""

from retentive.store.memory_store import (
    MemoryStore,
    core_of,
    for_request,
    hiding_history,
    limited_to,
    recording_key,
)

__all__ = ["MemoryStore", "core_of", "for_request", "hiding_history", "limited_to", "recording_key"]
