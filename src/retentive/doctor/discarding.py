"""Deletes orphaned data that the doctor found. A copy of the data is first saved in a new private file."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import time
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from retentive.errors import InvalidInput
from retentive.locations import is_in_memory, parse_location
from retentive.storage import capabilities
from retentive.storage.contract import Backend, Transaction
from retentive.storage.disk import CLOSE_ON_EXEC, FILE_MODE, make_directory, os_error, sync_directory
from retentive.storage.findings import Finding
from retentive.storage.sqlite.log import LOG_SUFFIX, cut_log


class SavedCopies:
    """File with copies of discarded rows, one JSON object a line. Bytes are encoded as base64.

    The file is created in `directory` when the first row is saved. It never overwrites another file.
    """

    def __init__(self, directory: str) -> None:
        self.path = os.path.join(directory, _new_name("jsonl"))

    def keep(self, finding: str, table: str, row: Mapping[str, str | int | bytes | None]) -> None:
        """Append a row to the file. The row is on disk when this method returns. Raises the errors of storage."""
        plain = {name: {"base64": b64encode(each).decode()} if isinstance(each, bytes) else each
                 for name, each in row.items()}  # fmt: skip
        line = json.dumps({"finding": finding, "table": table, "row": plain}) + "\n"
        try:
            is_new = not os.path.exists(self.path)
            make_directory(os.path.dirname(self.path))
            flags = os.O_WRONLY | os.O_APPEND | (os.O_CREAT | os.O_EXCL if is_new else 0) | CLOSE_ON_EXEC
            with os.fdopen(os.open(self.path, flags, FILE_MODE), "w", encoding="utf-8") as file:
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
            if is_new:
                sync_directory(os.path.dirname(self.path))
        except OSError as error:
            raise os_error(error) from None


def _new_name(ending: str) -> str:
    return f"discarded-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{secrets.token_hex(4)}.{ending}"


def discard_log(database: str, directory: str) -> None:
    """Copy the write-ahead log of a SQLite file to `directory`, then cut the log before its damage."""
    try:
        make_directory(directory)
        copy = os.path.join(directory, _new_name("wal"))
        with (
            open(database + LOG_SUFFIX, "rb") as log,
            os.fdopen(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | CLOSE_ON_EXEC, FILE_MODE), "wb") as file,
        ):
            shutil.copyfileobj(log, file)
            file.flush()
            os.fsync(file.fileno())
        sync_directory(directory)
    except OSError as error:
        raise os_error(error) from None
    cut_log(database)


def default_directory(location: str) -> str | None:
    """Return the default directory for copies of discarded data: inside the location, or beside a SQLite database.

    Returns None for an in-memory database, a database server and object storage.
    """
    scheme, rest = parse_location(location)
    if scheme is None:
        from retentive.storage.files.layout import PRIVATE  # noqa: PLC0415 - needs Linux or macOS

        return os.path.join(rest, PRIVATE, "discarded")
    return None if scheme != "sqlite" or is_in_memory(location) else f"{rest.removeprefix('/')}-discarded"


def named(findings: Iterable[Finding], names: Sequence[str]) -> list[Finding]:
    """Return the findings with these names. Raises `InvalidInput` if one has no data to discard or does not exist."""
    known = {finding.name: finding for finding in findings if finding.kind.discards}
    for name in names:
        if name not in known:
            there = ", ".join(sorted(known)) or "none"
            raise InvalidInput(
                f"there is no finding {name!r} whose data can be discarded; findings with such data: {there}"
            )
    return [known[name] for name in dict.fromkeys(names)]


def discard(backend: Backend, finding: Finding, copies: SavedCopies) -> None:
    """Save a copy of the data that a finding reports, then delete the data.

    Raises `InvalidInput` if the data is in use or cannot be deleted.
    """
    keep = partial(copies.keep, finding.name)
    if finding.code == "proposal_text_left":
        _discard_record(backend, finding, keep)
    else:
        capabilities.discard(backend, finding, keep)


def _discard_record(backend: Backend, finding: Finding, keep: capabilities.Keep) -> None:
    """Save a copy of a record in its stored form, then delete the record. Copies of encrypted records are encrypted."""
    while backend.inner is not None:
        backend = backend.inner
    kind, _, key = finding.subject.partition(" ")

    def work(tx: Transaction) -> None:
        value = tx.get_record(kind, key)
        if value is not None:
            keep("records", {"store": finding.store_id, "kind": kind, "name": key, "value": value})
            tx.put_record(kind, key, None)

    backend.write(str(finding.store_id), work, may_use_reserve=True)
