"""Stores the API keys of a location, and authenticates requests with a cache."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from threading import Lock
from typing import Any

from retentive.errors import Conflict, NotFound
from retentive.server.keys import ID_PREFIX, TOKEN_PREFIX, KeyRecord, NewKey, id_in, matches, new_key
from retentive.store.location_records import LocationRecords

KIND = "api_key"
USED = "api_key_used"
FIRST = "api_key_first"
"""Kind of the record that has the id of the first key. After a crash, the key with that id may be missing."""
CACHE_S = 5.0
"""Maximum time until every process has noticed that a key was revoked."""
USED_EVERY_S = 60.0
_MAX_CACHED = 10_000


class KeyStore:
    """API keys of a location. Threads may share it."""

    def __init__(
        self,
        records: LocationRecords,
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._records = records
        self._clock = clock
        self._monotonic = monotonic
        self._cached: dict[str, tuple[float, KeyRecord | None]] = {}
        self._used: dict[str, float] = {}
        self._lock = Lock()

    def now(self) -> datetime:
        """Return the current time."""
        return datetime.fromtimestamp(self._clock(), UTC)

    def create(self, name: str, **options: Any) -> NewKey:
        """Create an API key and store its record. `options` are those of `new_key`.

        Raises `InvalidInput` if an option is invalid, and `Conflict` if there is a key with this id.
        """
        made = new_key(name, now=self.now(), **options)
        self._records.put(KIND, _short(made.record.id), made.record.to_text(), expected=None)
        return made

    def first(self) -> NewKey | None:
        """Create an admin key if the location has never had a key, else return None.

        If several processes call this at once, only one of them creates a key.
        """
        marker = self._records.get(FIRST, "first")
        if marker is None and self._records.list(KIND):
            return None
        if marker is not None and self._records.get(KIND, _short(marker)) is not None:
            return None
        made = new_key("first admin key", now=self.now(), scopes=("admin",))
        try:
            self._records.put(FIRST, "first", made.record.id, expected=marker)
        except Conflict:
            return None
        self._records.put(KIND, _short(made.record.id), made.record.to_text(), expected=None)
        return made

    def get(self, key_id: str, workspace_id: str | None = None) -> KeyRecord:
        """Return the record of a key. Raises `NotFound` if it does not exist or is in another workspace."""
        text = self._records.get(KIND, _short(key_id)) if _is_id(key_id) else None
        record = None if text is None else KeyRecord.from_text(text)
        if record is None or workspace_id not in {None, record.workspace_id}:
            raise NotFound("there is no such API key")
        return record

    def all(self, workspace_id: str | None = None) -> list[KeyRecord]:
        """Return the records of all keys, newest first. With `workspace_id`, return only keys of that workspace."""
        found = [KeyRecord.from_text(text) for _, text in self._records.list(KIND)]
        chosen = (record for record in found if workspace_id in {None, record.workspace_id})
        return sorted(chosen, key=lambda record: (record.created_at, record.id), reverse=True)

    def last_uses(self) -> dict[str, str]:
        """Return the time of the last use of each API key, by key id.

        Keys that were never used are missing. Times may be a minute too early.
        """
        return {ID_PREFIX + short: at for short, at in self._records.list(USED)}

    def change(
        self,
        key_id: str,
        workspace_id: str | None = None,
        *,
        name: str | None = None,
        status: str | None = None,
        rate_limit: str | None = None,
    ) -> KeyRecord:
        """Change the name, the status or the rate limit of a key. Raises `NotFound`, `InvalidInput` or `Conflict`."""
        before = self.get(key_id, workspace_id)
        after = before.changed(name=name, status=status, rate_limit=rate_limit)
        self._records.put(KIND, _short(key_id), after.to_text(), expected=before.to_text())
        with self._lock:
            self._cached.pop(key_id, None)
        return after

    def cached(self, text: str) -> tuple[bool, KeyRecord | None]:
        """Look up the text of a key in the cache, without reading storage.

        Returns `(True, record)` for a valid key, and `(True, None)` for an invalid key. If the cache has no current
        entry, returns `(False, None)`; the caller must then call `authenticated`.
        """
        key_id = id_in(text)
        known = None if key_id is None else self._cached.get(key_id)
        if key_id is not None and (known is None or known[0] <= self._monotonic()):
            return False, None
        return True, self._valid(None if known is None else known[1], text)

    def authenticated(self, text: str) -> KeyRecord | None:
        """Return the record of the active key with this text. None if there is no such key."""
        key_id = id_in(text)
        if key_id is None:
            return None
        return self._valid(self._read(key_id), text)

    def _read(self, key_id: str) -> KeyRecord | None:
        """Return the record of a key from storage, and cache it. None if the key does not exist."""
        try:
            record = self.get(key_id)
        except NotFound:
            record = None
        with self._lock:
            if len(self._cached) >= _MAX_CACHED:  # unknown keys are removed first, before keys that exist
                self._cached = {name: each for name, each in self._cached.items() if each[1] is not None}
            if len(self._cached) >= _MAX_CACHED:
                self._cached.clear()
            self._cached[key_id] = (self._monotonic() + CACHE_S, record)
        return record

    def is_active(self, key: KeyRecord) -> bool:
        """Return whether an API key or OAuth token is active. For an API key, the result may be five seconds old."""
        if key.id.startswith(TOKEN_PREFIX):
            return key.status_at(self.now()) == "active"
        known = self._cached.get(key.id)
        record = self._read(key.id) if known is None or known[0] <= self._monotonic() else known[1]
        return record is not None and record.status_at(self.now()) == "active"

    def last_use(self, key_id: str) -> str | None:
        """Return when a key was last used, or None if it was never used. The time may be a minute too early."""
        return self._records.get(USED, _short(key_id))

    def is_use_due(self, key_id: str) -> bool:
        """Return True unless this process has recorded a use of the key within the last minute."""
        return self._used.get(key_id, -USED_EVERY_S) + USED_EVERY_S <= self._monotonic()

    def note_use(self, key_id: str) -> None:
        """Record the current time as the last use of a key, at most once a minute.

        This write is not part of the transaction of the request.
        """
        if not self.is_use_due(key_id):
            return
        self._used[key_id] = self._monotonic()
        self._records.put(USED, _short(key_id), self.now().isoformat())

    def _valid(self, record: KeyRecord | None, text: str) -> KeyRecord | None:
        if not matches(record, text) or record is None or record.status_at(self.now()) != "active":
            return None
        return record


def _is_id(key_id: str) -> bool:
    return key_id.startswith(ID_PREFIX) and _short(key_id).isalnum() and key_id.isascii() and len(key_id) < 40


def _short(key_id: str) -> str:
    return key_id.removeprefix(ID_PREFIX)
