"""Rules for expiry and pruning, without I/O: which memories have been idle too long, and which versions are old."""

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
    """Number of days that a memory may be idle; 0 means no limit.

    A pattern that covers the path overrides the store-wide rule; if several match, the longest time applies.
    """
    named = [days for pattern, days in settings.expire_paths.items() if covers((pattern,), path)]
    if not named:
        return settings.expire_after_days
    return 0 if 0 in named else max(named)


def idle_days(memory: Memory, accessed: Mapping[str, float], now: float) -> float:
    """Days since a memory was last viewed or changed."""
    return (now - max(to_us(memory.updated_at) / 1e6, accessed.get(memory.id, 0.0))) / _DAY_S


def expired(
    memories: Iterable[Memory], accessed: Mapping[str, float], settings: Settings, now: float
) -> Iterator[tuple[Memory, float]]:
    """Memories that have certainly exceeded their idle time, with their idle days."""
    for memory in memories:
        left = days_left(memory, accessed, settings, now)
        if left is not None and left < 0:
            yield memory, idle_days(memory, accessed, now)


def days_left(memory: Memory, accessed: Mapping[str, float], settings: Settings, now: float) -> float | None:
    """Days until a memory expires if it is not used: negative if the next sweep deletes it, None for never."""
    days = days_allowed(memory.path, settings)
    return days - idle_days(memory, accessed, now) if days else None


def prunable(
    versions: Iterable[Version], living: Mapping[str, str], settings: Settings, now: float
) -> list[tuple[str, int]]:
    """Return the id of each prunable version, and the time at which a newer version replaced it, in microseconds.

    A version is kept if it was current at any moment of the last `keep_versions_days`, or if it is one of the newest
    `keep_versions` of its memory. So the complete store can be read as of any moment in that time. The history of a
    read-only memory is kept. `living` maps ids of existing memories to paths; a deleted memory has its last known path.
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
            gone.append((own[0].id, 0))  # last: without the deletion, an older version would look current
    return gone
