"""Scans of a memory store for sensitive values in stored texts and paths."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from retentive.audit.chain import withhold
from retentive.engine.context import StoreContext
from retentive.engine.operation import ReadOperation, WriteOperation
from retentive.engine.writer import GuardedWriter
from retentive.errors import InvalidInput, PermissionDenied, Refused
from retentive.history.removal import PENDING, finish
from retentive.redaction.examiner import TextExaminer
from retentive.review.proposals import forget_proposals
from retentive.storage.contract import Actor, Snapshot, Transaction, Version
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.settings import Settings
from retentive.values.text import decoded


@dataclass(frozen=True, slots=True)
class Finding:
    """A path with its values masked, and the kinds of sensitive values found there, in order.

    `in_path`: the path of a present memory contains a value itself. Only a person can rename it.
    """

    path: str
    kinds: tuple[str, ...]
    in_path: bool = False


@dataclass(frozen=True, slots=True)
class _Found:
    """Findings in one memory."""

    path: MemoryPath  # shown with its values masked
    in_path: tuple[str, ...]
    in_text: tuple[str, ...]

    def finding(self) -> Finding:
        return Finding(self.path.written, tuple(dict.fromkeys(self.in_path + self.in_text)), bool(self.in_path))


@dataclass(frozen=True, slots=True)
class Scanned:
    """The findings of a scan, the failed rewrites, and the audit entries whose paths were removed."""

    findings: tuple[Finding, ...]
    refusals: tuple[Refused, ...] = ()
    withheld: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Scan(ReadOperation[Scanned]):
    """Find sensitive values in texts and paths; with `history`, in older versions too."""

    name = "scan"
    needs_external_edits = True
    examiner: TextExaminer
    history: bool

    def apply(self, snapshot: Snapshot, settings: Settings) -> Scanned:
        """Examine every text."""
        look = _Look(self.examiner, settings)
        findings = [found.finding() for found in look.present(snapshot)]
        if self.history:
            findings += [finding for _, finding in look.older(snapshot)]
        return Scanned(tuple(_joined(findings)))


@dataclass(frozen=True, slots=True)
class RedactFound(WriteOperation[Scanned]):
    """Rewrite memories without their sensitive values; with `history`, redact older versions that contain any."""

    name = "scan.redact"
    needs_external_edits = True
    may_use_reserve = True
    under_review = "refuse"
    examiner: TextExaminer
    history: bool
    now: float

    def facts(self, result: Any) -> Mapping[str, object]:
        """Audit entries whose paths were removed."""
        return {"withheld": list(result.withheld)}

    def apply(self, tx: Transaction, writer: GuardedWriter) -> Scanned:
        """Remove the sensitive values, in one transaction.

        Raises `Refused`, before any change, if a memory is read-only.
        """
        look = _Look(self.examiner, writer.settings)
        found = list(look.present(tx))
        refusals = []
        unclean = [each.path for each in found if each.in_text]
        for path in unclean:
            writer.check(path)
        for path in unclean:
            try:
                entry = tx.get(path.text)
                writer.put(entry, path, look.clean(decoded(entry.data)), is_removal=True)
            except Refused as refusal:  # raised by a guard before this memory was changed
                refusals.append(Refused(refusal.key, **({"path": path.written} | refusal.values)))
        findings = [each.finding() for each in found]
        withheld: list[int] = []
        if self.history:
            older = list(look.older(tx))
            findings += [finding for _, finding in older]
            withheld = self._redact(tx, writer, [version for version, _ in older])
        return Scanned(tuple(_joined(findings)), tuple(refusals), tuple(withheld))

    def _redact(self, tx: Transaction, writer: GuardedWriter, versions: list[Version]) -> list[int]:
        if not versions:
            return []
        for version in versions:
            forget_proposals(tx, version.memory_id, base_sha256=version.sha256)
        tx.redact([version.id for version in versions], writer.actor)
        tx.put_record(PENDING, "since", f"{self.now:.6f}")
        return withhold(tx, {version.path for version in versions if tx.get(version.path).memory is None})


def scan(context: StoreContext, actor: Actor | str | None, *, redact: bool, history: bool) -> list[Finding]:
    """Find the sensitive values in a store, regardless of its settings, by path and kinds.

    `redact` rewrites memories without the values in their texts; with `history` it also redacts older versions. If a
    memory is read-only, raises `InvalidInput` and writes nothing. If a memory cannot be rewritten for another reason,
    raises after the others are rewritten.
    """
    operation = RedactFound(context.examiner, history, context.clock()) if redact else Scan(context.examiner, history)
    try:
        scanned = context.result_of(operation, actor)
    except PermissionDenied as error:
        raise InvalidInput(str(error)) from None
    except Refused as refusal:
        raise context.raised(refusal) from None
    if redact and history:
        finish(context)
    if scanned.refusals:
        left = [context.raised(refusal) for refusal in scanned.refusals]
        raise type(left[0])("; ".join(map(str, left)))
    return list(scanned.findings)


class _Look:
    """Examines texts and paths for the kinds that the store settings name, regardless of the configured action."""

    def __init__(self, examiner: TextExaminer, settings: Settings) -> None:
        self._examination = examiner
        self._settings = settings.changed({"sensitive": "redact"})

    def clean(self, text: str) -> str:
        """The text with its sensitive values masked."""
        return self._examination(self._settings, text)[0]

    def present(self, snapshot: Snapshot) -> Iterator[_Found]:
        """Present memories that contain sensitive values."""
        for memory, data in snapshot.texts(ROOT):
            shown, in_path = self._examination(self._settings, memory.path)
            in_text = self._kinds(data)
            if in_path or in_text:
                yield _Found(MemoryPath(memory.path, shown), tuple(in_path), in_text)

    def older(self, snapshot: Snapshot) -> Iterator[tuple[Version, Finding]]:
        """Versions with sensitive values, except the newest of each present memory, newest first."""
        present = {memory.version_id for memory in snapshot.memories(ROOT)}
        for version in list(snapshot.versions()):
            if version.id in present or version.redacted_at is not None:
                continue
            shown, kinds = self._examination(self._settings, version.path)
            if version.operation != "deleted":
                kinds = (*kinds, *self._kinds(snapshot.text(version.id)))
            if kinds:
                yield version, Finding(shown, tuple(dict.fromkeys(kinds)))

    def _kinds(self, data: bytes | None) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._examination(self._settings, decoded(data))[1]))


def _joined(findings: Iterable[Finding]) -> list[Finding]:
    """One finding for each path, in the order found."""
    joined: dict[str, Finding] = {}
    for each in findings:
        known = joined.get(each.path, Finding(each.path, ()))
        kinds = tuple(dict.fromkeys((*known.kinds, *each.kinds)))
        joined[each.path] = Finding(each.path, kinds, known.in_path or each.in_path)
    return list(joined.values())
