"""History API of a memory store: log, versions, blame, restore, undo, redact and erase."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Unpack

from retentive.engine.core import StorePart
from retentive.engine.lists import version_fact
from retentive.engine.operation import Read, Write
from retentive.engine.repeats import request_key
from retentive.engine.visibility import Level
from retentive.errors import InvalidInput, NotFound
from retentive.history import log as reads
from retentive.history import operations
from retentive.history.differences import Compare, Differences
from retentive.history.log import BlameLine, Feed, LogFilter, LoggedChange, grouped
from retentive.history.plan import Mode, RestoreOptions, RestoreOutcome
from retentive.history.removal import Removed, erase, redact, remove
from retentive.history.revisions import Named, Revision, as_revision, one_version, past_of, versions_in
from retentive.storage.contract import Actor, Operation, Snapshot, Version, as_actor
from retentive.values import diff
from retentive.values.listing import ListPage
from retentive.values.paths import MemoryPath
from retentive.values.records import By
from retentive.values.text import decoded


class History(StorePart):
    """History of one memory store. Threads may share it. Raises `RetentiveError`.

    A revision is a time with a time zone, or a text in one of these forms:

    - `r1234` names a change by its number.
    - `HEAD~2` names the second change before the newest one. Only changes of the given path are counted. If no path is
      given, all changes of the store are counted.
    - `2026-11-21T10:00`, `yesterday` and `2h` name a time.
    - The id of a version names this version.

    Where a point in time is expected, a revision means the state right after the whole change.
    """

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
        """Return versions of the store, of one memory across renames, or of a whole directory, newest first.

        If no memory is at or below `path` now, the versions of the last memory at `path` are returned. `actor`,
        `source`, `session`, `integration` and `flag` are patterns such as `session:*`. `trust` is the trust level of
        the author of the version; earlier contributors to the text do not count. Memories in quarantine are included.
        """
        only = LogFilter(actor, since, until, operation, source, session, integration, flag, trust)
        reads.check_limit(limit)
        target = self._target(path)

        def work(snapshot: Snapshot) -> list[Version]:
            versions = versions_in(snapshot, target, memory_id, first=limit if only == LogFilter() else None)
            return list(islice(only.chosen(versions, self._context.settings_of(snapshot)), limit))

        return self._context.result_of(Read("log", work, target, needs_external_edits=True, sees_all=True))

    def page(
        self,
        path: str | None = None,
        *,
        memory_id: str | None = None,
        only: LogFilter | None = None,
        oldest_first: bool = False,
        after: str | None = None,
        limit: int = 20,
    ) -> ListPage[Version, str]:
        """Return one page of versions: those recorded at or below `path`, or those of one memory. All match `only`.

        `after` is the `next` of the previous page. A page reads at most 5,000 versions. It may therefore have a `next`
        although it has few items or none.
        """
        if limit < 1:
            raise InvalidInput(f"the limit must be at least 1, not {limit}")
        target = self._target(path)
        below = "" if target is None or target.is_root else target.text + "/"

        def work(snapshot: Snapshot) -> ListPage[Version, str]:
            return reads.page_of(
                partial(snapshot.versions, memory_id=memory_id, oldest_first=oldest_first),
                only or LogFilter(),
                self._context.settings_of(snapshot),
                fits=lambda version: f"{version.path}/".startswith(below),
                oldest_first=oldest_first,
                after=after,
                limit=limit,
            )

        return self._context.result_of(Read("versions", work, target))

    def feed(self, after: str = "", *, limit: int = 500) -> Feed:
        """Return all changes of the store after a cursor, oldest first. The changes are versions and events.

        The cursor is the `next` of an earlier feed, or the id of a version or an event without its prefix.
        """
        if limit < 1 or not ((after.isascii() and after.isalnum()) or not after):
            raise InvalidInput(
                "`limit` must be at least 1; `after` must be the id of a version or event without its prefix"
            )
        return self._context.result_of(reads.feed(after, limit))

    def newest(self) -> str:
        """Return the cursor of the newest change, for `feed`. This is cheap and adds no entry to the audit log."""
        return self._context.read(reads.newest_position)

    def changes(
        self, path: str | None = None, *, only: LogFilter | None = None, limit: int | None = None
    ) -> list[LoggedChange]:
        """Return the versions of `log`, grouped into at most `limit` changes, newest first.

        Raises `NotFound` if no memory is or was at or below `path`.
        """
        reads.check_limit(limit)
        target = self._target(path)
        chosen = only or LogFilter()

        def work(snapshot: Snapshot) -> list[LoggedChange]:
            versions = chosen.chosen(versions_in(snapshot, target), self._context.settings_of(snapshot))
            found = grouped(snapshot, versions, limit)
            if not found and not (target is None or target.is_root) and not any(versions_in(snapshot, target)):
                raise reads.no_memory(target.text)
            return found

        return self._context.result_of(Read("log", work, target, needs_external_edits=True, sees_all=True))

    def show(self, revision: Named, path: str | None = None) -> tuple[Version, str | None]:
        """Return the version that a revision names, and its text. The text of a deleted or redacted version is None.

        If `path` is given, only versions at or below it count. Raises `NotFound`, and `InvalidInput` if the revision
        names a change with several versions.
        """
        named, target = self._named(revision), self._target(path)

        def work(snapshot: Snapshot) -> tuple[Version, str | None]:
            version = one_version(snapshot, named, target)
            return version, _text(snapshot, version)

        return self._context.result_of(Read("show", work, target, facts=lambda found: version_fact(found[0])))

    def text_at(self, path: str, at: Named) -> tuple[Version, str]:
        """Return the version and the text of the memory that was at `path` at an earlier time. Raises `NotFound`."""
        target, revision = self._context.parsed(path), self._named(at)

        def work(snapshot: Snapshot) -> tuple[Version, str]:
            memory = past_of(snapshot, revision, target).get(target.text).memory
            if memory is None:
                raise NotFound(f"there was no memory at {target.written} at that time")
            version, data = snapshot.version(memory.version_id)
            return version, decoded(data)

        return self._context.result_of(Read("text_at", work, target, facts=lambda found: version_fact(found[0])))

    def diff(self, old: str, new: str) -> list[diff.DiffLine]:
        """Return a unified diff between the texts of two versions, given by their ids. The text of a deletion is empty.

        Raises `NotFound`, and `InvalidInput` for a version whose text was redacted.
        """
        since, until = self._named(old), self._named(new)
        if not (since.is_version and until.is_version):
            raise InvalidInput("`diff` compares versions by their ids; to compare changes or times, use `differences`")
        found = Compare(since=since, until=until).run(self._context).found
        if found[0].reason:
            raise InvalidInput(found[0].reason)
        first, second = (each.path if each else found[0].path for each in (found[0].old, found[0].new))
        texts = found[0].old_text or "", found[0].new_text or ""
        return diff.unified(*texts, old_name=f"{first}@{old}", new_name=f"{second}@{new}")

    def differences(
        self,
        path: str | None = None,
        *,
        change: Named | None = None,
        since: Named | None = None,
        until: Named | None = None,
        only: LogFilter | None = None,
    ) -> Differences:
        """Return the differences in a memory, a directory or the whole store, each with its texts.

        With `change`, these are the differences that one change or version made. With `only`, these are the differences
        that the matching changes from `since` to `until` made. Otherwise the states at `since` and at `until` (by
        default now) are compared. Memories that are hidden from the actor are only counted. Raises `NotFound`, and
        `InvalidInput` if necessary versions were pruned.
        """
        if (change is None) == (since is None and until is None and only is None):
            raise InvalidInput("specify `change` alone, or select changes with `since`, `until` and `only`")
        if only is None and change is None and since is None:
            raise InvalidInput("`until` can only be used together with `since` or `only`")
        change, since, until = (None if each is None else self._named(each) for each in (change, since, until))
        target = self._target(path)
        return Compare(target, change, since, until, only=only).run(self._context)

    def blame(self, path: str, *, source: str | None = None, trust: Level | None = None) -> list[BlameLine]:
        """Return each line of the memory at a path with the version that added the line. Raises `NotFound`.

        If the version that added a line was pruned, the oldest remaining version is returned for the line. `source` and
        `trust` select lines by their versions, as in `log`.
        """
        only = LogFilter(source=source, trust=trust)
        target = self._context.parsed(path)

        def work(snapshot: Snapshot) -> list[tuple[Version, str]]:
            memory = snapshot.get(target.text).memory
            if memory is None:
                raise NotFound(f"there is no memory at {target.written}")
            versions = list(snapshot.versions(memory_id=memory.id, oldest_first=True))
            return [(version, text) for version in versions if (text := _text(snapshot, version)) is not None]

        texts = self._context.result_of(Read("blame", work, target, sees_all=True))
        lines, authors = diff.lines(texts[-1][1]), diff.blame(texts)
        settings = self._context.known_settings[1] or self._context.settings()
        chosen = {version.id for version in only.chosen({each.id: each for each in authors}.values(), settings)}
        return [
            BlameLine(number, line, version)
            for number, (line, version) in enumerate(zip(lines, authors, strict=True), start=1)
            if version.id in chosen
        ]

    def restore(self, path: str, to: Named, **options: Unpack[RestoreOptions]) -> RestoreOutcome:
        """Restore a memory, a directory or the whole store (`/memories`) to the state at `to`. The change is atomic.

        A memory at `path` gets the text that it had at that time. If no memory is at `path` now, the memory that was
        there at that time is recreated. A directory gets all memories that it had at that time: newer memories are
        deleted, and memories that were moved away return.

        If another memory occupies the path of a memory to restore, the result has a conflict and nothing changes. With
        the mode `force`, the other memory is deleted instead. Redacted content cannot be restored. `source` and
        `session` are recorded with the restore, as in `MemoryStore.execute`. Raises `NotFound` if nothing was at `path`
        at that time.
        """
        return self._change(partial(operations.restore, self._context.parsed(path), self._named(to)), **options)

    def undo(self, change: Named, *, path: str | None = None, **options: Unpack[RestoreOptions]) -> RestoreOutcome:
        """Reverse one whole change.

        `change` is a revision: `r1234`, `HEAD`, or the id of any version of the change. If `path` is given, `HEAD`
        means the newest change at or below `path`. The undo is itself one change in the history.

        If a later change builds on this change, the result has conflicts and nothing changes. With the mode `merge`,
        texts are merged by line instead. With the mode `force`, the later changes are reversed too. With the mode
        `partial`, what `merge` can reverse is reversed, and `left` lists the other memories with the reasons. `source`
        and `session` are recorded with the undo, as in `MemoryStore.execute`.
        """
        target = self._target(path)
        chosen = operations.change_named(self._named(change), target)
        return self._change(partial(operations.undo, chosen, path=target), **options)

    def undo_own(
        self,
        change: Named | None = None,
        *,
        path: str | None = None,
        mode: Mode = "refuse",
        request_id: str | None = None,
        **by: Unpack[By],
    ) -> RestoreOutcome:
        """Reverse one of the actor's own changes. By default, this is the actor's newest change at or below `path`.

        The other arguments are those of `undo`. If the actor repeats the call with the same `request_id` within 24
        hours, the first result is returned and nothing changes. Raises `ReadOnly` for a change by another actor.
        """
        own = str(as_actor(by.get("actor")) or self._context.actor or "")
        if not own:
            raise InvalidInput("`actor` is missing; specify the actor whose change is to be undone")
        target = self._target(path)
        named = None if change is None else self._named(change)
        choose = operations.newest_change_by(own, target) if named is None else operations.change_named(named, target)
        history = self
        if request_id is not None:
            asked = "" if named is None else named.text, "" if target is None else target.text, mode
            history = History(self._context.with_options(request=request_key(own, request_id, "undo", *asked)))
        return history._change(partial(operations.undo, choose, path=target, own=own), mode=mode, **by)

    def undo_by(self, by: str, *, since: datetime | None = None, **options: Unpack[RestoreOptions]) -> RestoreOutcome:
        """Reverse all changes of an actor, from newest to oldest, as one change. `mode` is the same as for `undo`.

        `by` is an actor pattern such as `session:s1`. With `since`, older changes are not reversed.
        """
        return self._change(partial(operations.undo, operations.changes_by(LogFilter(by, since))), **options)

    def redact(
        self, version_ids: Sequence[str] = (), *, all_of: str | None = None, actor: Actor | str | None = None
    ) -> Removed:
        """Permanently remove the text, path, size and hash of versions. Actor and time are kept.

        If one version cannot be redacted, no version is redacted. `all_of` is a path: it selects all versions of the
        existing and deleted memories at or below this path, except the newest version of each existing memory.

        Raises `NotFound`. Raises `InvalidInput` for the newest version of an existing memory: to redact it, first write
        a new version or delete the memory.
        """
        target = self._target(all_of)
        ids = (version_ids,) if isinstance(version_ids, str) else tuple(dict.fromkeys(version_ids))
        return remove(self._context, redact(ids, self._context.clock(), target), actor)

    def erase(
        self,
        path: str | None = None,
        *,
        memory_id: str | None = None,
        reason: str | None = None,
        actor: Actor | str | None = None,
    ) -> Removed:
        """Permanently remove a memory and all its versions. Only a tombstone without content remains.

        For a directory, this removes its present and deleted memories, and the proposals and the paths in the audit log
        that name something below it. The `reason`, such as the number of a request, stays in the audit log. Raises
        `NotFound`.
        """
        target = memory_id if memory_id is not None else self._context.parsed(path or "")
        return remove(self._context, erase(target, reason), actor)

    def _target(self, path: str | None) -> MemoryPath | None:
        return None if path is None else self._context.parsed(path)

    def _named(self, given: Named) -> Revision:
        return as_revision(given, datetime.fromtimestamp(self._context.clock(), UTC))

    def _change(
        self,
        operation: Callable[[Mode], Write[RestoreOutcome]],
        mode: Mode = "refuse",
        *,
        dry_run: bool = False,
        **by: Unpack[By],
    ) -> RestoreOutcome:
        if dry_run:
            return replace(self._context.result_of(operation(mode).dry_run(), **by), dry_run=True)
        return self._context.result_of(operation(mode), **by)


def _text(found: Snapshot, version: Version) -> str | None:
    data = found.version(version.id)[1]
    return None if data is None else decoded(data)
