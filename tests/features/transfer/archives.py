"""Functions that read and write archives entry by entry, so that tests can damage them."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path

import retentive
from retentive.errors import RetentiveError
from retentive.transfer.archive import MANIFEST, open_archive
from retentive.transfer.restore import restore

Entries = dict[str, bytes]


def refusal(path: Path) -> RetentiveError | None:
    """Return the error with which a file is refused, and check that nothing of the file was imported."""
    with retentive.open("sqlite://") as target:
        try:
            with open_archive(str(path)) as archive:
                restore(archive, target.backend)
        except RetentiveError as error:
            assert target.stores() == []
            return error
    return None


def read(path: Path) -> Entries:
    """Return the names and bytes of the entries."""
    with tarfile.open(path) as tar:
        return {entry.name: tar.extractfile(entry).read() for entry in tar}  # type: ignore[union-attr]


def write(path: Path, entries: Entries) -> Path:
    """Write a file with these entries."""
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as tar:
        for name, data in entries.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def listed(entries: Entries) -> Entries:
    """Return the entries with a manifest that lists them correctly."""
    plain = {name: data for name, data in entries.items() if name != MANIFEST}
    rows = [f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in plain.items()]
    return plain | {MANIFEST: "".join(rows).encode()}


def store_in(entries: Entries) -> str:
    """Return the name of the entry of the first memory store."""
    return next(name for name in entries if name.startswith("stores/"))
