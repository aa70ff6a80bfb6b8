"""Record of how the last backup of a location ended, for its monitoring.

A backup needs no encryption keys, so this record is never encrypted. It has times and an error code only, and is not
copied with a location.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from retentive.errors import NotFound, RetentiveError
from retentive.storage.capabilities import below_encryption
from retentive.storage.contract import Backend
from retentive.values.records import SYSTEM_STORE

LOG = logging.getLogger("retentive")
KIND, KEY = "last_run", "backup"


def last_backup(backend: Backend) -> dict[str, Any]:
    """Return `started_at`, `finished_at`, `succeeded_at` (in seconds since 1970, or 0) and `code` of the last backup.

    `code` is the code of its error. Empty if no backup was recorded. Raises `RetentiveError`.
    """
    with suppress(NotFound):
        text = below_encryption(backend).read(SYSTEM_STORE, lambda snapshot: snapshot.get_record(KIND, KEY))
        return json.loads(text or "{}")  # type: ignore[no-any-return]
    return {}


@contextmanager
def recorded_backup(backend: Backend) -> Iterator[None]:
    """Record how the backup in the block ended, if the location has records: if it was ever served, or has API keys.

    A location that cannot be written to is backed up all the same; the record is then missing.
    """
    run: dict[str, Any] = {"started_at": time.time(), "code": "error"}
    try:
        yield
        run["code"] = ""
    except RetentiveError as error:
        run["code"] = error.code
        raise
    finally:
        run["finished_at"] = time.time()
        try:
            run["succeeded_at"] = last_backup(backend).get("succeeded_at", 0) if run["code"] else run["finished_at"]
            with suppress(NotFound):
                below_encryption(backend).write(SYSTEM_STORE, lambda tx: tx.put_record(KIND, KEY, json.dumps(run)))
        except RetentiveError as error:
            LOG.warning("the end of the backup was not recorded: %s", error.code)
