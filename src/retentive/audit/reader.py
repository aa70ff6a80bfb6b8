"""API of the audit log of a memory store: read it, verify it, write anchors, and compare the store with its anchors.

The log is sound if every entry is present, unchanged and in order. A version that is missing or redacted although an
anchor has it is not reported if the log has a later entry for its removal (`redact`, `erase`, `scan --redact --history`
or `sweep`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal, TypeAlias

from retentive.audit.anchor import Anchor, AnchorKey, append_anchor, read_anchors
from retentive.audit.chain import (
    ENTRY,
    FIRST,
    AuditEntry,
    Head,
    canonical,
    entry_hash,
    head_of,
    parsed,
    seq_of,
    stored_entries,
)
from retentive.engine.core import StorePart
from retentive.errors import Damaged, InvalidInput, UnknownSchema
from retentive.storage.contract import Memory, Snapshot, Version, now_us, to_datetime
from retentive.storage.paging import all_versions
from retentive.values.paths import ROOT
from retentive.values.records import OF_FILES
from retentive.values.settings import from_text
from retentive.values.text import digest

__all__ = ["Anchor", "AnchorKey", "Audit", "AuditEntry", "Difference", "Head", "Problem", "Verified"]

ProblemKind: TypeAlias = Literal["altered", "missing", "settings altered"]
DifferenceKind: TypeAlias = Literal["altered", "missing", "unknown", "unaudited", "present differs"]


@dataclass(frozen=True, slots=True)
class Problem:
    """Problem in an audit log. `what` is the kind of problem, and `seq` is the number of the entry.

    An entry that is not in order, or lacks its paths although no later entry removed them, is `altered` too.
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


class Audit(StorePart):
    """Audit log of one memory store. Reading the log adds no entry to it. The methods raise `RetentiveError`."""

    def entries(self, since: datetime | None = None) -> Iterator[AuditEntry]:
        """Return the entries written at `since` or later (default: all), oldest first. Skip malformed records."""
        return (entry for _, entry in self._context.read(lambda snapshot: stored_entries(snapshot, since)))

    def export(self, since: datetime | None = None) -> Iterator[str]:
        """Return the entries written at `since` or later (default: all), each as the stored line of JSON."""
        return (line for line, _ in self._context.read(lambda snapshot: stored_entries(snapshot, since)))

    def verify(
        self, *, expect: Iterable[Head | str] = (), anchor: str | None = None, key: str | None = None
    ) -> Verified:
        """Verify that every entry is present, unchanged and in order (docs/security.md).

        `expect` lists heads from earlier verifications, as `SEQ:HASH`; the log must still contain these entries.
        `anchor` is the path of an anchor file, which the method `anchor` writes. `key` is the path of the key file
        with the key that signed it. With an anchor file, all versions are compared with the anchors.

        Raises `NotFound` if a file does not exist, `InvalidInput` if a head or a file is malformed, and `Damaged` if
        the anchor file was modified.
        """
        expected = [Head.parse(each) if isinstance(each, str) else each for each in expect]
        anchored = None if anchor is None else self._anchored(anchor, key)
        if anchored is not None and not anchored.anchors:
            raise InvalidInput("the anchor file has no anchor of this memory store")
        return self._context.read(lambda snapshot: _verify(snapshot, self._context.id, expected, anchored))

    def anchor(self, path: str, key: str) -> Anchor | None:
        """Append an anchor to a file: the signed head of the log and digests of the versions since the last anchor.

        Returns the new anchor, or None if nothing changed since the last anchor. Keep the file and the key where nobody
        with write access to the storage can change them.

        Raises `InvalidInput` if the audit log is off. If the store differs from the anchors in the file, raises
        `Damaged` and writes no anchor.
        """
        context, anchored = self._context, self._anchored(path, key, missing_ok=True)
        signer, before = anchored.key, anchored.anchors[-1] if anchored.anchors else None

        def work(snapshot: Snapshot) -> Anchor:
            if not context.settings_of(snapshot).audit:
                raise InvalidInput("the audit log is off; switch it on with `retentive settings set audit=true`")
            verified = _verify(snapshot, context.id, (), None if before is None else anchored)
            if not verified.is_sound:
                raise Damaged(f"no anchor was written, because the verification failed ({verified.findings[0]})")
            settings = snapshot.state.settings
            added = signer.leaves(snapshot, list(snapshot.versions(after=None if before is None else before.newest)))
            anchor = Anchor(
                store=context.id,
                time=to_datetime(now_us(context.clock)).isoformat(timespec="seconds"),
                head=head_of(snapshot),
                versions=added,
                newest=max(added, default="" if before is None else before.newest),
                settings=signer.digest(["settings", settings]) if from_text(settings).audit else "",
                previous="" if before is None else before.signature,
            )
            return replace(anchor, signature=signer.digest(anchor.body(signer)))

        made = context.read(work)
        if before is not None and (made.head, made.newest) == (before.head, before.newest):
            return None
        append_anchor(path, signer, made)
        return made

    def _anchored(self, path: str, key: str | None, *, missing_ok: bool = False) -> _Anchored:
        if key is None:
            raise InvalidInput("an anchor file can be read only with the key that signed the file; pass `key`")
        context, signer = self._context, AnchorKey.read(key)
        anchors = read_anchors(path, signer, context.id, missing_ok=missing_ok)
        return _Anchored(signer, anchors, has_files=context.backend.directory_of(context.info) is not None)


@dataclass(frozen=True, slots=True)
class _Anchored:
    """Anchors of a store, oldest first, and the key that signed them.

    `has_files` is true if people may edit the memories as plain files. A version from such an edit needs no entry.
    """

    key: AnchorKey
    anchors: Sequence[Anchor]
    has_files: bool


def _verify(snapshot: Snapshot, store_id: str, expected: Sequence[Head], anchored: _Anchored | None) -> Verified:
    """Verify the audit log in `snapshot`, one state of the store.

    The log must contain `expected`, the heads from earlier verifications. An empty log is a problem if the stored
    setting `audit` is on. With `anchored`, the log must also contain the heads of the anchors, and all versions are
    compared with the anchors.
    """
    head, entries, problems, hashes = Head(0, FIRST), list[AuditEntry](), list[Problem](), dict[int, str]()
    without_paths = set[int]()
    try:
        for key, value in snapshot.records(ENTRY):
            seq, entry = seq_of(key), parsed(value)
            if seq > head.seq + 1:
                problems.append(Problem("missing", head.seq + 1))
            elif entry is None or not _is_sound(value, entry, seq, head, store_id):
                problems.append(Problem("altered", seq))
            elif entry.paths is None or entry.hashes is None:
                without_paths.add(seq)
            if entry is not None:
                entries.append(entry)
            head = Head(seq, "" if entry is None else entry.hash)
            hashes[seq] = head.hash
        without_paths.difference_update(*(entry.withheld for entry in entries))
        problems += [Problem("altered", seq) for seq in without_paths]
        anchors = () if anchored is None else anchored.anchors
        problems += _wrong_heads(snapshot, hashes, head, (*expected, *(anchor.head for anchor in anchors)))
        problems += _changed_settings(snapshot.state.settings, entries, anchored)
    except (Damaged, InvalidInput):  # a record of an encrypted store fails to decrypt, or that of the head is malformed
        problems.append(Problem("altered", head.seq + 1))
    unaudited, differences = _unaudited(snapshot, entries), list[Difference]()
    if anchored is not None:
        try:
            differences = list(_differences(snapshot, anchored, entries, unaudited))
        except Damaged:  # a version of an encrypted store fails to decrypt
            differences = [Difference("altered", "unreadable")]
    first = min(problems, key=lambda problem: problem.seq, default=None)
    return Verified(len(entries), first, head if entries else None, tuple(unaudited), tuple(differences))


def _is_sound(value: str, entry: AuditEntry, seq: int, before: Head, store_id: str) -> bool:
    """Return whether the record of an entry has its number and its hashes. `before` is the head before it."""
    line, *below = value.split("\n")
    try:
        body = json.loads(line)
        is_right = canonical(body) == line and body.pop("hash") == entry_hash(store_id, body)
    except RecursionError:  # the JSON is nested too deeply for the parser
        return False
    is_next = (seq, entry.seq, body.get("prev")) == (before.seq + 1, before.seq + 1, before.hash)
    return is_right and is_next and {body.get("detail"), body.get("hashes")}.issuperset(map(digest, below))


def _wrong_heads(snapshot: Snapshot, hashes: dict[int, str], last: Head, expected: Sequence[Head]) -> Iterator[Problem]:
    """Yield a problem for each head that the log does not contain: those expected, and the recorded one."""
    recorded = head_of(snapshot)
    if recorded.seq > last.seq:
        yield Problem("missing", last.seq + 1)
    for head in (*expected, recorded):
        if head.seq and hashes.get(head.seq) != head.hash:
            yield Problem("altered" if head.seq in hashes else "missing", head.seq)
    if recorded.seq < last.seq:  # the next entry would replace a present one
        yield Problem("altered", last.seq)
    with suppress(UnknownSchema):  # the settings cannot be read
        if not hashes and from_text(snapshot.state.settings).audit:
            yield Problem("missing", 1)


def _changed_settings(text: str | None, entries: Sequence[AuditEntry], anchored: _Anchored | None) -> Iterator[Problem]:
    """Compare the stored settings with the last entry that has their digest, and with the last anchor.

    Changes that were made after the log was switched off have no entries.
    """
    last = next((entry for entry in reversed(entries) if entry.settings_sha256 or entry.audit is False), None)
    if last is not None and last.settings_sha256 not in {None, digest(f"settings {text or ''}")}:
        yield Problem("settings altered", last.seq)
    if anchored is not None and anchored.anchors and anchored.anchors[-1].settings:
        anchor, since = anchored.anchors[-1], 0 if last is None else last.seq
        if since <= anchor.head.seq and anchored.key.digest(["settings", text]) != anchor.settings:
            yield Problem("settings altered", anchor.head.seq)


def _unaudited(snapshot: Snapshot, entries: Sequence[AuditEntry]) -> list[Version]:
    """Return the versions that were recorded while the log was on but have no audit entry, oldest first.

    Versions from external edits need no entry.
    """
    switches = [(entry.newest, entry.audit is not False) for entry in entries if entry.newest is not None]
    if not switches:
        return []
    listed = {change.version_id for entry in entries for change in entry.changes}
    found = list[Version]()
    for version in snapshot.versions(after=min(newest for newest, _ in switches)):
        was_on = next((is_on for newest, is_on in reversed(switches) if newest < version.id), True)
        if was_on and version.actor not in OF_FILES and version.id not in listed:
            found.append(version)
    return found[::-1]


def _differences(
    snapshot: Snapshot, anchored: _Anchored, entries: Sequence[AuditEntry], unaudited: Iterable[Version]
) -> Iterator[Difference]:
    """Compare one state of a store with its anchors, and yield the differences."""
    versions = {version.id: version for version in all_versions(snapshot)}
    leaves = anchored.key.leaves(snapshot, versions.values())
    anchors = {id_: anchor for anchor in anchored.anchors for id_ in anchor.versions}
    newest = max((anchor.newest for anchor in anchored.anchors), default="")
    removed = dict[str, int]()  # number of the entry that removed a version
    for entry in entries:
        for name in ("redacted", "erased", "pruned_versions") if entry.outcome == "ok" else ():
            ids = entry.facts.get(name)
            removed |= dict.fromkeys(map(str, ids if isinstance(ids, list) else ()), entry.seq)
    for id_, anchor in anchors.items():
        is_gone = id_ not in versions or versions[id_].redacted_at is not None
        is_removed = is_gone and removed.get(id_, 0) > anchor.head.seq
        if leaves.get(id_) != anchor.versions[id_] and not is_removed:
            yield Difference("altered" if id_ in versions else "missing", id_)
    yield from (Difference("unknown", id_) for id_ in versions if id_ <= newest and id_ not in anchors)
    edits = (version for version in versions.values() if version.actor in OF_FILES and not anchored.has_files)
    yield from (Difference("unaudited", each.id) for each in (*unaudited, *edits) if each.id > newest)
    yield from (Difference("altered", id_) for id_, leaf in leaves.items() if leaf == "damaged" and id_ not in anchors)
    heads = {version.memory_id: version for version in reversed(versions.values())}
    for memory, _ in list(snapshot.list(ROOT)):  # the current state of each memory is that of its newest version
        head = heads.pop(memory.id, None)
        try:
            is_same = head is not None and memory == Memory.of(head, memory.created_at)
            is_same = is_same and snapshot.get(memory.path).memory is not None
        except (Damaged, TypeError):  # SQLite returns values of a wrong type unchanged
            is_same = False
        if not is_same:
            yield Difference("present differs", memory.version_id)
    yield from (Difference("present differs", head.id) for head in heads.values() if head.operation != "deleted")
