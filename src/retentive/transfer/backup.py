"""Backups: all memory stores of a place in one file, as they rest; those that are sealed stay sealed."""

from __future__ import annotations

import json
from collections.abc import Sequence

from retentive.errors import NotFound
from retentive.locations import existing_store
from retentive.storage.contract import Backend
from retentive.storage.paging import all_stores
from retentive.transfer.archive_writer import BACKUP, Progress, StoreSection, about, bare, new_archive
from retentive.transfer.export import Exported


def back_up(
    backend: Backend, path: str, *, stores: Sequence[str] = (), progress: Progress | None = None
) -> list[Exported]:
    """Write all memory stores of a place, or those with these ids or keys, to the new file `path`.

    Each is as it was at one revision, with its history, settings and notes; others may go on writing. It needs no
    keys, and what is sealed rests in the file as it does in the place. A store that is erased meanwhile is left out.
    Raises `NotFound` for one that is not there.
    """
    source = bare(backend)
    chosen = [existing_store(source, name) for name in stores] if stores else list(all_stores(source))
    written: list[Exported] = []
    with new_archive(path) as archive:
        archive.add(BACKUP, (json.dumps(about("a backup")) + "\n").encode())
        for info in sorted(chosen, key=lambda info: info.id):
            section = StoreSection(archive, source, info, prefix=f"stores/{info.id}/", header="store.json", notes=True)
            try:
                header = section.write(progress)
            except NotFound:
                continue
            written.append(
                Exported(
                    id=info.id,
                    key=info.key,
                    revision=header.revision,
                    memories=header.memories,
                    size_bytes=header.size_bytes,
                    versions=header.versions,
                )
            )
    return written
