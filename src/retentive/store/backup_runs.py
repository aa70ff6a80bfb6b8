"""Record of how the last backup of a location ended, for its monitoring.

A backup needs no encryption keys, so this record is never encrypted. It has times and an error code only. It is not
copied with a location.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass

from retentive.errors import NotFound, RetentiveError
from retentive.storage.capabilities import below_encryption
from retentive.storage.contract import Backend
from retentive.values.records import SYSTEM_STORE

LOG = logging.getLogger("retentive")
KIND, KEY = "last_run", "backup"


@dataclass(frozen=True, slots=True)
class BackupRun:
    """Outcome of one backup of all memory stores. Times are in seconds since 1970.

    `code` is the code of its error, empty after a success. `succeeded_at` is the end of the last success, or 0.
    """

    started_at: float
    finished_at: float
    succeeded_at: float
    code: str = ""


def last_backup(backend: Backend) -> BackupRun | None:
    """Return the outcome of the last backup, or None if none was recorded. Raises `RetentiveError`."""
    text = None
    with suppress(NotFound):
        text = below_encryption(backend).read(SYSTEM_STORE, lambda snapshot: snapshot.get_record(KIND, KEY))
    return None if text is None else BackupRun(**json.loads(text))


@contextmanager
def recorded_backup(backend: Backend, *, clock: Callable[[], float] = time.time) -> Iterator[None]:
    """Record how the backup in the block ended, if the location has records: if it was ever served, or has API keys.

    A location that cannot be written to is backed up all the same; the record is then missing.
    """
    started, code = clock(), "error"
    try:
        yield
        code = ""
    except RetentiveError as error:
        code = error.code
        raise
    finally:
        try:
            _record(backend, started, clock(), code)
        except RetentiveError as error:
            LOG.warning("the end of the backup was not recorded: %s", error.code)


def _record(backend: Backend, started: float, ended: float, code: str) -> None:
    before = last_backup(backend)
    succeeded = ended if not code else 0.0 if before is None else before.succeeded_at
    text = json.dumps(asdict(BackupRun(started, ended, succeeded, code)))
    with suppress(NotFound):
        below_encryption(backend).write(SYSTEM_STORE, lambda tx: tx.put_record(KIND, KEY, text))
