"""Marks of memory stores that may change, so that a server finds their events without reading every memory store.

The events of webhooks are derived from what a change itself records: versions, properties and tombstones. So they need
no rows of their own, on any backend; only the memory store must be found. Its mark is written before the change, is
renewed at most once a minute, and is removed five minutes after its last renewal. A process that is killed at any
moment therefore leaves either no change or a change in a marked memory store.
"""

from __future__ import annotations

import base64
import json
import secrets
import time
from contextlib import suppress

from retentive.errors import RetentiveError
from retentive.storage.contract import StoreInfo
from retentive.store.location_records import LocationRecords

ENDPOINT, MARK = "webhook_endpoint", "webhook_mark"
LOOK_S = 5.0
"""Maximum time until every process knows that a workspace has its first webhook endpoint."""
RENEWED_S = 60.0
_MAX_MARKED = 10_000


def new_webhook_secret() -> str:
    """Return a new signing secret of a webhook endpoint, as Standard Webhooks defines it."""
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()


class ChangeMarks:
    """Marks the memory stores of one open location. Threads may share it."""

    def __init__(self, records: LocationRecords) -> None:
        self._records = records
        self._looked_at = float("-inf")
        self._workspaces: set[str] = set()
        self._marked: dict[str, float] = {}

    def mark(self, info: StoreInfo, *, erases: bool = False) -> None:
        """Mark a memory store if its workspace has webhook endpoints. Call this before a change.

        `erases` says that `info` is current, and that the memory store is going to be erased; its tombstone will not
        have its workspace. If storage fails, there is no mark: the hourly look at all memory stores finds the change.
        """
        now = time.monotonic()
        with suppress(RetentiveError):
            if now - self._looked_at >= LOOK_S:
                self._looked_at = now
                self._workspaces = {json.loads(text)["workspace_id"] for _, text in self._records.list(ENDPOINT)}
            if info.workspace_id not in self._workspaces:
                return
            if erases or now - self._marked.get(info.id, float("-inf")) >= RENEWED_S:
                archived = None if not erases or info.archived_at is None else info.archived_at.isoformat()
                mark = {"workspace_id": info.workspace_id, "key": info.key, "archived_at": archived, "at": time.time()}
                self._records.put(MARK, info.id, json.dumps(mark))
                if len(self._marked) >= _MAX_MARKED:
                    self._marked.clear()
                self._marked[info.id] = now

    def look_again(self) -> None:
        """Read the endpoints again before the next change of this process."""
        self._looked_at = float("-inf")
