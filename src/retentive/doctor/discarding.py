"""Deletion of the data that findings report. A copy of the data is saved first, in a new private file."""

from __future__ import annotations

import json
import os
import secrets
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


class SavedCopies:
    """New file in `directory`, with a JSON line for each discarded row. Bytes are base64. Never overwrites a file."""

    def __init__(self, directory: str) -> None:
        name = f"discarded-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{secrets.token_hex(4)}.jsonl"
        self.path = os.path.join(directory, name)

    def keep(self, finding: str, table: str, row: Mapping[str, str | int | bytes | None]) -> None:
        """Append a row; it is on disk when this returns. Raises the errors of storage."""
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


def default_directory(location: str) -> str | None:
    """Directory for the copies of a location on this machine; None for a server."""
    scheme, rest = parse_location(location)
    if scheme is None:
        from retentive.storage.files.layout import PRIVATE  # noqa: PLC0415 - needs Linux or macOS

        return os.path.join(rest, PRIVATE, "discarded")
    return None if scheme != "sqlite" or is_in_memory(location) else f"{rest.removeprefix('/')}-discarded"


def named(findings: Iterable[Finding], names: Sequence[str]) -> list[Finding]:
    """The findings with these names. Raises `InvalidInput` if a name is unknown or its data cannot be discarded."""
    known = {finding.name: finding for finding in findings if finding.kind.discards}
    for name in names:
        if name not in known:
            there = ", ".join(sorted(known)) or "no such data"
            raise InvalidInput(
                f"there is no finding {name!r} that can be discarded; findings that can be discarded: {there}"
            )
    return [known[name] for name in dict.fromkeys(names)]


def discard(backend: Backend, finding: Finding, copies: SavedCopies) -> None:
    """Save a copy of a finding's data, then delete it. Raises `InvalidInput` if it is in use or cannot be deleted."""
    keep = partial(copies.keep, finding.name)
    if finding.code == "proposal_text_left":
        _discard_record(backend, finding, keep)
    else:
        capabilities.discard(backend, finding, keep)


def _discard_record(backend: Backend, finding: Finding, keep: capabilities.Keep) -> None:
    """Discard a record in its stored form. The copy of an encrypted record stays encrypted."""
    while backend.inner is not None:
        backend = backend.inner
    kind, _, key = finding.subject.partition(" ")

    def work(tx: Transaction) -> None:
        value = tx.get_record(kind, key)
        if value is not None:
            keep("records", {"store": finding.store_id, "kind": kind, "name": key, "value": value})
            tx.put_record(kind, key, None)

    backend.write(str(finding.store_id), work, may_use_reserve=True)
