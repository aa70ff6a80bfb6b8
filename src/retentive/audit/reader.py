"""API of the audit log of a memory store: read it, verify it, and write anchors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from retentive.audit.anchor import Anchor, AnchorKey, append_anchor, leaves_of, new_anchor, read_anchors
from retentive.audit.chain import ENTRY, AuditEntry, Head, head_of, parsed
from retentive.audit.verify import Anchored, Difference, Problem, Verified, verify
from retentive.engine.core import StoreCore
from retentive.errors import Damaged, InvalidInput
from retentive.storage import capabilities
from retentive.storage.contract import Snapshot, now_us, to_datetime

__all__ = ["Anchor", "AnchorKey", "Audit", "AuditEntry", "Difference", "Head", "Problem", "Verified"]


def _key(key: AnchorKey | str | None) -> AnchorKey:
    if key is None:
        raise InvalidInput("an anchor file can be read only with the key that signed the file; pass `key`")
    return AnchorKey.read(key) if isinstance(key, str) else key


class Audit:
    """Audit log of one memory store. Reading the log adds no entry to it. The methods raise `RetentiveError`."""

    def __init__(self, context: StoreCore) -> None:
        self._context = context

    def __repr__(self) -> str:
        return f"<Audit of {self._context.id}>"

    def entries(self, since: datetime | None = None) -> Iterator[AuditEntry]:
        """Return the entries written at `since` or later (default: all), oldest first. Skip malformed records."""
        return (entry for _, entry in self._found(since))

    def export(self, since: datetime | None = None) -> Iterator[str]:
        """Return the entries written at `since` or later (default: all), each as the stored line of JSON."""
        return (value for value, _ in self._found(since))

    def verify(
        self, *, expect: Iterable[Head | str] = (), anchor: str | None = None, key: AnchorKey | str | None = None
    ) -> Verified:
        """Verify that every entry is present, unchanged and in order (docs/audit.md).

        `expect` lists heads from earlier verifications, as `SEQ:HASH`; the log must still contain these entries.
        `anchor` is the path of an anchor file, which the method `anchor` writes. `key` is the key that signed the file,
        or the path of the key file. With an anchor file, all versions are compared with the anchors.

        Raises `NotFound` if a file does not exist, `InvalidInput` if a head or a file is malformed, and `Damaged` if
        the anchor file was modified.
        """
        expected = [Head.parse(each) if isinstance(each, str) else each for each in expect]
        anchored = None if anchor is None else self._anchored(anchor, _key(key))
        return self._context.read(lambda found: verify(found, self._context.id, expected, anchored))

    def anchor(self, path: str, key: AnchorKey | str) -> Anchor | None:
        """Append an anchor to a file: the signed head of the log and digests of the versions since the last anchor.

        Returns the new anchor, or None if nothing changed since the last anchor. Keep the file and the key where nobody
        with write access to the storage can change them.

        Raises `InvalidInput` if the audit log is off. If the store differs from the anchors in the file, raises
        `Damaged` and writes no anchor.
        """
        context, signer = self._context, _key(key)
        anchored = self._anchored(path, signer, missing_ok=True)
        before = anchored.anchors[-1] if anchored.anchors else None

        def work(found: Snapshot) -> Anchor:
            if not context.settings_of(found).audit:
                raise InvalidInput("the audit log is off; switch it on with `retentive settings set audit=true`")
            verified = verify(found, context.id, (), anchored if before is not None else None)
            if not verified.is_sound:
                raise Damaged(f"no anchor was written, because the verification failed ({verified.findings[0]})")
            since = found.versions(after=None if before is None else before.newest)
            at = to_datetime(now_us(context.clock))
            leaves, head = leaves_of(signer, found, list(since)), head_of(found)
            return new_anchor(
                signer, context.id, at=at, head=head, before=before, leaves=leaves, settings=found.state.settings
            )

        made = context.read(work)
        if before is not None and (made.head, made.newest) == (before.head, before.newest):
            return None
        append_anchor(path, signer, made)
        return made

    def _anchored(self, path: str, key: AnchorKey, *, missing_ok: bool = False) -> Anchored:
        context = self._context
        anchors = read_anchors(path, key, context.id, missing_ok=missing_ok)
        if not anchors and not missing_ok:
            raise InvalidInput("the anchor file has no anchor of this memory store")
        return Anchored(key, anchors, has_files=capabilities.directory_of(context.backend, context.info) is not None)

    def _found(self, since: datetime | None) -> Iterator[tuple[str, AuditEntry]]:
        return iter(self._context.read(lambda found: list(stored_entries(found, since))))


def stored_entries(snapshot: Snapshot, since: datetime | None) -> Iterator[tuple[str, AuditEntry]]:
    """Yield the entries written at `since` or later, oldest first. If `since` is None, yield all entries.

    Each item is a pair: the stored JSON, and the parsed entry. Malformed records are skipped.
    """
    for _, value in snapshot.records(ENTRY):
        entry = parsed(value)
        if entry is not None and (since is None or entry.time >= since):
            yield value.partition("\n")[0], entry
