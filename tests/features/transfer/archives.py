"""Functions that read and write archives entry by entry, so that tests can damage them."""

from __future__ import annotations

import hashlib
from pathlib import Path

import retentive
from retentive.errors import RetentiveError
from retentive.transfer.archive_reader import open_archive
from retentive.transfer.archive_writer import MANIFEST
from retentive.transfer.restore import import_whole, restore
from retentive.transfer.tar import TarReader, TarWriter

Entries = dict[str, bytes]


def refusal(path: Path) -> RetentiveError | None:
    """Return the error with which a file is refused, and check that nothing of the file was imported."""
    with retentive.open("sqlite://") as target:
        try:
            with open_archive(str(path)) as archive:
                (restore if archive.is_backup else import_whole)(archive, target.backend)
        except RetentiveError as error:
            assert target.stores() == []
            return error
    return None


def read(path: Path) -> Entries:
    """Return the names and bytes of the entries."""
    with path.open("rb") as raw:
        tar = TarReader(raw)
        return {name: tar.read(size) for name, size in tar.entries()}


def write(path: Path, entries: Entries) -> Path:
    """Write a file with these entries."""
    with path.open("wb") as raw:
        tar = TarWriter(raw, compressed=False)
        for name, data in entries.items():
            tar.add(name, len(data), [data], mtime=0)
        tar.finish()
    return path


def listed(entries: Entries) -> Entries:
    """Return the entries with a manifest that lists them correctly."""
    plain = {name: data for name, data in entries.items() if name != MANIFEST}
    head = f"# retentive 1: {len(plain)} entries\n"
    rows = [f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in plain.items()]
    return plain | {MANIFEST: "".join([head, *rows]).encode()}
