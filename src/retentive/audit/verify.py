"""Verification of an audit log: every entry is present, unchanged and in order."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from retentive.audit.chain import (
    DETAIL,
    ENTRY,
    FIRST,
    AuditEntry,
    Head,
    canonical,
    digest_of_detail,
    entry_hash,
    head_of,
    parsed,
    seq_of,
)
from retentive.errors import Damaged, InvalidInput
from retentive.storage.contract import Snapshot, Version
from retentive.values.records import EXTERNAL

What: TypeAlias = Literal["altered", "missing", "reordered", "unknown", "detail altered", "detail missing"]


@dataclass(frozen=True, slots=True)
class Problem:
    """The first entry that differs from the one that was written: its number and the kind of difference."""

    what: What
    seq: int

    def __str__(self) -> str:
        return f"entry {self.seq}: {self.what}"


@dataclass(frozen=True, slots=True)
class Verified:
    """Result of a verification: the number of entries, the first problem, and the head of the chain.

    Keep a copy of `head` elsewhere. Only a copy can prove later that no entries were removed from the end. `unaudited`
    lists versions without an entry that were recorded while the log was on.
    """

    entries: int
    problem: Problem | None
    head: Head | None = None
    unaudited: tuple[Version, ...] = ()


_START = Head(0, FIRST)


@dataclass(slots=True)
class _Verification:
    """State of one verification of an audit log."""

    store_id: str
    head: Head = _START
    known: list[AuditEntry] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    details: dict[int, str | None] = field(default_factory=dict)
    withheld: set[int] = field(default_factory=set)
    hashes: dict[int, str] = field(default_factory=dict)

    def add(self, key: str, value: str) -> None:
        """Check the next entry, in key order."""
        seq = seq_of(key)
        entry = parsed(value)
        what, at = self._difference(seq, value, entry)
        if what is not None:
            self.problems.append(Problem(what, at))
        if entry is not None:
            self.known.append(entry)
            self.withheld.update(entry.withheld)
        self.head = Head(seq, entry.hash if entry is not None else "")
        self.hashes[seq] = self.head.hash

    def _difference(self, seq: int, value: str, entry: AuditEntry | None) -> tuple[What | None, int]:
        if seq == 0:
            return "unknown", 0
        if seq != self.head.seq + 1:
            return "missing", self.head.seq + 1
        if entry is None:
            return "altered", seq
        if entry.seq != seq:
            return "reordered", seq
        said = json.loads(value)
        if not self._is_sound(said, value, entry):
            return "altered", seq
        self.details[seq] = said.get("detail")
        return None, seq

    def _is_sound(self, said: Mapping[str, object], value: str, entry: AuditEntry) -> bool:
        body = {name: field for name, field in said.items() if name != "hash"}
        try:
            is_canonical = canonical(said) == value
        except RecursionError:  # the JSON is nested too deeply for the parser
            return False
        return is_canonical and entry_hash(self.store_id, body) == entry.hash and said.get("prev") == self.head.hash

    def check_details(self, records: Iterable[tuple[str, str]]) -> None:
        """Compare the details with the digests in their entries."""
        present = {seq_of(key): value for key, value in records}
        for seq, digest in self.details.items():
            detail = present.pop(seq, None)
            if digest is None:
                continue
            if detail is None:
                if seq not in self.withheld:
                    self.problems.append(Problem("detail missing", seq))
            elif digest_of_detail(detail) != digest:
                self.problems.append(Problem("detail altered", seq))
        self.problems += [self._without_entry(seq) for seq in present]

    def _without_entry(self, seq: int) -> Problem:
        """The problem of a detail whose entry has no digest or does not exist."""
        if seq in self.hashes:
            return Problem("detail altered", seq)
        return Problem("missing" if seq else "unknown", seq)

    def check_heads(self, expected: Iterable[Head]) -> None:
        """Check that entries recorded elsewhere are present and have the same hashes."""
        for head in expected:
            if head.seq and head.seq not in self.hashes:
                self.problems.append(Problem("missing", head.seq))
            elif head.seq and self.hashes[head.seq] != head.hash:
                self.problems.append(Problem("altered", head.seq))


def verify(snapshot: Snapshot, store_id: str, expected: Sequence[Head]) -> Verified:
    """Verify the log in one state of the store; `expected` gives heads that were recorded elsewhere."""
    run = _Verification(store_id)
    last = 0
    try:
        for key, value in snapshot.records(ENTRY):
            run.add(key, value)
            last = run.head.seq
        run.check_details(snapshot.records(DETAIL))
        run.check_heads([*expected, head_of(snapshot)])
    except Damaged:  # a record of an encrypted store cannot be decrypted
        run.problems.append(Problem("altered", last + 1))
    except InvalidInput:  # the record of the head is malformed
        run.problems.append(Problem("altered", last))
    problem = min(run.problems, key=lambda each: each.seq, default=None)
    return Verified(len(run.known), problem, run.head if run.known else None, tuple(_unaudited(snapshot, run.known)))


def _unaudited(snapshot: Snapshot, entries: Sequence[AuditEntry]) -> Iterator[Version]:
    """Versions recorded while the log was on that have no entry, oldest first. External edits need no entry."""
    if not entries:
        return
    listed = {change.version_id for entry in entries for change in entry.changes}
    bulk = [entry for entry in entries if entry.change_count > len(entry.changes)]
    switches = [(entry.newest, entry.audit is not False) for entry in entries if entry.newest is not None]
    began = min((newest for newest, _ in switches), default="")
    for version in reversed(list(snapshot.versions(after=began))):
        if version.actor == EXTERNAL or version.id in listed or not _was_on(version.id, switches):
            continue
        if not any(entry.covers(version.id) for entry in bulk):
            yield version


def _was_on(version_id: str, switches: Sequence[tuple[str, bool]]) -> bool:
    """Return whether the log was on when a version was recorded, according to the entries that switched it."""
    return next((state for newest, state in reversed(switches) if newest < version_id), True)
