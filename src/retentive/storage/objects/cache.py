"""LRU cache of immutable objects, bounded in bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable

DEFAULT_CACHE_BYTES = 64 * 1024 * 1024


class Cache:
    """LRU cache of values, at most `max_bytes` in total. Threads may share it."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held: OrderedDict[Hashable, tuple[object, int]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> object | None:
        """Cached value, or None."""
        with self._lock:
            found = self._held.get(key)
            if found is None:
                return None
            self._held.move_to_end(key)
            return found[0]

    def put(self, key: Hashable, value: object, size_bytes: int) -> None:
        """Cache a value, unless it is larger than a quarter of the cache."""
        if size_bytes > self._max_bytes // 4:
            return
        with self._lock:
            self._forget(key)
            self._held[key] = (value, size_bytes)
            self._bytes += size_bytes
            while self._bytes > self._max_bytes:
                self._forget(next(iter(self._held)))

    def drop(self, key: Hashable) -> None:
        """Remove one value."""
        with self._lock:
            self._forget(key)

    def clear(self, first: Hashable) -> None:
        """Remove all values whose keys are tuples that begin with `first`."""
        with self._lock:
            for key in [key for key in self._held if isinstance(key, tuple) and key[0] == first]:
                self._forget(key)

    def _forget(self, key: Hashable) -> None:
        found = self._held.pop(key, None)
        if found is not None:
            self._bytes -= found[1]
