"""Exports and imports memory stores on a server.

The bodies of requests are streamed from files, and the bodies of responses are streamed to files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import IO, TYPE_CHECKING, Unpack, cast

from retentive.remote import objects
from retentive.remote.reading import ImportOptions
from retentive.transfer import lines
from retentive.transfer.archive_reader import Archive, opened_archive
from retentive.transfer.archive_writer import COMPRESSED, spool
from retentive.transfer.contents import digest_of
from retentive.transfer.files import new_file
from retentive.transfer.plain_files import IN_TAR
from retentive.transfer.plain_tar import PlainTarWriter
from retentive.transfer.restore import Restored
from retentive.transfer.tar import CHUNK
from retentive.values.paths import visible_path

if TYPE_CHECKING:
    from retentive.remote.location import RemoteLocation
    from retentive.remote.store import RemoteStore
    from retentive.transfer.import_files import Became, FileOutcome, ReadyFile


def download_archive(store: RemoteStore, path: str, *, records: bool) -> lines.Header:
    """Write the memory store with its history to the new file `path`, and verify the file. Return its header."""
    with new_file(path) as raw:
        store.download(raw, format="tar.gz" if path.endswith(COMPRESSED) else "tar", notes=records)
        with opened_archive(raw) as archive:
            return archive.exported().header


def download_files(store: RemoteStore, raw: IO[bytes]) -> None:
    """Write the memories to `raw` as a tar file of plain files."""
    store.download(raw, format="files", notes=False)
    raw.flush()


def send_files(
    store: RemoteStore, files: Sequence[ReadyFile], texts: IO[bytes], under: str, **options: Unpack[ImportOptions]
) -> tuple[list[FileOutcome], bool]:
    """Import files. Return their outcomes, and whether the changes wait for review."""
    from retentive.transfer.import_files import FileOutcome  # noqa: PLC0415 - it imports this module

    by_name = {visible_path(one.path.text[len(under) + 1 :]): one for one in files}
    with spool() as raw:
        tar = PlainTarWriter(raw)
        tar.directory(IN_TAR)
        for one in files:
            texts.seek(one.start)
            tar.add(IN_TAR + one.path.text[len(under) + 1 :], one.size, [texts.read(one.size)])
        tar.finish()
        found = store.upload(lambda: pieces(raw), under, **options)
    outcomes = [
        FileOutcome(
            by_name[each["name"]].name,
            None if each["path"] is None else objects.tool_path(each["path"]),
            cast("Became", each["outcome"]),
            each["reason"],
        )
        for each in found["files"]
    ]
    return outcomes, found["proposed"]


def send_archive(location: RemoteLocation, archive: Archive, key: str | None) -> Restored:
    """Send an export to a server. The server imports the memory store with its history."""
    header = archive.exported().header
    memories = (memory for memory, _ in archive.exported().memories())
    digest = digest_of(memories)
    found = location.upload(lambda: pieces(archive.raw), key)
    return Restored(
        id=found["memory_store"]["id"],
        key=found["memory_store"]["key"],
        memories=header.memories,
        size_bytes=header.size_bytes,
        versions=header.versions,
        added=found["added_versions"],
        digest=digest,
    )


def pieces(raw: IO[bytes]) -> Iterator[bytes]:
    """Yield the bytes of a file from its beginning."""
    raw.seek(0)
    return iter(lambda: raw.read(CHUNK), b"")
