"""Rules for expiry and pruning, without I/O. They determine which memories are idle and which versions are old."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from retentive.engine.guarded_writer import WriteRules
from retentive.storage.contract import Actor, Memory, Version
from retentive.values.patterns import covers
from retentive.values.records import to_us
from retentive.values.settings import Settings

EXPIRY = Actor("job", "expiry")
"""Actor of deletions by expiry."""
_DAY_S = 86_400.0


def days_allowed(path: str, settings: Settings) -> int:
    """Return the number of days that a memory may be idle; 0 means no limit.

    If patterns in `expire_paths` match the path, the longest of their times applies. Otherwise `expire_after_days`
    applies.
    """
    named = [days for pattern, days in settings.expire_paths.items() if covers((pattern,), path)]
    if not named:
        return settings.expire_after_days
    return 0 if 0 in named else max(named)


def idle_days(memory: Memory, accessed: Mapping[str, float], now: float) -> float:
    """Return the number of days since a memory was last viewed or changed."""
    return (now - max(to_us(memory.updated_at) / 1e6, accessed.get(memory.id, 0.0))) / _DAY_S


def expired(
    memories: Iterable[Memory], accessed: Mapping[str, float], settings: Settings, now: float
) -> Iterator[tuple[Memory, float]]:
    """Yield the memories that have certainly been idle for too long, each with its number of idle days."""
    for memory in memories:
        left = days_left(memory, accessed, settings, now)
        if left is not None and left < 0:
            yield memory, idle_days(memory, accessed, now)


def days_left(memory: Memory, accessed: Mapping[str, float], settings: Settings, now: float) -> float | None:
    """Return the number of days until an unused memory expires, or None if it never expires.

    The number is negative if the next sweep deletes the memory.
    """
    days = days_allowed(memory.path, settings)
    return days - idle_days(memory, accessed, now) if days else None


def prunable(
    versions: Iterable[Version], living: Mapping[str, str], settings: Settings, now: float
) -> list[tuple[str, int]]:
    """Return the id of each prunable version, and the time at which a newer version replaced it, in microseconds.

    A version is kept if it was the current version at any time in the last `keep_versions_days` days. The store can
    therefore be read as of any time in these days. A version is also kept if it is one of the newest `keep_versions`
    versions of its memory, or if the memory is read-only. `living` maps the ids of existing memories to their paths.
    The last known path of a deleted memory determines whether it is read-only. `versions` come newest first. They are
    read one by one, so that a long history needs no memory.
    """
    horizon = (now - settings.keep_versions_days * _DAY_S) * 1e6
    memories: dict[str, _Pruning] = {}
    for version in versions:
        at, memory = to_us(version.created_at), memories.get(version.memory_id)
        if memory is None:
            memory = memories[version.memory_id] = _Pruning(version.id, at, living.get(version.memory_id, ""))
        else:
            if memory.count >= settings.keep_versions and memory.newer_at < horizon:
                memory.gone.append((version.id, memory.newer_at))
            memory.newer_at = at
        memory.count += 1
        memory.path = memory.path or version.path
    gone: list[tuple[str, int]] = []
    for memory_id, memory in memories.items():
        if WriteRules.is_read_only(settings, memory.path):
            continue
        gone += memory.gone
        if not settings.keep_versions and memory_id not in living and memory.newest_at < horizon:
            gone.append((memory.newest, 0))  # the deletion goes last; without it, an older version would look current
    return gone


class _Pruning:
    """What a walk over the versions of a memory, newest first, has found so far."""

    __slots__ = ("count", "gone", "newer_at", "newest", "newest_at", "path")

    def __init__(self, newest: str, newest_at: int, path: str) -> None:
        self.newest, self.path, self.count = newest, path, 0
        self.newest_at = self.newer_at = newest_at
        self.gone: list[tuple[str, int]] = []
