"""Hash chain of an audit log. Each memory store has one chain, stored as records.

An entry is one line of canonical JSON that contains the hash of the previous entry. If an entry is changed, removed or
inserted, the hashes no longer match.

The paths of an operation and the hashes of the versions that it recorded are in lines below the entry, which contains
only salted digests of these lines. When a memory is erased, they can therefore be removed from the log without changing
the entry.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import NamedTuple

from retentive.errors import Damaged, InvalidInput
from retentive.storage.contract import Snapshot, Transaction, Version, to_datetime
from retentive.values.listing import ListPage
from retentive.values.paths import ancestors, is_within
from retentive.values.records import Recorded, to_us
from retentive.values.settings import from_text
from retentive.values.text import digest

ENTRY, HEAD = "audit", "audit.head"
"""Record kinds. Entries have the entry number as key. One record contains the head of the chain."""
FIRST = "0" * 64  # the first entry contains this instead of the hash of a previous entry
_HEAD_KEY = "head"
_DIGITS = 12  # digits of the entry number in a key, so that keys sort as numbers
_HEAD = re.compile(r"([0-9]{1,12}):([0-9a-f]{64})", re.ASCII)


class Head(NamedTuple):
    """Number and hash of the last entry of an audit log. The first entry has number 1. Text form: `SEQ:HASH`."""

    seq: int
    hash: str

    @classmethod
    def parse(cls, text: str) -> Head:
        """Parse a head written as `SEQ:HASH`. Raises `InvalidInput`."""
        found = _HEAD.fullmatch(text)
        if found is None:
            raise InvalidInput(
                "an audit head must have the form SEQ:HASH, as printed by `retentive admin audit verify`"
            )
        return cls(int(found[1]), found[2])

    def __str__(self) -> str:
        return f"{self.seq}:{self.hash}"


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """Entry of the audit log for one operation.

    - `outcome`: `ok`, or the error code of the operation.
    - `changes`: ids of the versions that the operation recorded, with the ids of their memories.
    - `paths`: paths of the operation. None if the paths were removed from the log after a memory was redacted or
      erased.
    - `read`: version that the operation read, if it viewed a memory.
    - `reads`: versions whose texts a search or a list returned.
    - `hashes`: hash of each version that was recorded, by its id. None if they were removed from the log.
    - `listed`: true if the operation viewed a directory.
    - `repeated`: true if the call was a retry and got the reply of the first call.
    - `proposed`: true if the changes wait for review.
    - `audit`: new value of the setting `audit`, if the operation changed this setting.
    - `newest`: id of the newest version when the entry was written, so that later versions can be recognised. Only the
      first entry and entries with `audit` have this field.
    - `settings_sha256`: digest of the stored settings after the operation. Only the first entry and entries of changed
      settings have this field, and only while the stored setting `audit` is on.
    - `withheld`: numbers of earlier entries whose paths the operation removed from the log.
    - `facts`: other fields, such as the names of changed settings.
    """

    seq: int
    time: datetime
    actor: str | None
    operation: str | None
    integration: str
    outcome: str
    changes: tuple[Recorded, ...] = ()
    paths: tuple[str, ...] | None = ()
    read: Recorded | None = None
    reads: tuple[Recorded, ...] = ()
    hashes: Mapping[str, str] | None = field(default_factory=dict)
    listed: bool = False
    repeated: bool = False
    proposed: bool = False
    audit: bool | None = None
    newest: str | None = None
    settings_sha256: str | None = None
    withheld: tuple[int, ...] = ()
    hash: str = ""
    facts: Mapping[str, object] = field(default_factory=dict)


def key_of(seq: int) -> str:
    """Return the key of the record that contains the entry with the number `seq`."""
    return f"{seq:0{_DIGITS}}"


def seq_of(key: str) -> int:
    """Return the entry number in a record key, or 0 for a key that retentive did not write."""
    return int(key) if len(key) == _DIGITS and key.isascii() and key.isdecimal() else 0


def canonical(value: object) -> str:
    """Return the canonical JSON of a value: sorted names and no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def entry_hash(store_id: str, body: Mapping[str, object]) -> str:
    """Return the hash of an entry with the fields `body`. `body` includes the hash of the previous entry."""
    return digest(canonical({**body, "store": store_id}))


def version_hash(version: Version) -> str:
    """Return the SHA-256 of what is recorded of a version, in hexadecimal. It stays the same until a redaction."""
    origin, by = version.provenance, str(version.actor or "")
    text = version.path, version.size_bytes, version.sha256
    facts = version.id, version.memory_id, version.operation, *text, by, to_us(version.created_at)
    return digest(canonical([*facts, origin.session, origin.source, origin.tool_use_id]))


def head_of(snapshot: Snapshot) -> Head:
    """Return the number and hash of the last entry of the audit log. Raises `InvalidInput` if they are malformed."""
    text = snapshot.get_record(HEAD, _HEAD_KEY)
    return Head(0, FIRST) if text is None else Head.parse(text)


def entries_page(
    snapshot: Snapshot, cursor: str, limit: int, *, newest_first: bool = True
) -> ListPage[AuditEntry, str]:
    """Return a page of the entries before the record key `cursor`, newest first, or after it, oldest first.

    An empty cursor stands for the beginning. `next` is the cursor of the next page. Records that cannot be parsed are
    skipped, so a page may have fewer than `limit` entries.
    """
    if newest_first:
        try:
            last = seq_of(cursor) - 1 if cursor else head_of(snapshot).seq
        except InvalidInput:  # `verify` reports the malformed head
            last = 0
        first = max(last - limit, 0)
        records = list(snapshot.records(ENTRY, after=key_of(first), limit=min(limit, last) or limit))[::-1]
        following = key_of(first + 1) if first else None
    else:
        records = list(snapshot.records(ENTRY, after=cursor, limit=limit + 1))
        following = records[limit - 1][0] if len(records) > limit else None
    found = tuple(entry for _, value in records[:limit] if (entry := parsed(value)) is not None)
    return ListPage(found, following)


def stored_entries(snapshot: Snapshot, since: datetime | None = None) -> list[tuple[str, AuditEntry]]:
    """Return the entries written at `since` or later (default: all), oldest first. Malformed records are skipped.

    Each item is a pair: the stored JSON, and the parsed entry.
    """
    found = ((value.partition("\n")[0], parsed(value)) for _, value in snapshot.records(ENTRY))
    return [(line, entry) for line, entry in found if entry is not None and (since is None or entry.time >= since)]


def append(
    tx: Transaction,
    store_id: str,
    body: Mapping[str, object],
    paths: Sequence[str],
    hashes: Mapping[str, str] | None = None,
) -> int:
    """Append an entry with the fields `body` to the audit log, and return its number.

    `paths` are the paths of the operation, and `hashes` those of versions, by id. They are written to lines of
    their own, so they can be removed later.
    """
    head, settings = head_of(tx), tx.state.settings
    whole: dict[str, object] = {**body, "seq": head.seq + 1, "prev": head.hash}
    if head.seq == 0 or "audit" in body:
        newest = next(tx.versions(limit=1), None)
        whole["newest"] = "" if newest is None else newest.id
    if (head.seq == 0 or "settings" in body) and from_text(settings).audit:
        whole["settings_sha256"] = digest(f"settings {settings or ''}")
    lines = [
        (field, canonical({name: value, "salt": os.urandom(16).hex()}))
        for field, name, value in (("detail", "paths", list(paths)), ("hashes", "hashes", dict(hashes or {})))
        if value
    ]
    whole |= {field: digest(line) for field, line in lines}
    whole["hash"] = entry_hash(store_id, whole)
    tx.put_record(ENTRY, key_of(head.seq + 1), "\n".join([canonical(whole), *(line for _, line in lines)]))
    tx.put_record(HEAD, _HEAD_KEY, f"{head.seq + 1}:{whole['hash']}")
    return head.seq + 1


def withhold(
    view: Snapshot, paths: Collection[str], *, directory: str | None = None, ids: Collection[str] = ()
) -> tuple[list[int], list[tuple[str, str, str | None]]]:
    """Return the records without the paths of all audit entries that name one of `paths`, or a path in `directory`.

    The same applies to entries that name a deleted directory above one of `paths`, or anything below one of these
    places, unless a memory with a history has that path. Entries that recorded one of the versions `ids` lose the
    hashes. The entries themselves stay unchanged, because paths and hashes are in lines of their own. The first result
    has the numbers of the entries.
    """
    above = {each for path in paths for each in ancestors(path)}
    names = {*paths, *(each for each in above if not view.get(each).exists)}

    def is_removed(path: str) -> bool:
        if path in names or (directory is not None and is_within(path, directory)):
            return True
        return not names.isdisjoint(ancestors(path)) and next(view.versions(path=path, limit=1), None) is None

    def is_kept(line: str) -> bool:
        named, hashes = _named_in(line)
        return not any(map(is_removed, named or ())) and (hashes or {}).keys().isdisjoint(ids)

    gone = list[tuple[str, str, str | None]]()
    for key, value in view.records(ENTRY):
        entry, *lines = value.split("\n")
        kept = list(filter(is_kept, lines))
        if kept != lines:
            gone.append((ENTRY, key, "\n".join([entry, *kept])))
    return [seq_of(key) for _, key, _ in gone], gone


def versions_in(entry: AuditEntry) -> tuple[Recorded, ...]:
    """Return the versions that an operation read or recorded."""
    return (*entry.changes, *(() if entry.read is None else (entry.read,)), *entry.reads)


def parsed(value: str) -> AuditEntry | None:
    """Parse the record of an entry, without checking its hash. Return None if `value` is not an entry."""
    try:
        line, *below = value.split("\n")
        named = [*map(_named_in, below)]
        said = json.loads(line)
        switched = said.get("audit")
        if switched not in {None, True, False}:
            return None
        return AuditEntry(
            seq=int(said["seq"]),
            time=to_datetime(int(said["time"])),
            actor=_text_or_none(said.get("actor")),
            operation=_text_or_none(said.get("operation")),
            integration=_text(said["integration"]),
            outcome=_text(said["outcome"]),
            changes=tuple(_recorded(each) for each in said.get("changes", ())),
            paths=next((paths for paths, _ in named if paths), None) if "detail" in said else (),
            read=_recorded(said["read"]) if "read" in said else None,
            reads=tuple(_recorded(each) for each in said.get("reads", ())),
            hashes=next((hashes for _, hashes in named if hashes), None) if "hashes" in said else {},
            listed=bool(said.get("listed")),
            repeated=bool(said.get("repeated")),
            proposed=bool(said.get("proposed")),
            audit=switched,
            newest=_text_or_none(said.get("newest")),
            settings_sha256=_text_or_none(said.get("settings_sha256")),
            withheld=tuple(int(seq) for seq in said.get("withheld", ())),
            hash=_text(said["hash"]),
            facts={name: value for name, value in said.items() if name not in _FIELDS},
        )
    except (Damaged, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


_FIELDS = {each.name for each in fields(AuditEntry)} | {"id", "detail", "prev"}


def _named_in(line: str) -> tuple[tuple[str, ...] | None, dict[str, str] | None]:
    """Return the paths or the hashes in a line below an entry. Both are None if it is damaged."""
    try:
        said = json.loads(line)
        if "hashes" in said:
            return None, {_text(version): _text(hash_) for version, hash_ in said["hashes"].items()}
        return tuple(_text(path) for path in said["paths"]), None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None, None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    value.encode()  # raises for lone surrogates
    return value


def _text_or_none(value: object) -> str | None:
    return None if value is None else _text(value)


def _recorded(value: Sequence[object]) -> Recorded:
    return Recorded(*(_text(each) for each in value))
