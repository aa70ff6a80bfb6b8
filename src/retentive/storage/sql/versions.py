"""Columns and rows of versions in a SQL database."""

from __future__ import annotations

from typing import cast

from retentive.errors import Damaged, InvalidInput
from retentive.storage.contract import Actor, Operation, Version, to_datetime
from retentive.storage.sql.connection import Row

VERSION = (
    "id, memory, operation, path, size_bytes, sha256, actor, created_at, revision, seal, redacted_at, redacted_by,"
    " provenance"
)
_REVISION = "(SELECT revision FROM versions WHERE store = ? AND id = ?)"
SAME_REVISION = (
    f" AND revision = {_REVISION}"
    # Versions of one revision are adjacent in the order of ids, so the bounds are the neighbouring revisions.
    f" AND id > COALESCE((SELECT max(id) FROM versions WHERE store = ? AND id < ? AND revision < {_REVISION}), '')"
    f" AND id < COALESCE((SELECT min(id) FROM versions WHERE store = ? AND id > ? AND revision > {_REVISION}), '~')"
)


def to_version(row: Row) -> Version:
    """Return the version of a row with the columns `VERSION`. Raises `Damaged` if it cannot be decoded."""
    id_, memory, operation, path, size, sha256, actor, created, revision, seal, redacted, by, provenance = cast(
        "tuple[str, str, Operation, str, int | None, str | None, str | None, int, int, bytes | None,"
        " int | None, str | None, str | None]",
        row,
    )
    try:
        redacted_at = None if redacted is None else to_datetime(redacted)
        changed = _actor(actor), to_datetime(created), revision, seal, redacted_at, _actor(by), provenance
    except (Damaged, AttributeError, InvalidInput):
        raise Damaged(f"the times or actors of version {id_} cannot be decoded") from None
    return Version(id_, memory, operation, path, size, sha256, *changed)


def _actor(text: str | None) -> Actor | None:
    return None if text is None else Actor.parse(text)
