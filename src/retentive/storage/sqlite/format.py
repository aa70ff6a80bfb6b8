"""Format of a SQLite file: refuses files of other applications, of newer schemas, and databases that were lost.

The header of the file contains the application id of retentive and the schema version. They are checked before the file
is changed, and before other files are created next to it. Even setting the journal mode would change the file.

It also finds damage of the write-ahead log, by which acknowledged changes would be lost. When no process has the file
open, SQLite reads the log up to the first frame whose checksum is wrong, and the next commit overwrites the rest. So
one flipped bit silently removes all later changes. A wrong frame alone proves nothing: a power cut leaves one too, and
a transaction that was rolled back leaves frames. But a commit is synced before the next frame is written. If a frame
behind the wrong one continues a commit, with the salts of the present log and a right checksum, then that commit was
complete on the disk. Source: sqlite.org/fileformat2.html, section 4.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import closing
from struct import unpack_from

from retentive.errors import Damaged
from retentive.storage.findings import Finding, found
from retentive.storage.sql.connection import Connection
from retentive.storage.sql.schema import is_current
from retentive.storage.sqlite.connection import IMMUTABLE, READ_ONLY, SqliteConnection
from retentive.storage.sqlite.writer import RESERVE_SUFFIX

NEW_SUFFIX = "-new"  # ending of an empty file that exists while the tables of a new database are created
LOG_SUFFIX = "-wal"
_HEADER_BYTES, _FRAME_HEADER_BYTES = 32, 24
_MAGIC = 0x377F0682  # the lowest bit is set if the checksums read words as big-endian
_USUAL_PAGE_BYTES = 4_096
_MOST_FINDINGS = 100
_LOST = (
    "the database is empty, although it was in use: its file, or its write-ahead log with the ending -wal, was emptied"
    " or left behind; put both files back or restore a backup (to begin anew, delete both)"
)
_UNPRINTABLE = re.compile(r"[^\x20-\x7e]")


def check_format(path: str) -> None:
    """Raise `UnknownSchema` if the file at `path` belongs to another application or has a newer schema.

    Raise `Damaged` if the file was a database of memory stores and is empty now. A missing or new file is accepted.
    """
    # Another process may be writing the file, so a damage counts only if it is found twice. While a log is copied into
    # the file, the second look uses SQLite's locks, because it finds the log.
    error = _damage_of_file(path) and _damage_of_file(path)
    if error is not None:
        raise error


def _damage_of_file(path: str) -> Damaged | None:
    try:
        is_lost = _is_lost(path)
    except Damaged as error:
        return error
    return Damaged(_LOST) if is_lost else None


def _is_lost(path: str) -> bool:
    """Return whether the file at `path` is empty or has no tables, although nobody is creating it."""
    if not size_of(path):
        has_log = size_of(path + LOG_SUFFIX) > _HEADER_BYTES
        was_in_use = has_log or (os.path.exists(path) and size_of(path + RESERVE_SUFFIX) > 0)
        return was_in_use and not os.path.exists(path + NEW_SUFFIX)
    # The header is read through SQLite and not by opening the file, because closing a descriptor of the file releases
    # the locks that this process holds on it. Only a transaction that was interrupted needs a connection that writes.
    is_interrupted, has_log = size_of(path + "-journal") > 0, size_of(path + LOG_SUFFIX) > 0
    mode = None if is_interrupted else READ_ONLY if has_log else IMMUTABLE
    with closing(SqliteConnection(path, mode=mode)) as connection:
        return not is_current(connection, "sqlite") and not os.path.exists(path + NEW_SUFFIX)


def integrity(connection: Connection, *, quick: bool = False) -> Iterator[Finding]:
    """Run SQLite's integrity check of pages, rows and indexes, and yield its findings.

    With `quick`, rows and indexes are not compared.
    """
    try:
        rows = connection.rows(f"PRAGMA {'quick' if quick else 'integrity'}_check({_MOST_FINDINGS})")
    except Damaged as error:  # a full disk or a missing permission is no damage
        yield found("file_damaged", None, str(error))
        return
    for line in (line for row in rows for line in str(row[0]).splitlines()[:_MOST_FINDINGS] if line != "ok"):
        yield found("file_damaged", None, _UNPRINTABLE.sub("?", line))


def size_of(path: str) -> int:
    """Return the size of a file, or 0 if there is none."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def check_log(path: str) -> None:
    """Raise `Damaged` if acknowledged changes in the log of the database at `path` would be lost."""
    if _intact_bytes(path) is not None:
        raise Damaged(
            "the write-ahead log of the database is damaged, and acknowledged changes behind the damage would be lost"
            " with the next write; put an intact copy of the file back, restore a backup, or run `retentive doctor` to"
            " see how to go on without these changes"
        )


def log_findings(path: str) -> Iterator[Finding]:
    """Yield a finding if acknowledged changes in the log of the database at `path` would be lost."""
    intact = _intact_bytes(path)
    if intact is not None:
        yield found("log_damaged", None, f"log (intact up to byte {intact})")


def _intact_bytes(path: str) -> int | None:
    """Return the length of the log before its damage, or None if there is none.

    Other processes may write meanwhile, so a damage counts only if a second reading finds the same.
    """
    damage = _damage(path)
    return damage[0] if damage is not None and damage == _damage(path) else None


def _damage(path: str) -> tuple[int, bytes, bytes] | None:
    """Return the length of the log before its damage, its header and the wrong frame."""
    try:
        with open(path + LOG_SUFFIX, "rb") as file:
            log = file.read()
    except OSError:  # there is no log, or SQLite reports the same error
        return None
    if len(log) <= _HEADER_BYTES + _FRAME_HEADER_BYTES:
        return None
    magic, page_bytes, salts = *unpack_from(">I4xI", log), log[16:24]
    orders = ">" if magic & 1 else "<"
    has_header = magic & ~1 == _MAGIC and _checksum(log[:24], orders, (0, 0)) == unpack_from(">2I", log, 24)
    if page_bytes not in {1 << power for power in range(9, 17)}:
        page_bytes = _USUAL_PAGE_BYTES
    if not has_header:
        orders, salts = "<>", log[_HEADER_BYTES + 8 : _HEADER_BYTES + 16]
    size = page_bytes + _FRAME_HEADER_BYTES
    frames = [log[at : at + size] for at in range(_HEADER_BYTES, len(log) - size + 1, size)]

    def follows(number: int) -> bool:
        """Return whether a frame belongs to the present log, and was written behind the frame that is before it."""
        frame, before = frames[number], unpack_from(">2I", frames[number - 1] if number else log, 16 if number else 24)
        data, checksum = frame[:8] + frame[_FRAME_HEADER_BYTES:], unpack_from(">2I", frame, 16)
        return frame[8:16] == salts and any(_checksum(data, order, before) == checksum for order in orders)

    intact = 0
    while has_header and intact < len(frames) and follows(intact):
        intact += 1
    for number in range(intact + 1, len(frames)):
        if any(frames[number - 1][4:8]) and follows(number):  # the frame before it ends a commit
            return _HEADER_BYTES + intact * size if has_header else 0, log[:_HEADER_BYTES], frames[intact]
    return None


def _checksum(data: bytes, order: str, start: tuple[int, ...]) -> tuple[int, int]:
    first, second = start
    words = unpack_from(f"{order}{len(data) // 4}I", data)
    for one, other in zip(words[::2], words[1::2], strict=True):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + other + first) & 0xFFFFFFFF
    return first, second
