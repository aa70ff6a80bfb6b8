"""Verification of an audit log, and comparison of a memory store with its anchors.

The log is sound if every entry is present, unchanged and in order. A version that is missing or redacted although an
anchor has it is not reported if the log has a later entry for its removal (`redact`, `erase`, `scan --redact --history`
or `sweep`). The entry of a large sweep contains only the number of pruned versions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from retentive.audit.anchor import Anchor, AnchorKey, leaves_of
from retentive.audit.chain import (
    ENTRY,
    FIRST,
    AuditEntry,
    Head,
    canonical,
    digest,
    digest_of_settings,
    entry_hash,
    head_of,
    parsed,
    seq_of,
)
from retentive.errors import Damaged, InvalidInput, UnknownSchema
from retentive.storage.contract import Memory, Snapshot, Version
from retentive.storage.paging import all_versions
from retentive.values.paths import ROOT
from retentive.values.records import OF_FILES
from retentive.values.settings import from_text

PROGRESS_ENTRIES = 1_000
"""Number of entries between two reports of progress."""
ProblemKind: TypeAlias = Literal[
    "altered", "missing", "reordered", "unknown", "detail altered", "detail missing", "settings altered"
]
DifferenceKind: TypeAlias = Literal["altered", "missing", "unknown", "unaudited", "present differs"]


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
class Difference:
    """Version that differs from the anchors of its store. `what` is the kind of difference:

    - `altered`: a field or the text was modified.
    - `missing`: the version was removed, and the audit log has no entry for the removal.
    - `unknown`: the version was inserted between anchored versions.
    - `unaudited`: the version is newer than the newest anchor and has no audit entry.
    - `present differs`: the current state of a memory differs from its newest version.
    """

    what: DifferenceKind
    version_id: str

    def __str__(self) -> str:
        return f"version {self.version_id}: {self.what}"


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


@dataclass(frozen=True, slots=True)
class Anchored:
    """Anchors of a store, oldest first, and the key that signed them.

    `has_files` is true if people may edit the memories as plain files. A version from such an edit needs no entry.
    """

    key: AnchorKey
    anchors: Sequence[Anchor]
    has_files: bool


class _Log:
    """Entries of an audit log that were checked so far. `hashes` has their hashes by number."""

    def __init__(self, store_id: str) -> None:
        self.head = Head(0, FIRST)
        self.entries: list[AuditEntry] = []
        self.problems: list[Problem] = []
        self.hashes: dict[int, str] = {}
        self._store_id = store_id
        self._without_paths: set[int] = set()

    def add(self, key: str, value: str) -> None:
        """Check the next record. Add the records in the order of their keys."""
        seq, entry = seq_of(key), parsed(value)
        if seq == 0:
            self.problems.append(Problem("unknown", 0))
        elif seq != self.head.seq + 1:
            self.problems.append(Problem("missing", self.head.seq + 1))
        elif entry is None:
            self.problems.append(Problem("altered", seq))
        elif entry.seq != seq:
            self.problems.append(Problem("reordered", seq))
        else:
            self._check(seq, value, entry)
        if entry is not None:
            self.entries.append(entry)
        self.head = Head(seq, "" if entry is None else entry.hash)
        self.hashes[seq] = self.head.hash

    def _check(self, seq: int, value: str, entry: AuditEntry) -> None:
        line, _, detail = value.partition("\n")
        try:
            said = json.loads(line)
            body = {name: field for name, field in said.items() if name != "hash"}
            is_whole = canonical(said) == line and entry_hash(self._store_id, body) == entry.hash
        except RecursionError:  # the JSON is nested too deeply for the parser
            is_whole, said = False, {}
        if not is_whole or said.get("prev") != self.head.hash:
            self.problems.append(Problem("altered", seq))
        elif detail and said.get("detail") != digest(detail):
            self.problems.append(Problem("detail altered", seq))
        elif not detail and "detail" in said:
            self._without_paths.add(seq)

    def end(self, heads: Iterable[Head], recorded: Head) -> None:
        """Check the whole log. It must contain `heads`, and end with `recorded`."""
        self._without_paths.difference_update(*(entry.withheld for entry in self.entries))
        self.problems += [Problem("detail missing", seq) for seq in self._without_paths]
        if recorded.seq > self.head.seq:
            self.problems.append(Problem("missing", self.head.seq + 1))
        for head in (*heads, recorded):
            if head.seq and self.hashes.get(head.seq) != head.hash:
                self.problems.append(Problem("altered" if head.seq in self.hashes else "missing", head.seq))
        if self.hashes and recorded != self.head and not self.problems:  # the next entry would replace a present one
            self.problems.append(Problem("altered", self.head.seq))


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
    log = _Log(store_id)
    anchors = () if anchored is None else anchored.anchors
    try:
        for number, (key, value) in enumerate(snapshot.records(ENTRY), start=1):
            log.add(key, value)
            if progress is not None and number % PROGRESS_ENTRIES == 0:
                progress(len(log.entries))
        log.end((*expected, *(anchor.head for anchor in anchors)), head_of(snapshot))
        settings = snapshot.state.settings
        if not log.hashes and _is_on(settings):
            log.problems.append(Problem("missing", 1))
        log.problems += _changed_settings(settings, log.entries, anchored)
    except Damaged:  # a record of an encrypted store fails to decrypt
        log.problems.append(Problem("altered", log.head.seq + 1))
    except InvalidInput:  # the record of the head is malformed
        log.problems.append(Problem("altered", log.head.seq))
    problem = min(log.problems, key=lambda each: each.seq, default=None)
    unaudited, found = tuple(_unaudited(snapshot, log.entries)), list[Difference]()
    if anchored is not None:
        try:
            found = list(_differences(snapshot, anchored, log.entries, unaudited))
        except Damaged:  # a version of an encrypted store fails to decrypt
            found = [Difference("altered", "unreadable")]
    return Verified(len(log.entries), problem, log.head if log.entries else None, unaudited, tuple(found))


def _is_on(settings: str | None) -> bool:
    try:
        return from_text(settings).audit
    except UnknownSchema:  # the settings cannot be read
        return False


def _changed_settings(text: str | None, entries: Sequence[AuditEntry], anchored: Anchored | None) -> Iterator[Problem]:
    """Compare the stored settings with the last entry that has their digest, and with the last anchor.

    Changes that were made after the log was switched off have no entries.
    """
    last = next((each for each in reversed(entries) if each.settings_sha256 or each.audit is False), None)
    if last is not None and last.settings_sha256 not in {None, digest_of_settings(text)}:
        yield Problem("settings altered", last.seq)
    if anchored is not None and anchored.anchors and anchored.anchors[-1].settings:
        anchor, since = anchored.anchors[-1], 0 if last is None else last.seq
        if since <= anchor.head.seq and anchored.key.settings_digest(text) != anchor.settings:
            yield Problem("settings altered", anchor.head.seq)


def _unaudited(snapshot: Snapshot, entries: Sequence[AuditEntry]) -> Iterator[Version]:
    """Yield the versions that were recorded while the log was on but have no audit entry, oldest first.

    Versions from external edits need no entry.
    """
    listed = {change.version_id for entry in entries for change in entry.changes}
    bulk = [entry for entry in entries if entry.change_count > len(entry.changes)]
    switches = [(entry.newest, entry.audit is not False) for entry in entries if entry.newest is not None]
    began = min((newest for newest, _ in switches), default="")
    for version in reversed(list(snapshot.versions(after=began))) if entries else ():
        if version.actor in OF_FILES or version.id in listed or any(entry.covers(version.id) for entry in bulk):
            continue
        if next((is_on for newest, is_on in reversed(switches) if newest < version.id), True):
            yield version


def _differences(
    snapshot: Snapshot, anchored: Anchored, entries: Sequence[AuditEntry], unaudited: Iterable[Version]
) -> Iterator[Difference]:
    """Compare one state of a store with its anchors, and yield the differences."""
    versions = {version.id: version for version in all_versions(snapshot)}
    leaves = leaves_of(anchored.key, snapshot, versions.values())
    anchors = {id_: anchor for anchor in anchored.anchors for id_ in anchor.versions}
    newest = max((anchor.newest for anchor in anchored.anchors), default="")
    first = min((anchor.head.seq for anchor in anchors.values()), default=0)
    done = [entry for entry in entries if entry.outcome == "ok"]
    removed = {id_: entry.seq for entry in done for id_ in _removed(entry.facts)}
    unnamed = sum(_pruned(entry.facts) for entry in done if entry.seq > first)
    for id_, anchor in anchors.items():
        if leaves.get(id_) == anchor.versions[id_]:
            continue
        if removed.get(id_, 0) > anchor.head.seq and (id_ not in versions or versions[id_].redacted_at is not None):
            continue
        if id_ not in versions and unnamed > 0:
            unnamed -= 1
        else:
            yield Difference("altered" if id_ in versions else "missing", id_)
    yield from (Difference("unknown", id_) for id_ in versions if id_ <= newest and id_ not in anchors)
    edits = (each for each in versions.values() if each.actor in OF_FILES and not anchored.has_files)
    yield from (Difference("unaudited", each.id) for each in (*unaudited, *edits) if each.id > newest)
    yield from (Difference("altered", id_) for id_, leaf in leaves.items() if leaf == "damaged" and id_ not in anchors)
    yield from _different_memories(snapshot, versions.values())


def _removed(facts: Mapping[str, object]) -> Iterator[str]:
    """Yield the ids of the versions that an operation removed or redacted, as its entry lists them."""
    for name in ("redacted", "erased", "pruned_versions"):
        listed = facts.get(name)
        yield from map(str, listed if isinstance(listed, list) else ())


def _pruned(facts: Mapping[str, object]) -> int:
    """Return the number of versions that a sweep removed without listing them."""
    pruned = facts.get("pruned")
    return pruned if isinstance(pruned, int) and "pruned_versions" not in facts else 0


def _different_memories(snapshot: Snapshot, versions: Iterable[Version]) -> Iterator[Difference]:
    """Yield a difference for each memory whose current state does not match its newest version."""
    heads: dict[str, Version] = {}
    for version in versions:  # newest first
        heads.setdefault(version.memory_id, version)
    for memory, _ in list(snapshot.list(ROOT)):
        head = heads.pop(memory.id, None)
        if head is None or memory != Memory.of(head, memory.created_at) or not _is_readable(snapshot, memory.path):
            yield Difference("present differs", memory.version_id)
    yield from (Difference("present differs", head.id) for head in heads.values() if head.operation != "deleted")


def _is_readable(snapshot: Snapshot, path: str) -> bool:
    try:
        return snapshot.get(path).memory is not None
    except (Damaged, TypeError):  # SQLite returns values of a wrong type unchanged
        return False
