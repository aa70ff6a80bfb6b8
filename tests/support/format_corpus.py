"""Stores of tests/corpus/formats: what each folder contains, and what a memory store is compared by."""

from __future__ import annotations

import io
import re
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from retentive import MemoryStore
from retentive.storage.contract import Version
from retentive.storage.objects.requests import ObjectLocation, Requests
from support.pages import ROOT
from support.servers import MariaServer, PostgresServer, postgresql_bin
from support.servers.base import HOST, program
from support.servers.postgresql import clean_environment

FOLDER = ROOT / "tests" / "corpus" / "formats"
FOLDERS = sorted(FOLDER.iterdir(), key=lambda path: int(path.name)) if FOLDER.exists() else []
DUMPS = ("postgresql", "mariadb")
"""Backends whose stores are in a folder as SQL."""
_VERSION = ("id", "memory_id", "operation", "path", "size_bytes", "sha256", "actor", "created_at", "revision",
            "redacted_at", "redacted_by")  # fmt: skip


def contents(store: MemoryStore) -> dict[str, Any]:
    """The audit log, settings, memories, versions with texts, and proposals of a memory store, as JSON.

    The audit log comes first, since reading the rest may add to it.
    """
    audit = list(store.audit.export())
    settings, versions = store.settings(), list(store.versions())
    proposals = [store.review.show(each.id) for each in store.review.pending()]
    return {
        "audit": audit,
        "key": store.key,
        "name": store.name,
        "settings": {"review": list(settings.review), "audit": settings.audit, "max_memories": settings.max_memories},
        "memories": {each.path: store.read(each.path) for each in store.memories()},
        "versions": [_described(store, each) for each in versions],
        "proposals": [
            {
                "id": each.id,
                "actor": str(each.actor),
                "summary": each.summary,
                "texts": [list(one[1:]) for one in changes],
            }
            for each, changes in proposals
        ],
    }


def _described(store: MemoryStore, version: Version) -> dict[str, Any]:
    found = {name: getattr(version, name) for name in _VERSION}
    found = {name: each if isinstance(each, str | int | None) else str(each) for name, each in found.items()}
    return found | {"text": store.version_text(version.id)}


def packed(files: Mapping[str, bytes]) -> bytes:
    """A tar file with equal bytes for equal files."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return raw.getvalue()


def unpacked(path: Path) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(path) as archive:
        for entry in archive:
            file = archive.extractfile(entry)
            assert file is not None
            yield entry.name, file.read()


def objects(url: str) -> Any:
    """The client of the object storage at a URL, such as `memory://name`."""
    return Requests(ObjectLocation.parse(url)).client(retries=False)


def dumped(name: str, server: PostgresServer | MariaServer, database: str) -> bytes:
    """A database as SQL: the tables, and a statement for each row."""
    if name == "mariadb":
        options = ["--no-defaults", f"--host={HOST}", f"--port={server.port}", "--user=root", "--hex-blob"]
        options += [
            "--skip-comments",
            "--skip-extended-insert",
            "--order-by-primary",
            "--default-character-set=utf8mb4",
        ]
        command, newer = [program("mariadb-dump"), *options, database], rb"\A/\*M!999999.*\n"
    else:
        programs = postgresql_bin()
        assert programs is not None
        options = ["--inserts", "--no-owner", "--no-privileges", "--encoding=UTF8"]
        command, newer = [str(programs / "pg_dump"), *options, server.url(database)], rb"^\\(un)?restrict .*\n"
    dump = subprocess.run(command, env=clean_environment(), capture_output=True, check=True).stdout
    return re.sub(newer, b"", dump, flags=re.MULTILINE)  # commands that older clients do not know


def loaded(name: str, server: PostgresServer | MariaServer, dump: bytes, database: str) -> str:
    """Make a new database from a dump, and return its URL."""
    url = server.new_database(database)
    server.ask(dump.decode(), database=database)
    return url
