"""Verification that every entry of an audit log is present, unchanged and in order."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from retentive.audit.anchor import Anchor, AnchorKey
from retentive.audit.chain import (
    DETAIL,
    ENTRY,
    FIRST,
    AuditEntry,
    Head,
    canonical,
    digest_of_detail,
    digest_of_settings,
    entry_hash,
    head_of,
    last_settings,
    parsed,
    seq_of,
)
from retentive.audit.compare import Difference, differences
from retentive.errors import Damaged, InvalidInput, UnknownSchema
from retentive.storage.contract import Snapshot, Version
from retentive.values.records import OF_FILES
from retentive.values.settings import from_text

PROGRESS_ENTRIES = 1_000
"""Number of entries between two reports of progress."""
ProblemKind: TypeAlias = Literal[
    "altered", "missing", "reordered", "unknown", "detail altered", "detail missing", "settings altered"
]


@dataclass(frozen=True, slots=True)
class Problem:
    """Problem in an audit log. `what` is the kind of problem, and `seq` is the number of the entry.

    `settings altered`: the stored settings differ from those after this entry, and no later entry changed them.
    """

    what: ProblemKind
    seq: int

    def __str__(self) -> str:
        return f"entry {self.seq}: {self.what}"


@dataclass(frozen=True, slots=True)
class Verified:
    """Result of a verification of an audit log.

    - `entries`: number of entries in the log.
    - `problem`: first problem, or None.
    - `head`: number and hash of the last entry. Keep a copy of it elsewhere. Without this copy, a later verification
      cannot detect that entries were removed from the end.
    - `unaudited`: versions that were recorded while the log was on, but have no entry.
    - `differences`: versions that differ from the anchors.
    """

    entries: int
    problem: Problem | None
    head: Head | None = None
    unaudited: tuple[Version, ...] = ()
    differences: tuple[Difference, ...] = ()

    @property
    def is_sound(self) -> bool:
        """True if the log has no problem and no version differs from the anchors."""
        return not self.findings

    @property
    def findings(self) -> tuple[Problem | Difference, ...]:
        """The first problem of the log, if any, followed by the differences from the anchors."""
        return (*(() if self.problem is None else (self.problem,)), *self.differences)


_START = Head(0, FIRST)


@dataclass(slots=True)
class _Verification:
    store_id: str
    head: Head = _START
    known: list[AuditEntry] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    details: dict[int, str | None] = field(default_factory=dict)
    withheld: set[int] = field(default_factory=set)
    hashes: dict[int, str] = field(default_factory=dict)

    def add(self, key: str, value: str) -> None:
        """Check the next entry: its record key and its stored text. Add the entries in the order of their keys."""
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

    def _difference(self, seq: int, value: str, entry: AuditEntry | None) -> tuple[ProblemKind | None, int]:
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
            is_whole = canonical(said) == value and entry_hash(self.store_id, body) == entry.hash
        except RecursionError:  # the JSON is nested too deeply for the parser
            return False
        return is_whole and said.get("prev") == self.head.hash

    def check_details(self, records: Iterable[tuple[str, str]]) -> None:
        """Compare each detail record with the digest in its entry. The record contains the paths of the entry."""
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
        """Return the problem to report for a detail record whose entry has no digest or does not exist."""
        if seq in self.hashes:
            return Problem("detail altered", seq)
        return Problem("missing" if seq else "unknown", seq)

    def check_heads(self, expected: Iterable[Head]) -> None:
        """Check that the log contains the entries in `expected`, unchanged. Each was the last entry at some time."""
        for head in expected:
            if head.seq and head.seq not in self.hashes:
                self.problems.append(Problem("missing", head.seq))
            elif head.seq and self.hashes[head.seq] != head.hash:
                self.problems.append(Problem("altered", head.seq))

    def check_settings(self, text: str | None, anchored: Anchored | None) -> None:
        """Compare the stored settings with the last entry that has their digest, and with the last anchor."""
        last = last_settings(self.known)
        if last is not None and last.settings_sha256 != digest_of_settings(text):
            self.problems.append(Problem("settings altered", last.seq))
        if anchored is None or not anchored.anchors or not anchored.anchors[-1].settings:
            return
        anchor = anchored.anchors[-1]
        later = any(each.seq > anchor.head.seq and (each.settings_sha256 or each.audit is False) for each in self.known)
        if not later and anchored.key.settings_digest(text) != anchor.settings:
            self.problems.append(Problem("settings altered", anchor.head.seq))


@dataclass(frozen=True, slots=True)
class Anchored:
    """Anchors of a store, oldest first, and the key that signed them.

    `has_files` is true if people may edit the memories as plain files.
    """

    key: AnchorKey
    anchors: Sequence[Anchor]
    has_files: bool


def verify(
    snapshot: Snapshot,
    store_id: str,
    expected: Sequence[Head],
    anchored: Anchored | None = None,
    progress: Callable[[int], None] | None = None,
) -> Verified:
    """Verify the audit log in `snapshot`, one state of the store.

    The log must contain `expected`, the heads from earlier verifications. An empty log is a problem if the stored
    setting `audit` is on. With `anchored`, the log must also contain the heads of the anchors, and all versions are
    compared with the anchors. `progress` is called now and then with the number of checked entries.
    """
    heads = [] if anchored is None else [anchor.head for anchor in anchored.anchors]
    run = _Verification(store_id)
    last = 0
    try:
        for key, value in snapshot.records(ENTRY):
            run.add(key, value)
            last = run.head.seq
            if progress is not None and last % PROGRESS_ENTRIES == 0:
                progress(len(run.known))
        run.check_details(snapshot.records(DETAIL))
        recorded = head_of(snapshot)
        run.check_heads([*expected, *heads, recorded])
        if run.hashes and recorded != run.head and not run.problems:  # the next entry would replace a present one
            run.problems.append(Problem("altered", last))
        if not run.hashes and _is_on(snapshot):
            run.problems.append(Problem("missing", 1))
        run.check_settings(snapshot.state.settings, anchored)
    except Damaged:  # a record of an encrypted store fails to decrypt
        run.problems.append(Problem("altered", last + 1))
    except InvalidInput:  # the record of the head is malformed
        run.problems.append(Problem("altered", last))
    problem = min(run.problems, key=lambda each: each.seq, default=None)
    unaudited, found = tuple(_unaudited(snapshot, run.known)), list[Difference]()
    if anchored is not None:
        found = _differences(snapshot, anchored, run.known, unaudited)
    return Verified(len(run.known), problem, run.head if run.known else None, unaudited, tuple(found))


def _is_on(snapshot: Snapshot) -> bool:
    try:
        return from_text(snapshot.state.settings).audit
    except UnknownSchema:  # the settings cannot be read
        return False


def _differences(
    snapshot: Snapshot, anchored: Anchored, entries: Sequence[AuditEntry], unaudited: Sequence[Version]
) -> list[Difference]:
    try:
        return differences(snapshot, anchored.key, anchored.anchors, entries, unaudited, has_files=anchored.has_files)
    except Damaged:  # a version of an encrypted store fails to decrypt
        return [Difference("altered", "unreadable")]


def _unaudited(snapshot: Snapshot, entries: Sequence[AuditEntry]) -> Iterator[Version]:
    """Yield the versions that were recorded while the log was on but have no audit entry, oldest first.

    Versions from external edits need no entry.
    """
    if not entries:
        return
    listed = {change.version_id for entry in entries for change in entry.changes}
    bulk = [entry for entry in entries if entry.change_count > len(entry.changes)]
    switches = [(entry.newest, entry.audit is not False) for entry in entries if entry.newest is not None]
    began = min((newest for newest, _ in switches), default="")
    for version in reversed(list(snapshot.versions(after=began))):
        if version.actor in OF_FILES or version.id in listed or not _was_on(version.id, switches):
            continue
        if not any(entry.covers(version.id) for entry in bulk):
            yield version


def _was_on(version_id: str, switches: Sequence[tuple[str, bool]]) -> bool:
    """Return whether the log was on when a version was recorded.

    `switches` has a pair for each time when the log was turned on or off: the id of the newest version at that time,
    and True if the log was turned on.
    """
    return next((state for newest, state in reversed(switches) if newest < version_id), True)
