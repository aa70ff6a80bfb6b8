"""Limits of a server: the request rate of each key, and the memory used for request bodies.

The request rates are shared by all server processes of a host.
"""

from __future__ import annotations

import fcntl
import math
import mmap
import os
import struct
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from threading import Lock

from retentive.server.errors import HttpError, overloaded
from retentive.wire.rates import Rate, rate_of

MAX_RETRY_AFTER_S = 60
"""Longest `retry-after` that both SDKs obey. They ignore longer times."""
BODY_BYTES = 256 << 20
"""Maximum total size of the request bodies that one process holds in memory."""
_SLOT = struct.Struct("<16sdd")
"""Bucket in the file: digest of a key id, number of tokens, and time when the tokens were counted."""
_GROUPS, _SLOTS = 1024, 8
_PREFIX = "retentive-limits-"
_UNLOCKED_S = 60
"""A bucket file younger than this is kept, because the server that created it may not have locked it yet."""
_GROUP_BYTES = _SLOT.size * _SLOTS
_FILE_BYTES = _GROUP_BYTES * _GROUPS


class Buckets:
    """Token buckets in a memory-mapped file. All processes that open the same file share the buckets.

    The digest of a key id selects a group of slots, and the key uses one slot of that group. A process locks the bytes
    of a group while it changes the group. The operating system releases the lock if the process dies. If a group is
    full, its least recently used bucket is replaced.
    """

    def __init__(self, path: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        os.ftruncate(self._file, _FILE_BYTES)
        self._map = mmap.mmap(self._file, _FILE_BYTES)
        self._clock = clock
        self._lock = Lock()  # a file lock does not exclude other threads of the same process

    def take(self, key_id: str, rate: Rate) -> float:
        """Take a token and return 0. If the bucket is empty, return the number of seconds until the next token."""
        digest = blake2b(key_id.encode(), digest_size=16).digest()
        start = int.from_bytes(digest[:4], "little") % _GROUPS * _GROUP_BYTES
        with self._lock:
            fcntl.lockf(self._file, fcntl.LOCK_EX, _GROUP_BYTES, start)
            try:
                return self._take(digest, start, rate)
            finally:
                fcntl.lockf(self._file, fcntl.LOCK_UN, _GROUP_BYTES, start)

    def _take(self, digest: bytes, start: int, rate: Rate) -> float:
        now = self._clock()
        slots = {at: _SLOT.unpack_from(self._map, at) for at in range(start, start + _GROUP_BYTES, _SLOT.size)}
        at = next((each for each, slot in slots.items() if slot[0] == digest), None)
        tokens = float(rate.burst)
        if at is None:
            at = min(slots, key=lambda each: slots[each][2])
        else:
            _, left, since = slots[at]
            if since <= now and left >= 0:  # else the bucket was written before a reboot or by a killed process
                tokens = min(tokens, left + (now - since) * rate.per_s)
        missing = max(0.0, 1 - tokens)
        _SLOT.pack_into(self._map, at, digest, tokens if missing else tokens - 1, now)
        return missing / rate.per_s

    def close(self) -> None:
        """Close the file."""
        self._map.close()
        os.close(self._file)


@contextmanager
def bucket_file() -> Iterator[str]:
    """Create a file for `Buckets`, and yield its path.

    The file is in shared memory if possible, and is removed at the end.
    """
    directory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - mkstemp makes the name
    for left in Path(directory or tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        _remove_unused(left)
    file, path = tempfile.mkstemp(prefix=_PREFIX, dir=directory)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)  # held while this process lives, so that no other process removes the file
        yield path
    finally:
        Path(path).unlink(missing_ok=True)
        os.close(file)


def _remove_unused(path: Path) -> None:
    """Remove the bucket file of a server that was killed. Keep the file if it is locked or new."""
    with suppress(OSError), path.open("rb") as file:
        if time.time() - path.stat().st_mtime > _UNLOCKED_S:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()


class RateLimits:
    """Checks request rates. `default` applies to keys that have no rate limit of their own."""

    def __init__(self, buckets: Buckets | None = None, default: str | None = None) -> None:
        self._buckets = buckets
        self._default = default
        self._rates = {default: rate_of(default)}

    def check(self, key_id: str, own: str | None) -> None:
        """Count a request with a key. Raises `HttpError` 429 if the key has sent too many requests.

        `own` is the rate limit of the key. If it is None, the default applies.
        """
        text = self._default if own is None else own
        if text is None or self._buckets is None:
            return
        if text not in self._rates:
            self._rates[text] = rate_of(text)
        rate = self._rates[text]
        wait_s = 0.0 if rate is None else self._buckets.take(key_id, rate)
        if wait_s:
            after = min(MAX_RETRY_AFTER_S, math.ceil(wait_s))
            message = f"the API key has reached its rate limit of {text}; try again in {after} s"
            raise HttpError(429, "rate_limit_error", message, "rate_limited", retry_after_s=after)


class BodyBudget:
    """Limit on the memory that the request bodies of a process may use. Used by one event loop only."""

    def __init__(self, max_bytes: int = BODY_BYTES) -> None:
        self._left = max_bytes

    @contextmanager
    def reserved(self) -> Iterator[Callable[[int], None]]:
        """Yield a function that reserves a number of bytes. The end of the block releases them.

        The function raises `HttpError` 503 if too few bytes are left.
        """
        held = 0

        def reserve(count: int) -> None:
            nonlocal held
            if count > self._left:
                raise overloaded("the server is holding too many request bodies; try again later")
            self._left -= count
            held += count

        try:
            yield reserve
        finally:
            self._left += held
