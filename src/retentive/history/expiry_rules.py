"""Rules for expiry and pruning, without I/O. They determine which memories are idle and which versions are old."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

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
    The last known path of a deleted memory determines whether it is read-only.
    """
    horizon = (now - settings.keep_versions_days * _DAY_S) * 1e6
    by_memory: dict[str, list[Version]] = {}
    for version in versions:
        by_memory.setdefault(version.memory_id, []).append(version)
    gone: list[tuple[str, int]] = []
    keep = settings.keep_versions
    for memory_id, own in by_memory.items():
        path = living.get(memory_id) or next((version.path for version in own if version.path), "")
        if WriteRules.is_read_only(settings, path):
            continue
        gone += [
            (older.id, to_us(newer.created_at))
            for number, (newer, older) in enumerate(pairwise(own), start=1)
            if number >= keep and to_us(newer.created_at) < horizon
        ]
        if not keep and memory_id not in living and to_us(own[0].created_at) < horizon:
            gone.append((own[0].id, 0))  # the deletion goes last; without it, an older version would look current
    return gone
