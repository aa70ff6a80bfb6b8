"""Side records: small values that are stored beside a store, and are written without waiting for its writers.

Side records are not in the map of the store. Every write to the map replaces the manifest, and would conflict with
other writers. Instead, each write of side records creates an object of its own, a *part*. Names of parts sort by time.

When there are many parts of similar size, the next reader or writer merges them into one part. The merged part is
written before the others are deleted. Each value keeps its timestamp. The value with the latest timestamp is valid,
whichever part contains it. Concurrent merges and crashes therefore lose nothing.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple, cast

from retentive.errors import Damaged, NotFound, RetentiveError
from retentive.storage.objects.reader import SIZE_OF_PARSED, ObjectStorage
from retentive.storage.objects.records import check_name, name_for, pack, unpack
from retentive.storage.objects.requests import BUSY, Missing, together

SIDE = "side"
MOST = 32  # if there are more parts of similar size, they are merged
_KEPT_S = 86_400.0  # removals are kept this long, since an older write may still arrive
_TIME_DIGITS, _STAMP_CHARS = 14, 22
_NAME = re.compile(r"[0-9a-f]{39}")


class Stamped(NamedTuple):
    """Value of a side record, or None for a removed record. `stamp` is a string that sorts by the time of the write."""

    value: str | None
    stamp: str


Part = Mapping[str, Stamped]


class SideRecords:
    """Side records of all stores at one location. Threads may share it.

    After each write, the function `check` is called with the store id. If the store was erased during the write,
    `check` raises `NotFound`. The new object is then deleted, so that no object of an erased store remains.
    """

    def __init__(self, storage: ObjectStorage, check: Callable[[str], object]) -> None:
        self._requests = storage.requests
        self._cache = storage.cache
        self._check = check
        self._lock = threading.Lock()
        self._last_us = 0
        self._written: Counter[str] = Counter()

    def write(self, store_id: str, kind: str, values: Mapping[str, str | None]) -> None:
        """Write side records of one kind. The value None removes a record.

        A write needs two requests. Every 32nd write also merges the objects of earlier writes, if there are many.
        """
        stamp, under = self._new_stamp(), _under(store_id, kind)
        self._put(store_id, under, stamp, {key: Stamped(value, stamp) for key, value in values.items()})
        with self._lock:
            self._written[under] += 1
            is_due = self._written[under] % MOST == 0
        if is_due:
            with suppress(RetentiveError):  # the records are already written
                self._merge(store_id, under)

    def all(self, store_id: str, kind: str) -> dict[str, str]:
        """Return the keys and values of all side records of a kind, in key order."""
        self._check(store_id)
        under = _under(store_id, kind)
        for _ in self._requests.attempts(BUSY):
            names = self._names(under)
            parts = self._read(under, names)
            if parts is not None:
                break
        if _to_merge(names):
            with suppress(RetentiveError):  # the records are already read
                self._merge(store_id, under)
        found = sorted(_newest(parts or []).items())
        return {key: one.value for key, one in found if one.value is not None}

    def _merge(self, store_id: str, under: str) -> None:
        names = self._names(under)
        chosen = _to_merge(names)
        parts = self._read(under, chosen)
        if parts:  # otherwise there is nothing to merge, or another process is merging
            merged = _newest(parts, forget_removals=len(chosen) == len(names))
            if merged:
                self._put(store_id, under, self._new_stamp(), merged)
            self._requests.delete([f"{under}/{name}" for name in chosen])
            self._cache.drop(*((under, name) for name in chosen))

    def _names(self, under: str) -> list[str]:
        found = (key.rpartition("/")[2] for key, _ in self._requests.names(under))
        return [name for name in found if _NAME.fullmatch(name)]

    def _read(self, under: str, names: Sequence[str]) -> list[Part] | None:
        """Read the objects `names` below the prefix `under`.

        Returns None if one of the objects was deleted after another process had merged it.
        """
        parts = together([partial(self._part, under, name) for name in names])
        return None if None in parts else cast("list[Part]", parts)

    def _part(self, under: str, name: str) -> Part | None:
        found = cast("Part | None", self._cache.get((under, name)))
        if found is not None:
            return found
        try:
            data, _ = self._requests.get(f"{under}/{name}")
            values = {key: Stamped(*value) for key, value in unpack(SIDE, check_name(name, data)).items()}
        except Missing:
            return None
        except (AttributeError, TypeError):
            raise Damaged("an object of the memory store is damaged: its records cannot be decoded") from None
        self._cache.put((under, name), values, len(data) * SIZE_OF_PARSED)
        return values

    def _put(self, store_id: str, under: str, stamp: str, part: Part) -> None:
        data = pack(SIDE, part)
        key = f"{under}/{stamp}{_level(len(part)):x}{name_for(data)[16:]}"
        self._requests.put(key, data)
        try:
            self._check(store_id)
        except NotFound:
            self._requests.delete([key])
            raise

    def _new_stamp(self) -> str:
        """Return a string that sorts after all earlier stamps of this process.

        Stamps of different processes sort by the clocks of their hosts.
        """
        with self._lock:
            self._last_us = max(int(time.time() * 1_000_000), self._last_us + 1)
            return f"{self._last_us:0{_TIME_DIGITS}x}{os.urandom(4).hex()}"


def _under(store_id: str, kind: str) -> str:
    """Return the prefix of the objects that contain the side records of a kind.

    The prefix contains a hash of the kind, because a kind may contain characters that are not allowed in object names.
    """
    digest = hashlib.blake2b(kind.encode(errors="surrogatepass"), digest_size=16).hexdigest()
    return f"stores/{store_id}/{SIDE}/{digest}"


def _level(count: int) -> int:
    """Return the size class of an object with `count` records: 0 below 32 records, 1 below 1,024, and so on."""
    return min(max(count.bit_length() - 1, 0) // 5, 15)


def _to_merge(names: Sequence[str]) -> list[str]:
    """Return those of `names` whose objects should be merged. The objects contain side records.

    If a size class has more than 32 objects, all objects of this class and of smaller classes are merged.
    """
    levels = [int(name[_STAMP_CHARS : _STAMP_CHARS + 1], 16) for name in names]
    many = [level for level, count in Counter(levels).items() if count > MOST]
    return [name for name, level in zip(names, levels, strict=True) if level <= max(many, default=-1)]


def _newest(parts: Sequence[Part], *, forget_removals: bool = False) -> dict[str, Stamped]:
    """Return the newest value of each key in `parts`, which are the contents of objects with side records.

    With `forget_removals`, removals that are older than a day are left out. But a removal is kept if one of the parts
    has an older value for its key. The object of that part may remain after a crash, and without the removal, the old
    value would reappear.
    """
    found: dict[str, Stamped] = {}
    for part in parts:
        for key, one in part.items():
            there = found.get(key)
            if there is None or there.stamp < one.stamp:
                found[key] = one
    if not forget_removals:
        return found
    long_ago = f"{int((time.time() - _KEPT_S) * 1_000_000):0{_TIME_DIGITS}x}"
    named = {key for part in parts for key, one in part.items() if one.value is not None}
    return {key: one for key, one in found.items() if key in named or one.stamp > long_ago}
