"""Kinds of storage that keep a format, and how their bytes get into a file of the corpus and out of it again."""

from __future__ import annotations

import io
import json
import re
import sqlite3
import subprocess
import tarfile
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import obstore.store
import psycopg

import retentive
from retentive import MemoryStore, Retentive
from support import servers
from support.command_line import here
from support.places import place_of
from support.servers.base import HOST, run
from support.servers.mariadb import ask
from support.servers.postgresql import clean_environment, postgresql_bin

Files = dict[str, bytes]
NOW = 1_796_000_000.0
KEYS, EXPECTED, MADE = "keys.json", "expected.json", "made.tar"
NOTES, LONG, SHARED = "/memories/notes.md", "/memories/über/long.md", "team/shared"


def keys_in(folder: Path) -> Path | None:
    return folder / KEYS if (folder / KEYS).exists() else None


def opened(place: str, folder: Path) -> Retentive:
    """Open a location at the time at which the corpus was written, so that nothing of it is too old."""
    return retentive.open(place, clock=lambda: NOW, keys=keys_in(folder))


def fill(place: Retentive) -> None:
    """Write something of each kind: operations, long histories, settings, proposals, records, and two stores."""
    store = place.store().acting_as("user:ann")
    store.change_settings({"audit": True, "review": ["session:web-*"], "keep_versions_days": 0})
    store.create(NOTES, "one\r\ntwo\n\u2028three", actor="session:1")
    for number in range(40):  # enough to be compressed into packs
        store.write(LONG, "".join(f"line {each} of {number}\n" for each in range(number)))
    store.edit(NOTES, "two", "2", source="web:https://example.com/page")
    store.create("/memories/secret.md", "a secret\n")
    (secret,) = store.versions("/memories/secret.md")
    store.delete("/memories/secret.md")
    store.history.redact([secret.id])
    store.create("/memories/old/a.md", "moved\n")
    store.rename("/memories/old", "/memories/new")
    store.create("/memories/web.md", "proposed\n", actor="session:web-1")
    store.undo_by("session:1", mode="force")
    store.create(NOTES, "back\n", actor="session:2")
    store.create("/memories/cited.md", "Written on the way back.\n")
    store.cite("/memories/cited.md", f"{NOTES}#L1")
    place.store(SHARED).create("/memories/team.md", "shared\n")
    store.sweep()


def state(place: Retentive) -> dict[str, Any]:
    """Everything that a person can see of a location: memories, each version with its text, proposals and the audit."""
    return {str(info.key): _of_store(place.store(str(info.key))) for info in place.stores()}


def _of_store(store: MemoryStore) -> dict[str, Any]:
    versions = list(store.versions())
    return {
        "memories": {memory.path: [memory.id, store.read(memory.path)] for memory in store.memories()},
        "versions": [
            [each.id, each.operation, each.path, str(each.actor), each.revision, each.created_at.isoformat()]
            for each in versions
        ],
        "texts": {each.id: store.version_text(each.id) for each in versions if each.sha256 and not each.redacted_at},
        "provenance": {each.id: each.provenance_text for each in versions if each.provenance_text},
        "redacted": [each.id for each in versions if each.redacted_at],
        "proposed": [each.summary for each in store.review.pending()],
        "citations": [[each.path, each.state] for each in store.citations()],
        "audited": [each.operation for each in store.audit.entries()],
        "review": list(store.settings().review),
    }


class Kind(NamedTuple):
    """A kind of storage: how its location is made, how its bytes are read and written, and their format number.

    `number` finds the number in the bytes. `place` names the location inside a directory.
    """

    place: Callable[[Path], str]
    save: Callable[[str, Path], Files]
    load: Callable[[Files, Path], str]
    number: Callable[[Files], int]
    is_sealed: bool = False


def _read(folder: Path) -> Files:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith("-reserve")  # random bytes, made anew when they are missing
    }


def _write(files: Mapping[str, bytes], folder: Path) -> None:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
        (folder / name).chmod(0o600)


def _local(kind: str, number: Callable[[Files], int], *, is_sealed: bool = False) -> Kind:
    def load(files: Files, folder: Path) -> str:
        _write(files, folder)
        return place_of(kind, folder)

    return Kind(lambda folder: place_of(kind, folder), lambda _, folder: _read(folder), load, number, is_sealed)


def _sqlite_number(name: str) -> Callable[[Files], int]:
    return lambda files: int.from_bytes(files[name][60:64], "big")  # user_version in the header of SQLite


def _one_number(pattern: bytes) -> Callable[[Files], int]:
    """Function that finds a number in the bytes of files, where it may occur again and again."""

    def number(files: Files) -> int:
        (found,) = {int(each) for data in files.values() for each in re.findall(pattern, data)}
        return found

    return number


def _server(kind: str, dump: Callable[[str], str], restore: Callable[[str, str], None]) -> Kind:
    def load(files: Files, folder: Path) -> str:
        place = place_of(kind, folder)
        restore(place.rpartition("/")[2], files["dump.sql"].decode())
        return place

    def save(place: str, _: Path) -> Files:
        return {"dump.sql": dump(place.rpartition("/")[2]).encode()}

    number = _one_number(rb"INSERT INTO \S*retentive_schema\S* VALUES \((\d+)\)")
    return Kind(lambda folder: place_of(kind, folder), save, load, number)


def _dump_postgresql(database: str) -> str:
    program = [postgresql_bin() / "pg_dump", "--inserts", "--no-owner"]  # type: ignore[operator] # the server runs
    at = ["-h", HOST, "-p", servers.postgresql().port, "-U", "postgres", database]
    done = subprocess.run(
        list(map(str, [*program, *at])), env=clean_environment(), capture_output=True, text=True, check=True
    )
    return "".join(line for line in done.stdout.splitlines(True) if not line.startswith(("\\", "--")))


def _restore_postgresql(database: str, text: str) -> None:
    with psycopg.connect(servers.postgresql().url(database), autocommit=True) as connection:
        connection.execute(text.encode())


def _dump_mariadb(database: str) -> str:
    at = ["--no-defaults", f"--host={HOST}", f"--port={servers.mariadb().port}", "--user=root"]
    return run(["mariadb-dump", *at, "--hex-blob", "--skip-extended-insert", "--skip-comments", database])


def _restore_mariadb(database: str, text: str) -> None:
    ask(servers.mariadb().port, text, database=database)


def _bucket(place: str) -> obstore.store.S3Store:
    bucket, _, prefix = place.partition("?")[0].removeprefix("s3://").partition("/")
    server = servers.moto()
    return obstore.store.S3Store(
        bucket, prefix=prefix, endpoint=server.endpoint, region=server.region, access_key_id=server.access_key,
        secret_access_key=server.secret_key, client_options={"allow_http": True},
    )  # fmt: skip


def _save_objects(place: str, _: Path) -> Files:
    bucket = _bucket(place)
    names = [each["path"] for page in bucket.list() for each in page]
    return {name: bytes(bucket.get(name).bytes()) for name in names}


def _load_objects(files: Files, folder: Path) -> str:
    place = place_of("s3", folder)
    for name, data in files.items():
        _bucket(place).put(name, data)
    return place


def _archive(words: tuple[str, ...], back: tuple[str, ...], *, is_sealed: bool = False) -> Kind:
    def save(place: str, folder: Path) -> Files:
        keys = keys_in(folder)
        done = here(place, *(["--keys", str(keys)] if keys else []), *words, str(folder / MADE))
        assert done.exit_code == 0, done.output
        return {name: data for name, data in _read(folder).items() if name in {MADE, KEYS}}

    def load(files: Files, folder: Path) -> str:
        _write(files, folder)
        place = place_of("sqlite", folder)
        done = here(place, *back, str(folder / MADE))
        assert done.exit_code == 0, done.output
        return place

    return Kind(lambda folder: place_of("sqlite", folder), save, load, _one_number(rb'\0\{"format":(\d+)'), is_sealed)


KINDS: dict[str, Kind] = {
    "sqlite": _local("sqlite", _sqlite_number("memory.db")),
    "directory": _local("directory", _sqlite_number("memory/.retentive/memory.db")),
    "sealed": _local("sqlite", _one_number(rb'\{"format": (\d+)'), is_sealed=True),
    "export": _archive(("export",), ("import", "--whole")),
    "backup": _archive(("admin", "backup"), ("admin", "restore-backup")),
    "sealed-backup": _archive(("admin", "backup"), ("admin", "restore-backup"), is_sealed=True),
    "postgresql": _server("postgresql", _dump_postgresql, _restore_postgresql),
    "mariadb": _server("mariadb", _dump_mariadb, _restore_mariadb),
    "s3": Kind(
        lambda folder: place_of("s3", folder), _save_objects, _load_objects, _one_number(rb"^retentive \w+ (\d+)\n")
    ),
}
SERVERS = ("postgresql", "mariadb", "s3")


def made(kind: Kind, folder: Path) -> tuple[Files, dict[str, Any]]:
    """Make a location of a kind now. Returns its bytes, and what is in a location that was made from them."""
    first, again = folder / "first", folder / "again"
    first.mkdir()
    again.mkdir()
    place = kind.place(first)
    if kind.is_sealed:
        assert here(place, "--keys", str(first / KEYS), "admin", "encryption", "new").exit_code == 0
    with opened(place, first) as location:
        fill(location)
    files = kind.save(place, first)
    with opened(kind.load(files, again), again) as location:
        return files, state(location)


def packed(files: Files, expected: Mapping[str, Any]) -> bytes:
    """Bytes of a file of the corpus."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w:xz") as tar:
        for name, data in {EXPECTED: json.dumps(expected).encode(), **files}.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return raw.getvalue()


def unpacked(path: Path) -> tuple[Files, dict[str, Any]]:
    """Reverse of `packed`."""
    with tarfile.open(path) as tar:
        files = {each.name: tar.extractfile(each).read() for each in tar}  # type: ignore[union-attr] # all are files
    return files, json.loads(files.pop(EXPECTED))


def shape(files: Files) -> set[str]:
    """Tables, and names of fields, of what was written."""
    found = set[str]()
    for name, data in files.items():
        if name.endswith(".db"):
            found |= _shape_of_sqlite(data)
        elif name.endswith(".sql"):
            found |= {each for each in data.decode().split(";\n") if not each.strip().startswith("INSERT")}
        elif name == MADE:
            found |= {_fields("line", line) for line in data.split(b"\n") if line.lstrip(b"\0").startswith(b"{")}
    return found


def _shape_of_sqlite(data: bytes) -> set[str]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(data[:18] + b"\1\1" + data[20:])  # without its write-ahead log
        tables = {str(row[0]) for row in connection.execute("SELECT sql FROM sqlite_master")}
        return tables | {_fields(*row) for row in connection.execute("SELECT kind, value FROM records")}


def _fields(kind: str, value: bytes | str) -> str:
    try:
        parsed = json.loads(value)
    except ValueError:
        return kind
    return f"{kind} {sorted(parsed) if isinstance(parsed, dict) else type(parsed).__name__}"
