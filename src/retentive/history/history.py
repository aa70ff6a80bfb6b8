"""History API of a memory store: log, versions, blame, restore, undo, redact and erase."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Unpack

from retentive.engine.context import StoreContext
from retentive.engine.queries import read_version
from retentive.engine.trust.levels import Level
from retentive.errors import Refused
from retentive.history import reads
from retentive.history.apply import RestoreOutcome
from retentive.history.operations import PlannedOperation, Preview, Restore, Undo
from retentive.history.plan import Mode
from retentive.history.reads import LogFilter, Sides
from retentive.history.removal import Removed, erase, redact
from retentive.storage.contract import Actor, Operation, Version
from retentive.values import diff
from retentive.values.provenance import Origin


@dataclass(frozen=True, slots=True)
class BlameLine:
    """A line of a text, and the version that added it."""

    number: int
    text: str = field(repr=False)
    version: Version


class History:
    """The history of one memory store. Threads may share it. Raises `RetentiveError`.

    A moment is a time with a time zone, or a version id, which means the state right after that change.
    """

    def __init__(self, context: StoreContext) -> None:
        self._context = context

    def __repr__(self) -> str:
        return f"<History of {self._context.id}>"

    def log(
        self,
        path: str | None = None,
        *,
        memory_id: str | None = None,
        actor: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        operation: Operation | None = None,
        source: str | None = None,
        session: str | None = None,
        integration: str | None = None,
        flag: str | None = None,
        trust: Level | None = None,
        limit: int | None = None,
    ) -> list[Version]:
        """Versions, newest first: of the store, of one memory across renames, or of all memories below a directory.

        If `path` has no memory at or below it, the last memory that was at `path` is used. `actor` is a pattern, as
        in `session:*`, and so are `source`, `session`, `integration` and `flag`; `trust` is the level that the settings
        give to the change by itself. Memories in quarantine are included.
        """
        with self._context.checking("log"):
            only = LogFilter(actor, since, until, operation, source, session, integration, flag, trust)
            target = None if path is None else self._context.parsed(path)
        return self._context.result_of(reads.log(target, memory_id, only, limit, self._context.settings_of))

    def show(self, version_id: str) -> tuple[Version, str | None]:
        """A version, and the text of its memory after the change; None for a deletion or a redacted version."""
        return self._context.result_of(read_version(version_id))

    def text_at(self, path: str, at: datetime | str) -> tuple[Version, str]:
        """The memory that was at a path at a moment: its version at that moment, and the text. Raises `NotFound`."""
        with self._context.checking("text_at"):
            target = self._context.parsed(path)
        return self._context.result_of(reads.text_at(target, at))

    def diff(self, old: str, new: str) -> list[diff.DiffLine]:
        """Unified diff between the texts of two versions. The text of a deletion is empty.

        Raises `NotFound`, and `InvalidInput` for a version whose text was redacted.
        """
        (first, one), (second, other) = self._context.result_of(reads.change(new, old))
        assert first is not None
        assert second is not None
        return diff.unified(one or "", other or "", old_name=f"{first.path}@{old}", new_name=f"{second.path}@{new}")

    def change(self, version_id: str, *, old: str | None = None) -> Sides:
        """The version that `version_id` replaced (or `old`), and the version itself, each with its text.

        A side without a memory is `(None, None)`, as after a deletion. Raises `NotFound`, and `InvalidInput` for a
        version whose text was redacted or pruned.
        """
        return reads.without_deletions(self._context.result_of(reads.change(version_id, old)))

    def changes_since(self, path: str, since: datetime | str | None = None) -> Sides:
        """The memory at a path at a moment (by default before its newest version), and its present version.

        Raises the same errors as `change`.
        """
        with self._context.checking("diff"):
            target = self._context.parsed(path)
        return reads.without_deletions(self._context.result_of(reads.changes_since(target, since)))

    def blame(self, path: str, *, source: str | None = None, trust: Level | None = None) -> list[BlameLine]:
        """Each line of the memory at a path with the version that added it. Raises `NotFound`.

        Lines older than the oldest kept version are attributed to that version. `source` and `trust` select lines as in
        `log`.
        """
        with self._context.checking("blame"):
            only = LogFilter(source=source, trust=trust)
            target = self._context.parsed(path)
        texts = self._context.result_of(reads.lineage(target))
        lines, authors = diff.lines(texts[-1][1]), diff.blame(texts)
        settings = self._context.known_settings[1] or self._context.settings()
        chosen = {version.id for version in only.chosen({each.id: each for each in authors}.values(), settings)}
        return [
            BlameLine(number, line, version)
            for number, (line, version) in enumerate(zip(lines, authors, strict=True), start=1)
            if version.id in chosen
        ]

    def restore(
        self,
        path: str,
        to: datetime | str,
        *,
        mode: Mode = "refuse",
        dry_run: bool = False,
        actor: Actor | str | None = None,
        **origin: Unpack[Origin],
    ) -> RestoreOutcome:
        """Restore a memory, a directory or the whole store (`/memories`) to a moment. The change is atomic.

        A memory at `path` gets the text it had at that moment. If no memory is at `path` now, the memory that was there
        at that moment is recreated. A directory gets all memories it had at that moment: newer memories are deleted,
        and moved memories return. If another memory is at a path that is needed, that is a conflict; with `mode`
        `force` the other memory is deleted. Redacted content stays redacted. `source` and `session` are those of the
        restore, as in `MemoryStore.execute`. Raises `NotFound` if nothing was at `path` at that moment.
        """
        with self._context.checking(_named(Restore, dry_run), actor):
            operation = Restore(self._context.parsed(path), to, mode)
        return self._change(operation, dry_run, actor, origin)

    def undo(
        self,
        version_id: str,
        *,
        mode: Mode = "refuse",
        dry_run: bool = False,
        actor: Actor | str | None = None,
        **origin: Unpack[Origin],
    ) -> RestoreOutcome:
        """Reverse one whole change, given by the id of any of its versions.

        The undo is itself one change in the history. If a later change builds on a reversed change, nothing is changed
        and the conflicts are reported, unless `mode` is `merge` (texts are merged by line) or `force` (later changes
        are reversed too). `source` and `session` are those of the undo, as in `MemoryStore.execute`.
        """
        with self._context.checking(_named(Undo, dry_run), actor):
            operation = Undo(version_id, mode=mode)
        return self._change(operation, dry_run, actor, origin)

    def undo_by(
        self,
        by: str,
        *,
        since: datetime | None = None,
        mode: Mode = "refuse",
        dry_run: bool = False,
        actor: Actor | str | None = None,
        **origin: Unpack[Origin],
    ) -> RestoreOutcome:
        """Reverse all changes of an actor, from newest to oldest, as one change. `mode` is that of `undo`.

        `by` is an actor pattern such as `session:s1`; `since` excludes older changes.
        """
        with self._context.checking(_named(Undo, dry_run), actor):
            operation = Undo(by=by, since=since, mode=mode)
        return self._change(operation, dry_run, actor, origin)

    def redact(
        self, version_ids: Sequence[str] = (), *, all_of: str | None = None, actor: Actor | str | None = None
    ) -> Removed:
        """Permanently remove the text, path, size and hash of versions, all or none. Actor and time are kept.

        `all_of` selects all versions of the memories that are or were at or below a path, except the newest versions of
        present memories. Raises `NotFound`, and `InvalidInput` for the newest version of a present memory: write a new
        version first, or delete the memory.
        """
        with self._context.checking("redact", actor):
            target = None if all_of is None else self._context.parsed(all_of)
        return redact(self._context, version_ids, actor, all_of=target)

    def erase(
        self, path: str | None = None, *, memory_id: str | None = None, actor: Actor | str | None = None
    ) -> Removed:
        """Permanently remove a memory and all its versions. A tombstone without content is kept. Raises `NotFound`."""
        with self._context.checking("erase", actor):
            target = memory_id if memory_id is not None else self._context.parsed(path or "")
        return erase(self._context, target, actor)

    def _change(
        self, operation: PlannedOperation, dry_run: bool, actor: Actor | str | None, origin: Origin
    ) -> RestoreOutcome:
        try:
            return self._context.result_of(Preview(operation) if dry_run else operation, actor, **origin)
        except Refused as refusal:
            raise self._context.raised(refusal) from None


def _named(operation: type[PlannedOperation], dry_run: bool) -> str:
    """Name in the audit log of a restore or undo, or of its preview."""
    return f"{operation.name}.preview" if dry_run else operation.name
