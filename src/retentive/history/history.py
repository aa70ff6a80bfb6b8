"""What was in a memory store, who did it, and how to have it back or make it go."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import islice
from typing import TypeVar, get_args

from retentive.engine.core import Engine
from retentive.engine.queries import parsed, raised
from retentive.engine.writer import GuardedWriter
from retentive.errors import InvalidInput, NotFound, Refused
from retentive.history.apply import Outcome, carry_out, clashing, in_the_way, steps
from retentive.history.past import PastSnapshot, check_kept, check_zone, moment
from retentive.history.plan import Mode, Plan, State, restored, undone
from retentive.history.removal import Removed, erase, redact
from retentive.review.session import is_under_review
from retentive.storage.contract import Actor, Operation, Snapshot, Transaction, Version, as_actor
from retentive.values import diff
from retentive.values.paths import MemoryPath
from retentive.values.patterns import check_actor_pattern, matches_actor
from retentive.values.text import decoded

T = TypeVar("T")
_PAGE = 500


@dataclass(frozen=True, slots=True)
class BlameLine:
    """A line of a text, and the version that brought it in."""

    number: int
    text: str
    version: Version


class History:
    """The history of one memory store. Threads may share it. Raises `RetentiveError`.

    A moment is a version's id (the store right after that change) or a time with its zone.
    """

    def __init__(self, store: Engine) -> None:
        self._store = store

    # -- looking ---------------------------------------------------------------------------------------------

    def log(
        self,
        path: str | None = None,
        *,
        memory_id: str | None = None,
        actor: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        operation: Operation | None = None,
        limit: int | None = None,
    ) -> list[Version]:
        """Versions, newest first: of all, of one memory across its renames, or of what lay below a directory.

        Where no memory lies at `path` now, the one that lay there last is meant. `actor` is a pattern, as in
        `session:*`.
        """
        if actor is not None:
            check_actor_pattern(actor)
        if limit is not None and limit < 0:
            raise InvalidInput("the limit must be a whole number from 0")
        if operation is not None and operation not in get_args(Operation):
            raise InvalidInput(f"the operation must be one of {', '.join(get_args(Operation))}")
        for time in (since, until):
            check_zone(time)
        target = None if path is None else self._parsed(path)

        def fits(version: Version) -> bool:
            return (
                (operation is None or version.operation == operation)
                and (until is None or version.created_at <= until)
                and (actor is None or matches_actor(actor, "" if version.actor is None else str(version.actor)))
            )

        def work(found: Snapshot) -> list[Version]:
            self._store.record_hand_edits(found)
            chosen = _of(found, target, memory_id)
            if since is not None:
                chosen = _while_since(chosen, since)
            return list(islice(filter(fits, chosen), limit))

        return self._store.read(work)

    def show(self, version_id: str) -> tuple[Version, str | None]:
        """A version and the text it left behind; None for a deletion, and where it was redacted."""
        version, data = self._store.read(lambda found: found.version(version_id))
        return version, None if data is None else decoded(data)

    def text_at(self, path: str, at: datetime | str) -> tuple[Version, str]:
        """The memory that was at a path, and its text. Raises `NotFound`."""
        target = self._parsed(path)

        def work(found: Snapshot) -> tuple[Version, str]:
            memory = self.at(at, found).get(target.text).memory
            if memory is None:
                raise NotFound(f"there was no memory at {path}")
            version, data = found.version(memory.version_id)
            return version, decoded(data)

        return self._store.read(work)

    def at(self, at: datetime | str, found: Snapshot) -> PastSnapshot:
        """The store as it was, seen in a snapshot of the present. Raises `InvalidInput` if that is known no more."""
        before = moment(found, at)
        check_kept(found, at)
        return PastSnapshot(found, before)

    def diff(self, old: str, new: str) -> list[diff.DiffLine]:
        """How the text of one version became that of another: a unified diff. Deletions are empty texts.

        Raises `NotFound`, and `InvalidInput` for a version whose text was redacted.
        """
        (first, one), (second, other) = self.show(old), self.show(new)
        for version in (first, second):
            if version.redacted_at is not None and version.operation != "deleted":
                raise InvalidInput(f"{version.id} was redacted: what it held is gone")
        old_name, new_name = f"{first.path}@{first.id}", f"{second.path}@{second.id}"
        return diff.unified(one or "", other or "", old_name=old_name, new_name=new_name)

    def before(self, version_id: str) -> Version | None:
        """The version that one replaced, of the same memory."""

        def work(found: Snapshot) -> Version | None:
            version, _ = found.version(version_id)
            return next(found.versions(memory_id=version.memory_id, before=version.id, limit=1), None)

        return self._store.read(work)

    def blame(self, path: str) -> list[BlameLine]:
        """Who wrote each line of the memory at a path, and when. Raises `NotFound`.

        Lines from before the oldest version that is kept are that version's.
        """
        target = self._parsed(path)

        def work(found: Snapshot) -> list[tuple[Version, str]]:
            memory = found.get(target.text).memory
            if memory is None:
                raise NotFound(f"there is no memory at {path}")
            versions = reversed(list(found.versions(memory_id=memory.id)))
            texts = ((version, found.text(version.id)) for version in versions)
            return [(version, decoded(data)) for version, data in texts if data is not None]

        texts = self._store.read(work)
        lines = diff.lines(texts[-1][1])
        return [
            BlameLine(number, line, version)
            for number, (line, version) in enumerate(zip(lines, diff.blame(texts), strict=True), start=1)
        ]

    # -- having it back --------------------------------------------------------------------------------------

    def restore(
        self,
        path: str,
        to: datetime | str,
        *,
        mode: Mode = "refuse",
        dry_run: bool = False,
        actor: Actor | str | None = None,
    ) -> Outcome:
        """Make a memory, a directory or (`/memories`) the whole store what it was at a moment; one change, or none.

        The memory that lies at `path` now gets the text it had then. If none does, or another one lay there then, that
        is made again. Of a directory everything is as it was: what has come since goes, what was moved away comes back.
        What stands in the way is a conflict, unless `mode` is `force`: then it goes, and what was redacted since is
        left as it is. Raises `NotFound` if nothing was there then.
        """
        target = self._parsed(path)

        def plan(found: Snapshot) -> Plan:
            before = moment(found, to)
            look = None if target.is_root else found.get(target.text)
            if look is not None and look.memory is not None:
                then = next(found.versions(memory_id=look.memory.id, before=before, limit=1), None)
                if then is not None and then.operation != "deleted":
                    return _one(then, target.text, look.memory.id)
            check_kept(found, to)
            past = PastSnapshot(found, before)
            if look is not None:
                was = past.get(target.text).memory
                if was is not None:
                    return Plan({was.id: State(was.path, was.version_id, was.sha256, was.size_bytes)})
            known = partial(_known_paths, found)
            made = restored(found.as_of(before), found.memories(target.text), target.text, known)
            if not made.targets and not made.conflicts and not target.is_root:
                raise NotFound(f"there was nothing at {path} then")
            return made

        return self._carry_out(plan, mode, dry_run=dry_run, actor=actor)

    def undo(
        self,
        *,
        change: str | None = None,
        by: str | None = None,
        since: datetime | None = None,
        mode: Mode = "refuse",
        dry_run: bool = False,
        actor: Actor | str | None = None,
    ) -> Outcome:
        """Take back one change (all it did, by the id of one of its versions), or all changes of an actor.

        `by` is a pattern of actors, as in `session:s1`; `since` leaves older ones. In reverse order, in one change that
        is itself in the history. Where a later change stands on one of them nothing is done, and the conflicts are
        told, unless `mode` is `merge` (texts are merged by line) or `force` (what was built on it goes too).
        """
        if (change is None) == (by is None):
            raise InvalidInput("say which change to undo, or whose")
        check_zone(since)

        def plan(found: Snapshot) -> Plan:
            chosen = _of_change(found, change) if change is not None else _by(found, str(by), since)
            if not chosen:
                raise NotFound("there is no such change")
            memories = dict.fromkeys(version.memory_id for version in chosen)
            history = {memory: list(found.versions(memory_id=memory)) for memory in memories}
            ids = frozenset(version.id for version in chosen)
            return undone(history, ids, mode, lambda version: decoded(found.text(version)))

        return self._carry_out(plan, mode, dry_run=dry_run, actor=actor)

    # -- making it go ----------------------------------------------------------------------------------------

    def redact(self, version_ids: Sequence[str], *, actor: Actor | str | None = None) -> Removed:
        """Remove text, path, size and hash of versions for good; who changed what when stays. All or nothing.

        Raises `NotFound`, and `InvalidInput` for the newest version of a present memory: write a new one first, or
        delete it.
        """
        return redact(self._store, version_ids, as_actor(actor) or self._store.actor)

    def erase(
        self, path: str | None = None, *, memory_id: str | None = None, actor: Actor | str | None = None
    ) -> Removed:
        """Remove a memory with all its versions for good; a tombstone without content stays. Raises `NotFound`."""
        if memory_id is None:
            target = self._parsed(path or "")
            memory = self._store.read(lambda found: found.get(target.text)).memory
            if memory is None:
                raise NotFound(f"there is no memory at {path}")
            memory_id = memory.id
        return erase(self._store, memory_id, as_actor(actor) or self._store.actor)

    def _carry_out(
        self,
        plan: Callable[[Snapshot], Plan],
        mode: Mode,
        *,
        dry_run: bool,
        actor: Actor | str | None,
    ) -> Outcome:
        if mode not in get_args(Mode):
            raise InvalidInput(f"the mode must be one of {', '.join(get_args(Mode))}")

        def decide(found: Snapshot) -> Outcome:
            self._store.record_hand_edits(found)
            made = plan(found)
            todo = steps(found, made.targets)
            blocking, clashes = in_the_way(found, todo), clashing(todo)
            if mode == "force" and (todo or not made.conflicts):
                todo = steps(found, {**made.targets, **dict.fromkeys((*blocking, *clashes))})
                return Outcome(tuple(todo), left=made.conflicts, dry_run=dry_run)
            others = (*(conflict for _, conflict in blocking.values()), *clashes.values())
            return Outcome(tuple(todo), (*made.conflicts, *others), dry_run=dry_run)

        who = as_actor(actor) or self._store.actor

        def work(tx: Transaction, write: GuardedWriter) -> Outcome:
            outcome = decide(tx)
            if outcome.conflicts:
                return outcome
            altered = carry_out(tx, write, outcome.steps, partial(_text_of, tx))
            proposed = bool(write.recorded) and is_under_review(write.settings, who)
            return replace(outcome, left=(*outcome.left, *altered), proposed=proposed)

        if dry_run:
            return self._store.read(decide)
        try:
            return self._store.write(work, who)
        except Refused as refusal:
            raise raised(refusal, self._store.replies) from None

    def _parsed(self, path: str) -> MemoryPath:
        return parsed(path, self._store.replies)


def _text_of(found: Snapshot, state: State) -> str:
    return decoded(found.text(state.version_id)) if state.text is None else state.text


def _known_paths(found: Snapshot, memory_id: str) -> list[str]:
    """Where a memory ever lay, as far as that is not redacted; the newest first."""
    return [version.path for version in found.versions(memory_id=memory_id) if version.path]


def _one(version: Version, path: str, memory_id: str) -> Plan:
    """The plan for a memory that is there: the text it had then."""
    if version.redacted_at is not None:
        raise NotFound(f"what the memory at {path} was then was redacted")
    return Plan({memory_id: State(path, version.id, version.sha256 or "", version.size_bytes or 0)})


def _of(found: Snapshot, target: MemoryPath | None, memory_id: str | None) -> Iterator[Version]:
    """The versions of what a log is asked for, newest first."""
    if memory_id is not None or target is None or target.is_root:
        return _paged(found, memory_id)
    look = found.get(target.text)
    if look.memory is not None:
        return _paged(found, look.memory.id)
    below = target.text + "/"
    if not look.below:
        last = next(found.versions(path=target.text, limit=1), None)
        if last is not None:
            return _paged(found, last.memory_id)
    return (version for version in _paged(found) if version.path.startswith(below))


def _paged(found: Snapshot, memory_id: str | None = None, *, before: str | None = None) -> Iterator[Version]:
    """Versions, newest first, read a page at a time."""
    while page := list(found.versions(memory_id=memory_id, before=before, limit=_PAGE)):
        yield from page
        before = page[-1].id


def _while_since(versions: Iterator[Version], since: datetime) -> Iterator[Version]:
    for version in versions:
        if version.created_at < since:
            return
        yield version


def _by(found: Snapshot, actor: str, since: datetime | None) -> list[Version]:
    check_actor_pattern(actor)
    versions = _paged(found)
    return [
        version
        for version in (versions if since is None else _while_since(versions, since))
        if matches_actor(actor, "" if version.actor is None else str(version.actor))
    ]


def _of_change(found: Snapshot, version_id: str) -> list[Version]:
    """All versions of the change that made this one: they share its revision.

    What a command found edited by hand shares it too, but is another's change.
    """
    version, _ = found.version(version_id)
    return [other for other in found.versions(revision_of=version_id) if other.actor == version.actor]
