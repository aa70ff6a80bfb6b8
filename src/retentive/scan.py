"""Looking for sensitive values in what a memory store already holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from retentive.engine.core import Engine
from retentive.engine.queries import raised
from retentive.engine.writer import GuardedWriter
from retentive.errors import NotFound, Refused
from retentive.history.removal import check_person
from retentive.history.removal import redact as history_redact
from retentive.redaction.guard import Examination
from retentive.storage.contract import Actor, Snapshot, Transaction, Version
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.settings import Settings
from retentive.values.text import decoded

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Finding:
    """A path, shown without values, at which sensitive values were found, and their kinds, in order.

    `in_path`: the path of a memory that is there holds one itself. Nobody but a person can rename it.
    """

    path: str
    kinds: tuple[str, ...]
    in_path: bool = False


@dataclass(frozen=True, slots=True)
class _Found:
    """What was found in one memory."""

    path: MemoryPath  # written without values
    in_path: tuple[str, ...]
    in_text: tuple[str, ...]

    def told(self) -> Finding:
        return Finding(self.path.written, tuple(dict.fromkeys(self.in_path + self.in_text)), bool(self.in_path))


def scan(store: Engine, examine: Examination, who: Actor | None, *, redact: bool, history: bool) -> list[Finding]:
    """Where sensitive values are, whatever the setting, and the kinds of these.

    `redact` writes memories anew without the values in their texts, and redacts what `history` found in older versions.
    Raises `InvalidInput`, and writes nothing, if one of those memories is read-only; if one cannot be written for
    another reason, once the others are.
    """
    if redact:
        check_person(store, who)
    scanning = _Scan(store, examine, store.settings().changed({"sensitive": "redact"}))
    return _in_words(store, lambda: scanning.run(who, redact=redact, history=history))


class _Scan:
    """One look at a whole store."""

    def __init__(self, store: Engine, examine: Examination, settings: Settings) -> None:
        self._store, self._examine, self._settings = store, examine, settings

    def run(self, who: Actor | None, *, redact: bool, history: bool) -> list[Finding]:
        """See `scan`."""
        listed = self._store.read(lambda snapshot: [memory.path for memory in snapshot.memories(ROOT)])
        present = [found for path in listed if (found := self._present(path)) is not None]
        if redact:
            self._clean([found.path for found in present if found.in_text], who)
        findings = [each.told() for each in present]
        return _joined([*findings, *self._older(who, redact=redact)]) if history else findings

    def _present(self, path: str) -> _Found | None:
        look = self._store.read(lambda snapshot: snapshot.get(path))
        if look.memory is None:  # gone since it was listed
            return None
        shown, in_path = self._examine(self._settings, path)
        in_text = self._kinds(look.data)
        return _Found(MemoryPath(path, shown), tuple(in_path), in_text) if in_path or in_text else None

    def _kinds(self, data: bytes | None) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._examine(self._settings, decoded(data))[1]))

    def _clean(self, paths: Sequence[MemoryPath], who: Actor | None) -> None:
        """Write memories anew, each by itself."""

        def check(_: Transaction, write: GuardedWriter) -> None:
            for path in paths:
                write.check(path)

        def clean(tx: Transaction, write: GuardedWriter, *, path: MemoryPath) -> None:
            look = tx.get(path.text)
            if look.memory is not None:
                write.check(path)
                text = self._examine(self._settings, decoded(look.data))[0]
                write.put(look, path, text, is_removal=True)

        self._store.write(check, who)
        left = []
        for path in paths:
            try:
                self._store.write(partial(clean, path=path), who)
            except Refused as refusal:
                left.append(
                    raised(Refused(refusal.key, **({"path": path.written} | refusal.values)), self._store.replies)
                )
        if left:
            raise type(left[0])("; ".join(map(str, left)))

    def _older(self, who: Actor | None, *, redact: bool) -> list[Finding]:
        """The versions that are no longer the newest of a present memory, newest first."""
        present = self._store.read(lambda snapshot: {memory.version_id for memory in snapshot.memories(ROOT)})
        findings: list[Finding] = []
        ids: list[str] = []
        for version in self._store.read(lambda snapshot: list(snapshot.versions())):
            if version.id in present or version.redacted_at is not None:
                continue
            finding = self._version(version)
            if finding is not None:
                findings.append(finding)
                ids.append(version.id)
        if redact and ids:
            history_redact(self._store, ids, who)
        return findings

    def _version(self, version: Version) -> Finding | None:
        shown, kinds = self._examine(self._settings, version.path)
        if version.operation != "deleted":
            try:
                _, data = self._store.read(partial(_text_of, version_id=version.id))
            except NotFound:  # pruned since it was listed
                return None
            kinds = (*kinds, *self._kinds(data))
        return Finding(shown, tuple(dict.fromkeys(kinds))) if kinds else None


def _text_of(snapshot: Snapshot, *, version_id: str) -> tuple[Version, bytes | None]:
    return snapshot.version(version_id)


def _joined(findings: Iterable[Finding]) -> list[Finding]:
    """One finding for each path, in the order in which they came."""
    joined: dict[str, Finding] = {}
    for each in findings:
        known = joined.get(each.path, Finding(each.path, ()))
        kinds = tuple(dict.fromkeys((*known.kinds, *each.kinds)))
        joined[each.path] = Finding(each.path, kinds, known.in_path or each.in_path)
    return list(joined.values())


def _in_words(store: Engine, work: Callable[[], T]) -> T:
    """What `work` gives. What it was refused is raised as programs get it."""
    try:
        return work()
    except Refused as refusal:
        failed = refusal
    raise raised(failed, store.replies)
