"""Scans of a memory store for sensitive values in stored texts and paths."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Unpack

from retentive.engine.core import StoreCore
from retentive.engine.guard import Guard
from retentive.engine.operation import Plan, Read, Write
from retentive.engine.pending import Pending
from retentive.errors import Damaged
from retentive.history.removal import finish, traces_of
from retentive.redaction.examiner import Examined, TextExaminer
from retentive.storage.contract import Memory, Snapshot, Version
from retentive.storage.lookup import find_version
from retentive.storage.paging import all_versions, readable_texts
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.records import By
from retentive.values.settings import Settings
from retentive.values.text import decoded, is_text


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of a scan for one path. Sensitive values in `path` are masked.

    - `kinds`: the kinds of certainly sensitive values (for example API keys) in the path and the text, in the order in
      which they were found.
    - `in_path`: true if the path of an existing memory contains such a value. A person must rename the memory.
    - `likely`: the kinds of values that are likely to be sensitive. Only the context of these values suggests this.
    - `damaged`: true if the current text, or the text of an older version, cannot be read.
    """

    path: str
    kinds: tuple[str, ...]
    in_path: bool = False
    likely: tuple[str, ...] = ()
    damaged: bool = False


@dataclass(frozen=True, slots=True)
class Scanned:
    """Result of a scan that may also have removed sensitive values.

    - `withheld`: numbers of the audit entries whose paths were removed.
    - `redacted`: ids of the redacted versions.
    - `rewritten`: number of memories whose current texts were rewritten without their sensitive values.
    """

    findings: list[Finding]
    withheld: tuple[int, ...] = ()
    redacted: tuple[str, ...] = ()
    rewritten: int = 0


def scan(context: StoreCore, *, redact: bool, history: bool, likely: bool = False, **by: Unpack[By]) -> Scanned:
    """Find the sensitive values in a store, even if its settings turn off the checks of new texts.

    With `redact`, values that are certainly sensitive are removed from the texts of memories. With `redact` and
    `likely`, values that are likely to be sensitive are removed too. With `history`, older versions are scanned too.
    With `redact` and `history`, older versions that contain such values are redacted.

    All memories are rewritten together. If one of them is read-only or a detector fails, `InvalidInput` is raised and
    nothing is written.
    """
    if redact:
        work = partial(_redaction, context.examiner, history=history, likely=likely, now=context.clock())
        write = Write("scan.redact", work, facts=_facts, needs_external_edits=True, only_removes=True)
        scanned = context.result_of(replace(write, allowed_when_archived=False), **by)
        if history:
            finish(context)
        return scanned

    def found(snapshot: Snapshot) -> Scanned:
        every = _findings(snapshot, context.examiner, context.settings_of(snapshot), history=history)
        return Scanned(_joined(finding for _, finding, _ in every))

    return context.result_of(Read("scan", found, needs_external_edits=True, sees_all=True), by.get("actor"))


def _redaction(
    examiner: TextExaminer, view: Snapshot, guard: Guard, *, history: bool, likely: bool, now: float
) -> Plan[Scanned]:
    """Remove sensitive values from memories, and with `history` redact older versions that have one: all or none.

    Raises `Refused` if one of the memories to change is read-only.
    """
    found = list(_findings(view, examiner, guard.settings, history=history, likely=likely))
    findings = [finding for of, finding, _ in found if isinstance(of, Memory)]
    older = [(of, finding) for of, finding, _ in found if isinstance(of, Version) and finding.kinds]
    unclean = [(of, finding, text) for of, finding, text in found if isinstance(of, Memory) and text.removed]
    after = Pending(view)
    for memory, finding, _ in unclean:
        guard.check(MemoryPath(memory.path, finding.path))
    for memory, finding, text in unclean:
        path = MemoryPath(memory.path, finding.path)
        after.add(guard.put(after, view.get(path.text), path, text.text, is_removal=True).changes)
        if history:
            older.append((find_version(view, memory.version_id), replace(finding, in_path=False)))
    living = {memory.id: memory.path for memory, _ in view.list(ROOT)} if older else {}
    for version, finding in older:
        guard.check(MemoryPath(living.get(version.memory_id, version.path), finding.path))
    result = Scanned(_joined([*findings, *(finding for _, finding in older)]), rewritten=len(unclean))
    if not older:
        return Plan(result, after.changes)
    redacted = tuple(version.id for version, _ in older)
    withheld, records = traces_of(view, [version for version, _ in older], now)
    result = replace(result, withheld=tuple(withheld), redacted=redacted)
    return Plan(result, after.changes, records=records, redact=redacted, event=("redacted", redacted))


def _facts(scanned: Scanned) -> Mapping[str, object]:
    return {"withheld": [*scanned.withheld], **({"redacted": [*scanned.redacted]} if scanned.redacted else {})}


def _findings(
    snapshot: Snapshot, examiner: TextExaminer, settings: Settings, *, history: bool, likely: bool = False
) -> Iterator[tuple[Memory | Version, Finding, Examined]]:
    """Yield the memories that have a finding and, with `history`, then the older versions that have one, newest first.

    The kinds are those that the settings name, even if the settings turn off the checks of new texts.
    """
    settings = settings.changed({"sensitive": "redact", "sensitive_likely": "redact" if likely else "flag"})
    for of, data in _texts(snapshot, history=history):
        is_damaged = data is None or not is_text(data)
        shown, in_path = examiner(settings, of.path)
        found = examiner.examine(settings, decoded(None if is_damaged else data), path=of.path)
        flagged = (kind for _, kinds in found.flagged for kind in kinds.split(", "))
        kinds, flags = tuple(dict.fromkeys((*in_path, *found.removed))), tuple(dict.fromkeys(flagged))
        if kinds or flags or is_damaged:
            yield of, Finding(shown, kinds, bool(in_path) and isinstance(of, Memory), flags, is_damaged), found


def _texts(snapshot: Snapshot, *, history: bool) -> Iterator[tuple[Memory | Version, bytes | None]]:
    """Yield memories and then older versions with their bytes. A deletion has no bytes; None is a damaged text."""
    present = set()
    for memory, data in readable_texts(snapshot):
        present.add(memory.version_id)
        yield memory, data
    for version in all_versions(snapshot) if history else ():
        if version.id in present or version.redacted_at is not None:
            continue
        data = b""
        try:
            if version.operation != "deleted":
                data = snapshot.version(version.id)[1]
        except Damaged as error:
            if error.is_outdated:
                raise
            data = None
        yield version, data


def _joined(findings: Iterable[Finding]) -> list[Finding]:
    """Merge the findings of each path into one finding."""
    joined: dict[str, Finding] = {}
    for each in findings:
        known = joined.get(each.path, Finding(each.path, ()))
        kinds, likely = (tuple(dict.fromkeys(both)) for both in (known.kinds + each.kinds, known.likely + each.likely))
        in_path, damaged = known.in_path or each.in_path, known.damaged or each.damaged
        joined[each.path] = Finding(each.path, kinds, in_path, likely, damaged)
    return list(joined.values())
