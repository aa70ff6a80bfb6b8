"""API of the audit log of a memory store: read it, verify it, and write anchors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime

from retentive.audit.anchor import Anchor, AnchorKey, append_anchor, read_anchors
from retentive.audit.chain import AuditEntry, Head, head_of, stored_entries
from retentive.audit.verify import Anchored, Difference, Problem, Verified, verify
from retentive.engine.core import StoreCore
from retentive.errors import Damaged, InvalidInput
from retentive.storage import capabilities
from retentive.storage.contract import Snapshot, now_us, to_datetime
from retentive.values.settings import from_text

__all__ = ["Anchor", "AnchorKey", "Audit", "AuditEntry", "Difference", "Head", "Problem", "Verified"]


class Audit:
    """Audit log of one memory store. Reading the log adds no entry to it. The methods raise `RetentiveError`."""

    def __init__(self, context: StoreCore) -> None:
        self._context = context

    def __repr__(self) -> str:
        return f"<Audit of {self._context.id}>"

    def entries(self, since: datetime | None = None) -> Iterator[AuditEntry]:
        """Return the entries written at `since` or later (default: all), oldest first. Skip malformed records."""
        return (entry for _, entry in self._context.read(lambda snapshot: stored_entries(snapshot, since)))

    def export(self, since: datetime | None = None) -> Iterator[str]:
        """Return the entries written at `since` or later (default: all), each as the stored line of JSON."""
        return (line for line, _ in self._context.read(lambda snapshot: stored_entries(snapshot, since)))

    def verify(
        self, *, expect: Iterable[Head | str] = (), anchor: str | None = None, key: str | None = None
    ) -> Verified:
        """Verify that every entry is present, unchanged and in order (docs/audit.md).

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
        return self._context.read(lambda snapshot: verify(snapshot, self._context.id, expected, anchored))

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
            verified = verify(snapshot, context.id, (), None if before is None else anchored)
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

    def _anchored(self, path: str, key: str | None, *, missing_ok: bool = False) -> Anchored:
        if key is None:
            raise InvalidInput("an anchor file can be read only with the key that signed the file; pass `key`")
        context, signer = self._context, AnchorKey.read(key)
        anchors = read_anchors(path, signer, context.id, missing_ok=missing_ok)
        return Anchored(signer, anchors, has_files=capabilities.directory_of(context.backend, context.info) is not None)
