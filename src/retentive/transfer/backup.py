"""Backups: all memory stores of a location in one file, as stored. Encrypted stores stay encrypted."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from retentive.errors import NotFound
from retentive.locations import existing_store
from retentive.storage.contract import Backend
from retentive.storage.paging import all_stores
from retentive.transfer.archive_writer import BACKUP, Progress, SectionWriter, about, new_archive
from retentive.transfer.export import Exported
from retentive.transfer.lines import line
from retentive.transfer.versions import below_encryption


def back_up(
    backend: Backend, path: str, *, stores: Sequence[str] = (), progress: Progress | None = None
) -> list[Exported]:
    """Write all memory stores, or those with these ids or keys, to the new file `path`.

    Each store is written at one revision, with its history, settings and records, while others go on writing. No keys
    are needed: encrypted stores are written as stored. A store that is erased meanwhile is left out. Raises `NotFound`
    for an unknown id or key.
    """
    source = below_encryption(backend)
    chosen = [existing_store(source, name) for name in stores] if stores else list(all_stores(source))
    written: list[Exported] = []
    with new_archive(path) as archive:
        archive.add(BACKUP, line(about("a backup")).encode())
        for info in sorted(chosen, key=lambda info: info.id):
            section = SectionWriter(
                archive=archive,
                backend=source,
                info=info,
                prefix=f"stores/{info.id}/",
                header="store.json",
                records=True,
                progress=progress,
            )
            with suppress(NotFound):
                written.append(Exported.of(section.write()))
    return written
