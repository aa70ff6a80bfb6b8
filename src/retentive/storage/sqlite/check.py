"""Integrity check of a SQLite file."""

from __future__ import annotations

import re
from collections.abc import Iterator

from retentive.errors import RetentiveError
from retentive.storage.findings import Finding, found
from retentive.storage.sql.connection import Connection

_MOST = 100
_NAMED = re.compile(r"[^\x20-\x7e]")


def integrity(connection: Connection) -> Iterator[Finding]:
    """Findings of SQLite's integrity check of pages, rows and indexes."""
    try:
        said = [str(row[0]) for row in connection.rows(f"PRAGMA integrity_check({_MOST})")]
    except RetentiveError as error:
        yield found("file_damaged", None, str(error))
        return
    for text in said:
        if text != "ok":
            yield from (found("file_damaged", None, _NAMED.sub("?", line)) for line in text.splitlines()[:_MOST])
