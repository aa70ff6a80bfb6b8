"""Comparison of a memory store with its anchors, to find modified, missing and inserted versions.

A missing or redacted version is not reported if the audit log has a later entry for its removal (`redact`, `erase`,
`scan --redact --history` or `sweep`). The entry of a large sweep contains only the number of pruned versions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from retentive.audit.anchor import Anchor, AnchorKey, leaves_of
from retentive.audit.chain import AuditEntry
from retentive.errors import Damaged
from retentive.storage.contract import Memory, Snapshot, Version
from retentive.storage.paging import all_versions
from retentive.values.paths import ROOT
from retentive.values.records import OF_FILES

DifferenceKind: TypeAlias = Literal["altered", "missing", "unknown", "unaudited", "present differs"]


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


@dataclass(slots=True)
class Removals:
    """Removals of versions, as listed in the audit log.

    `named` contains the ids of removed versions. `unnamed` is the number of removed versions whose ids are not in
    the log.
    """

    named: set[str] = field(default_factory=set)
    unnamed: int = 0

    @classmethod
    def of(cls, entries: Iterable[AuditEntry], after: int) -> Removals:
        """Collect the removals from those `entries` whose number is greater than `after`."""
        found = cls()
        for entry in entries:
            if entry.seq > after and entry.outcome == "ok":
                named = [id_ for name in ("redacted", "erased", "pruned_versions") for id_ in _ids(entry.facts, name)]
                found.named.update(named)
                if "pruned_versions" not in entry.facts:
                    found.unnamed += _count(entry.facts)
        return found


def _ids(facts: Mapping[str, object], name: str) -> list[str]:
    listed = facts.get(name)
    return [str(each) for each in listed] if isinstance(listed, list) else []


def _count(facts: Mapping[str, object]) -> int:
    pruned = facts.get("pruned")
    return pruned if isinstance(pruned, int) else 0


def differences(
    snapshot: Snapshot,
    key: AnchorKey,
    anchors: Sequence[Anchor],
    entries: Sequence[AuditEntry],
    unaudited: Collection[Version],
    *,
    has_files: bool,
) -> list[Difference]:
    """Compare one state of a store with its anchors, and return the differences.

    `entries` are all audit entries. `unaudited` are the versions without an audit entry. `has_files` is true if
    people may edit the memories as plain files. A version from such an edit needs no audit entry.
    """
    versions = list(all_versions(snapshot))
    leaves = leaves_of(key, snapshot, versions)
    known = {id_: (leaf, anchor.head.seq) for anchor in anchors for id_, leaf in anchor.versions.items()}
    newest = max((anchor.newest for anchor in anchors), default="")
    found = list(_of_anchored(known, leaves, {each.id: each for each in versions}, entries))
    found += [Difference("unknown", each.id) for each in versions if each.id <= newest and each.id not in known]
    strange = [each for each in versions if each.id > newest and each.actor in OF_FILES and not has_files]
    late = [each for each in (*unaudited, *strange) if each.id > newest]
    found += [Difference("unaudited", each.id) for each in late]
    found += [Difference("altered", id_) for id_, leaf in leaves.items() if leaf == "damaged" and id_ not in known]
    return found + list(_of_present(snapshot, versions))


def _of_anchored(
    known: Mapping[str, tuple[str, int]],
    leaves: Mapping[str, str],
    versions: Mapping[str, Version],
    entries: Sequence[AuditEntry],
) -> Iterator[Difference]:
    removals = {seq: Removals.of(entries, seq) for seq in {seq for _, seq in known.values()}}
    unnamed = max((removal.unnamed for removal in removals.values()), default=0)
    for id_, (leaf, seq) in known.items():
        if leaves.get(id_) == leaf or (id_ in removals[seq].named and _is_removed(versions.get(id_))):
            continue
        if id_ not in leaves and unnamed:
            unnamed -= 1
        else:
            yield Difference("altered" if id_ in leaves else "missing", id_)


def _is_removed(version: Version | None) -> bool:
    return version is None or version.redacted_at is not None


def _of_present(snapshot: Snapshot, versions: Sequence[Version]) -> Iterator[Difference]:
    """Yield a difference for each memory whose current state does not match its newest version."""
    heads: dict[str, Version] = {}
    for version in versions:
        heads.setdefault(version.memory_id, version)
    for memory, _ in list(snapshot.list(ROOT)):
        head = heads.pop(memory.id, None)
        if head is None or not _is_head(memory, _digest(snapshot, memory.path), head):
            yield Difference("present differs", memory.version_id)
    yield from (Difference("present differs", head.id) for head in heads.values() if head.operation != "deleted")


def _digest(snapshot: Snapshot, path: str) -> str | None:
    try:
        return hashlib.sha256(snapshot.get(path).data or b"").hexdigest()
    except (Damaged, TypeError):  # SQLite returns values of a wrong type unchanged
        return None


def _is_head(memory: Memory, digest: str | None, head: Version) -> bool:
    return memory == Memory.of(head, memory.created_at) and digest == memory.sha256 == head.sha256
