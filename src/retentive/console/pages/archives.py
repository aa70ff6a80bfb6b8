"""Pages and downloads for the export of one memory store, and for the backup of all stores that the key may see."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import cast

from retentive.console.visits import Download, HtmlPage, PageAnswer, Visit
from retentive.engine.operation import AuditOnly
from retentive.errors import RetentiveError
from retentive.server.calls import Streamed
from retentive.server.errors import invalid
from retentive.server.handlers import transfers
from retentive.storage.contract import StoreInfo
from retentive.store import core_of
from retentive.transfer.export import back_up

FORMATS: Mapping[str, tuple[str, str]] = {
    "tar.gz": ("tar.gz", "application/gzip"),
    "tar": ("tar", "application/x-tar"),
    "files": ("files.tar", "application/x-tar"),
}
"""Formats of an export, each with the ending of the file name and the media type."""
_PAGE = 200


def show_export(visit: Visit) -> PageAnswer:
    """Show the page that offers the formats of an export."""
    return HtmlPage("export.html", {"area": "export", "usage": visit.store.usage()}, title="Export")


def export_file(visit: Visit) -> PageAnswer:
    """Send an export as a file. The format decides whether it has the history or only the memories as plain files."""
    wanted = visit.query.get("format", "tar.gz")
    if wanted not in FORMATS:
        raise invalid("format: must be tar.gz, tar or files")
    found = transfers.export_store(visit.call(), cast("transfers.Format", wanted))
    assert isinstance(found, Streamed)
    ending, media_type = FORMATS[wanted]
    return Download(f"{visit.info.id}.{ending}", found.pieces, media_type)


def show_backup(visit: Visit) -> PageAnswer:
    """Show the page for a backup, with its size."""
    stores = list(_stores(visit))
    values = {
        "count": len(stores),
        "memories": sum(each.memories for each in stores),
        "size_bytes": sum(each.size_bytes for each in stores),
        "encrypted": sum(each.seal is not None for each in stores),
    }
    return HtmlPage("backup.html", values, title="Backup")


def backup_file(visit: Visit) -> PageAnswer:
    """Send a backup of all memory stores that the key may see, as one file."""
    ids = [each.id for each in _stores(visit)]
    if not ids:  # for an empty list, `back_up` would back up all stores of the location
        raise invalid("there is no memory store to back up")
    for store_id in ids:
        with suppress(RetentiveError):  # an encrypted store without its key is backed up too, but gets no audit entry
            core_of(visit.location.store(store_id, visit.caller)[1]).result_of(AuditOnly("backup"))
    directory = tempfile.TemporaryDirectory(prefix="retentive-backup-")
    path = os.path.join(directory.name, "backup.tar.gz")
    try:
        back_up(visit.location.opened.backend, path, stores=ids)
        raw = open(path, "rb")  # noqa: SIM115 - the answer closes it
    finally:
        directory.cleanup()  # the open file stays readable
    name = f"retentive-{datetime.now(UTC):%Y%m%dT%H%M%SZ}.tar.gz"
    return Download(name, transfers.pieces_of(raw), "application/gzip")


def _stores(visit: Visit) -> Iterator[StoreInfo]:
    """Yield the memory stores that the key may see, including archived ones."""
    after: str | None = None
    while True:
        page = visit.location.opened.list_stores(
            workspace=visit.caller.workspace_id, include_archived=True, after=after, limit=_PAGE
        )
        yield from filter(visit.caller.sees, page.items)
        if page.next is None:
            return
        after = page.next
