"""The hash chain of an audit log. Each memory store has one chain, stored as records.

An entry is one line of canonical JSON that contains the hash of the previous entry, so changing, removing or inserting
an entry breaks the chain. The paths of an operation are stored in a separate record; the entry contains only their
salted digest. When a memory is erased, its path can therefore be removed from the log without breaking the chain.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from itertools import islice, takewhile
from typing import NamedTuple

from retentive.errors import Damaged, InvalidInput
from retentive.storage.contract import Snapshot, Transaction, to_datetime
from retentive.values.pages import ListPage
from retentive.values.paths import ancestors
from retentive.values.records import Recorded

ENTRY, HEAD, DETAIL = "audit", "audit.head", "audit.detail"
"""Kinds of records: entries and details have the entry number as key; there is one record for the head of the chain."""
FIRST = "0" * 64  # hash of the previous entry, as stored in the first entry
LISTED_CHANGES = 500  # for more versions, an entry lists the first and the last, and contains their number and a digest
_ENDS = 2  # number of versions listed if there are too many: the first and the last
_HEAD_KEY = "head"
_DIGITS = 12  # digits of the entry number in a key, so that keys sort as numbers
_HEAD = re.compile(r"([0-9]{1,12}):([0-9a-f]{64})", re.ASCII)


class Head(NamedTuple):
    """Last entry of a chain, identified by its number (from 1) and its hash. Its text form is `SEQ:HASH`."""

    seq: int
    hash: str

    @classmethod
    def parse(cls, text: str) -> Head:
        """Parse a head written as `SEQ:HASH`. Raises `InvalidInput`."""
        found = _HEAD.fullmatch(text)
        if found is None:
            raise InvalidInput("an audit head must have the form SEQ:HASH, as printed by `retentive audit verify`")
        return cls(int(found[1]), found[2])

    def __str__(self) -> str:
        return f"{self.seq}:{self.hash}"


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One operation: time, actor, name, integration, and the code of its outcome (`ok` without an error).

    - `changes`: the memories and versions that the operation created. If there are more than 500, only the first and
      the last are listed.
    - `change_count`: the number of versions that the operation created.
    - `paths`: the paths of the operation; None if they were removed because the memory was erased.
    - `read`: the version that a view showed. `listed`: true for a view of a directory.
    - `repeated`: true if the call was a retry and got the reply of the first call. `proposed`: true if the changes
      await review.
    - `audit`: the new value of the setting `audit`, if the operation changed it.
    - `newest`: the newest version when the entry was written. It shows which versions are older than the entry, and is
      recorded only in the first entry and in entries with `audit`.
    - `withheld`: the numbers of earlier entries whose paths the operation removed from the log.
    - `facts`: further fields, such as the names of changed settings.
    """

    seq: int
    time: datetime
    actor: str | None
    operation: str | None
    integration: str
    outcome: str
    changes: tuple[Recorded, ...] = ()
    change_count: int = 0
    paths: tuple[str, ...] | None = ()
    read: Recorded | None = None
    listed: bool = False
    repeated: bool = False
    proposed: bool = False
    audit: bool | None = None
    newest: str | None = None
    withheld: tuple[int, ...] = ()
    hash: str = ""
    facts: Mapping[str, object] = field(default_factory=dict)

    def covers(self, version_id: str) -> bool:
        """Return whether the entry lists this version."""
        if len(self.changes) == self.change_count:
            return any(change.version_id == version_id for change in self.changes)
        return self.changes[0].version_id <= version_id <= self.changes[-1].version_id


def key_of(seq: int) -> str:
    """Record key of an entry."""
    return f"{seq:0{_DIGITS}}"


def seq_of(key: str) -> int:
    """Entry number of a record key; 0 for a key that retentive did not write."""
    return int(key) if len(key) == _DIGITS and key.isascii() and key.isdecimal() else 0


def canonical(value: object) -> str:
    """Canonical JSON of a value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def entry_hash(store_id: str, body: Mapping[str, object]) -> str:
    """Hash of an entry, computed from the fields of the entry, the hash of the previous entry, and the store id."""
    return hashlib.sha256(canonical({**body, "store": store_id}).encode()).hexdigest()


def head_of(snapshot: Snapshot) -> Head:
    """Head of the chain. Raises `InvalidInput` if the record of the head is damaged."""
    text = snapshot.get_record(HEAD, _HEAD_KEY)
    return Head(0, FIRST) if text is None else Head.parse(text)


def newest_entries(snapshot: Snapshot, before: str, limit: int) -> ListPage[AuditEntry, str]:
    """Entries with keys lower than `before` (empty for the newest), newest first, and `before` for the next page.

    Reads at most the records of two pages. Records that cannot be parsed are skipped.
    """
    try:
        last = seq_of(before) - 1 if before else head_of(snapshot).seq
    except InvalidInput:  # `verify` reports the malformed head
        last = 0
    first = max(last - limit, 0)
    found = islice(snapshot.records(ENTRY, after=key_of(first), limit=2 * limit), 2 * limit)
    records = [(key, value) for key, value in found if not before or key < before][-limit:]
    items = _with_details(snapshot, records)[::-1]
    return ListPage(tuple(items), key_of(first + 1) if first else None)


def oldest_entries(snapshot: Snapshot, after: str, limit: int) -> ListPage[AuditEntry, str]:
    """Entries with keys greater than `after`, oldest first, and `after` for the next page.

    Reads one record more than a page. Records that cannot be parsed are skipped.
    """
    records = list(snapshot.records(ENTRY, after=after, limit=limit + 1))
    items = _with_details(snapshot, records[:limit])
    return ListPage(tuple(items), records[limit - 1][0] if len(records) > limit else None)


def _with_details(snapshot: Snapshot, records: Sequence[tuple[str, str]]) -> list[AuditEntry]:
    """Parse adjacent entries with the detail records in the same range."""
    if not records:
        return []
    first, last = records[0][0], records[-1][0]
    before = key_of(max(seq_of(first) - 1, 0))
    span = snapshot.records(DETAIL, after=before, limit=len(records) + 1)
    details = dict(takewhile(lambda each: each[0] <= last, span))
    found = (parsed(value, details.get(key)) for key, value in records)
    return [entry for entry in found if entry is not None]


def append(tx: Transaction, store_id: str, body: Mapping[str, object], paths: Sequence[str]) -> int:
    """Append an entry to the chain in `tx`, the transaction of the audited operation.

    Returns the number of the entry.
    """
    head = head_of(tx)
    seq, detail = head.seq + 1, None
    if paths:
        detail = canonical({"paths": list(paths), "salt": os.urandom(16).hex()})
        tx.put_record(DETAIL, key_of(seq), detail)
    whole = {**body, "seq": seq, "prev": head.hash}
    if head.seq == 0 or "audit" in body:
        newest = next(tx.versions(limit=1), None)
        whole["newest"] = "" if newest is None else newest.id
    if detail is not None:
        whole["detail"] = digest_of_detail(detail)
    digest = entry_hash(store_id, whole)
    tx.put_record(ENTRY, key_of(seq), canonical({**whole, "hash": digest}))
    tx.put_record(HEAD, _HEAD_KEY, str(Head(seq, digest)))
    return seq


def has_entry(snapshot: Snapshot, seq: int, entry_id: str) -> bool:
    """Return whether the entry with this number has this id.

    True means that a commit with an unknown outcome succeeded.
    """
    text = snapshot.get_record(ENTRY, key_of(seq))
    return text is not None and json.loads(text).get("id") == entry_id


def changes_field(recorded: Sequence[Recorded]) -> dict[str, object]:
    """Fields of an entry that list the versions which the operation created."""
    if not recorded:
        return {}
    if len(recorded) <= LISTED_CHANGES:
        return {"changes": [list(each) for each in recorded]}
    ids = [each.version_id for each in recorded]
    digest = hashlib.sha256("\n".join(sorted(ids)).encode()).hexdigest()
    ends = (min(recorded, key=lambda each: each.version_id), max(recorded, key=lambda each: each.version_id))
    return {"changes": [list(each) for each in ends], "count": len(ids), "versions_sha256": digest}


def digest_of_detail(detail: str) -> str:
    """Digest of a detail record, as stored in its entry."""
    return hashlib.sha256(detail.encode()).hexdigest()


def withhold(tx: Transaction, paths: Collection[str]) -> list[int]:
    """Remove the detail records that contain one of these paths or the path of a deleted directory above one of them.

    Returns the numbers of their entries.
    """
    above = {each for path in paths for each in ancestors(path)}
    names = {*paths, *(each for each in above if not tx.get(each).exists)}
    found = ((seq_of(key), detail) for key, detail in tx.records(DETAIL))
    gone = [seq for seq, detail in found if seq and not names.isdisjoint(paths_of_detail(detail) or ())]
    for seq in gone:
        tx.put_record(DETAIL, key_of(seq), None)
    return gone


def paths_of_detail(detail: str | None) -> tuple[str, ...] | None:
    """Paths in a detail record; None for a missing or damaged record."""
    try:
        return tuple(_text(path) for path in json.loads(detail or "")["paths"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def parsed(value: str, detail: str | None = None) -> AuditEntry | None:
    """Parse an entry from its record without checking its hash. None if the record is not an entry."""
    try:
        said = json.loads(value)
        changes = tuple(_recorded(each) for each in said.get("changes", ()))
        change_count = int(said.get("count", len(changes)))
        if change_count != len(changes) and not (len(changes) == _ENDS < change_count):
            return None
        switched = said.get("audit")
        if switched is not None and not isinstance(switched, bool):
            return None
        return AuditEntry(
            seq=int(said["seq"]),
            time=to_datetime(int(said["time"])),
            actor=_text_or_none(said.get("actor")),
            operation=_text_or_none(said.get("operation")),
            integration=_text(said["integration"]),
            outcome=_text(said["outcome"]),
            changes=changes,
            change_count=change_count,
            paths=paths_of_detail(detail) if "detail" in said else (),
            read=_recorded(said["read"]) if "read" in said else None,
            listed=bool(said.get("listed")),
            repeated=bool(said.get("repeated")),
            proposed=bool(said.get("proposed")),
            audit=switched,
            newest=_text_or_none(said.get("newest")),
            withheld=tuple(int(seq) for seq in said.get("withheld", ())),
            hash=_text(said["hash"]),
            facts={name: value for name, value in said.items() if name not in _FIELDS},
        )
    except (Damaged, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


_FIELDS = {each.name for each in fields(AuditEntry)} | {"id", "count", "versions_sha256", "detail", "prev"}


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    value.encode()  # raises for lone surrogates
    return value


def _text_or_none(value: object) -> str | None:
    return None if value is None else _text(value)


def _recorded(value: Sequence[object]) -> Recorded:
    return Recorded(*(_text(each) for each in value))
