"""Proof that the write-ahead log of a SQLite file has lost changes that were acknowledged.

When no process has the file open, SQLite reads the log up to the first frame whose checksum is wrong, and the next
commit overwrites the rest. So one flipped bit silently removes all later changes. A wrong frame alone proves nothing: a
power cut leaves one too, and a transaction that was rolled back leaves frames. But a commit is synced before the next
frame is written. If a frame behind the wrong one continues a commit, with the salts of the present log and a right
checksum, then that commit was complete on the disk.

Source: sqlite.org/fileformat2.html, section 4 (the header of the log, its frames and their checksums).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from struct import Struct, unpack

from retentive.errors import Damaged
from retentive.storage.disk import os_error

LOG_SUFFIX = "-wal"
_HEADER, _FRAME = Struct(">8I"), Struct(">6I")
_MAGIC = 0x377F0682  # the lowest bit is set if the checksums read words as big-endian
_USUAL_PAGE_BYTES = 4_096
_DAMAGED = (
    "the write-ahead log of the database is damaged, and acknowledged changes behind the damage would be lost with the"
    " next write; put an intact copy of the file back, restore a backup, or run `retentive doctor` to see how to go on"
    " without these changes"
)


@dataclass(frozen=True, slots=True)
class LogDamage:
    """Damage in a log. `intact_bytes` is the length of the part before it, and `header` the header of the log."""

    intact_bytes: int
    header: bytes
    frame: bytes


def check_log(path: str) -> None:
    """Raise `Damaged` if the log of the database at `path` has lost changes, or if the database itself is lost."""
    if log_damage(path) is not None:
        raise Damaged(_DAMAGED)
    if _size(path + LOG_SUFFIX) > _HEADER.size and not _size(path):
        raise Damaged(
            "the database file is missing or empty, but its write-ahead log has changes; put the database file back or"
            " restore a backup (to begin anew, first delete the file with the ending -wal)"
        )


def log_damage(path: str) -> LogDamage | None:
    """Return the damage by which acknowledged changes in the log of the database at `path` were lost, or None.

    Other processes may write meanwhile, so a damage counts only if a second reading finds the same.
    """
    found = _found(path)
    return found if found is not None and found == _found(path) else None


def cut_log(path: str) -> None:
    """Remove the damage, and all that is behind it, from the log of the database at `path`."""
    damage = log_damage(path)
    if damage is not None:
        try:
            with open(path + LOG_SUFFIX, "r+b") as file:
                file.truncate(damage.intact_bytes)
                os.fsync(file.fileno())
        except OSError as error:
            raise os_error(error) from None


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def _found(path: str) -> LogDamage | None:
    try:
        with open(path + LOG_SUFFIX, "rb") as file:
            log = file.read()
    except OSError:  # there is no log, or SQLite reports the same error
        return None
    if len(log) <= _HEADER.size + _FRAME.size:
        return None
    magic, _, page_bytes, _, *salts, first, second = _HEADER.unpack_from(log)
    order = ">" if magic & 1 else "<"
    has_header = magic & ~1 == _MAGIC and _checksum(log[:24], order, (0, 0)) == (first, second)
    if page_bytes not in {1 << power for power in range(9, 17)}:
        page_bytes = _USUAL_PAGE_BYTES
    if not has_header:
        salts = list(_FRAME.unpack_from(log, _HEADER.size)[2:4])
    frames = _Frames(log, page_bytes + _FRAME.size, tuple(salts))
    intact = 0
    while has_header and frames.follows(intact, order):
        intact += 1
    orders = (order,) if has_header else ("<", ">")
    if not any(frames.is_commit(each - 1) and frames.follows(each, order) for order in orders
               for each in range(intact + 1, frames.count)):  # fmt: skip
        return None
    at = _HEADER.size + intact * frames.size
    return LogDamage(at if has_header else 0, log[: _HEADER.size], log[at : at + frames.size])


@dataclass(frozen=True, slots=True)
class _Frames:
    log: bytes
    size: int
    salts: tuple[int, ...]

    @property
    def count(self) -> int:
        return (len(self.log) - _HEADER.size) // self.size

    def is_commit(self, number: int) -> bool:
        return bool(_FRAME.unpack_from(self.log, _HEADER.size + number * self.size)[1])

    def follows(self, number: int, order: str) -> bool:
        """Return whether a frame belongs to the present log, and was written behind the frame that is before it."""
        if number >= self.count:
            return False
        at = _HEADER.size + number * self.size
        header = _FRAME.unpack_from(self.log, at)
        if header[2:4] != self.salts:
            return False
        before = unpack(">2I", self.log[at - self.size + 16 : at - self.size + 24] if number else self.log[24:32])
        data = self.log[at : at + 8] + self.log[at + _FRAME.size : at + self.size]
        return bool(_checksum(data, order, before) == header[4:6])


def _checksum(data: bytes, order: str, start: tuple[int, ...]) -> tuple[int, int]:
    first, second = start
    words = unpack(f"{order}{len(data) // 4}I", data)
    for one, other in zip(words[::2], words[1::2], strict=True):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + other + first) & 0xFFFFFFFF
    return first, second
