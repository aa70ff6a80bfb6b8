"""Names of revisions: `r1234`, `HEAD~2`, a time or a version id, with the spellings of Git (`@`, `HEAD^`, `@{2h}`).

`parse` turns a text into a value without I/O. The other functions look up a parsed revision in a snapshot. `HEAD`
counts the changes of a target: a memory (across its renames), a directory or the whole store. `versions_in` lists its
versions. `Past` is a snapshot of the state right after a revision.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta
from functools import partial
from itertools import groupby, islice, takewhile
from operator import attrgetter
from typing import TypeAlias, TypeVar, Unpack

from retentive.engine.lists import HISTORY, PRUNED, memory_then
from retentive.engine.operation import Read
from retentive.errors import InvalidInput, NotFound
from retentive.storage.contract import Entry, Memory, Selection, Snapshot, State, Usage, Version
from retentive.storage.lookup import find_version, locate
from retentive.storage.overlay import Overlay
from retentive.storage.paging import all_versions
from retentive.values.paths import ROOT, MemoryPath, ancestors
from retentive.values.records import EXTERNAL, time_in_id, to_us

R = TypeVar("R")

TIMES = "2026-11-21T10:00, 2026-11-21, 2h, 3d, today or yesterday"
FORMS = "r1234, HEAD, HEAD~2, a time (2026-11-21T10:00, 2h, yesterday) or the id of a version"
_VERSION = "memver_"
_HEAD = re.compile(r"(?:HEAD|@)((?:~[0-9]{0,9}|\^)*)", re.ASCII)
_AT = re.compile(r"(?:HEAD)?@\{(.*)\}", re.DOTALL)
_NUMBER = re.compile(r"r([0-9]{1,18})", re.ASCII)
_AGO = re.compile(r"([0-9]{1,9})(s|m|h|d|w)", re.ASCII)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True, slots=True)
class Revision:
    """Parsed name of a revision.

    `base` is the number of a change, the id of a version, or a time, which means the last change up to this time. None
    means `HEAD`: the change that is `back` changes before the newest one. `text` is the name as written.
    """

    base: int | str | datetime | None = None
    back: int = 0
    text: str = ""

    @property
    def is_version(self) -> bool:
        """True if the revision names one version, rather than a change or a time."""
        return isinstance(self.base, str)

    @property
    def is_time(self) -> bool:
        """True if the revision names a time."""
        return isinstance(self.base, datetime)


Named: TypeAlias = datetime | str | Revision
"""A time with its zone, a name such as `HEAD~2`, or a parsed revision."""


@dataclass(frozen=True, slots=True)
class Moment:
    """State of the store at an earlier time, always after a whole change.

    Versions that were recorded up to this state have ids below `bound`. Later versions do not. `at` is the time.
    `version` is the named version, or the newest version of the named change. It is None if a time was named.
    """

    bound: str
    at: datetime
    version: Version | None = None


def parse(text: str, now: datetime) -> Revision:
    """Parse the name of a revision. `2h` and `yesterday` are relative to `now`. Raises `InvalidInput`."""
    if head := _HEAD.fullmatch(text):
        steps = re.findall(r"~([0-9]*)|\^", head[1])
        return Revision(None, sum(int(step or 1) for step in steps), text)
    if number := _NUMBER.fullmatch(text):
        return Revision(int(number[1]), 0, text)
    if text.startswith(_VERSION):
        return Revision(text, 0, text)
    at = _AT.fullmatch(text)
    try:
        return Revision(parse_time(text if at is None else at[1], now), 0, text)
    except InvalidInput:
        hint = f"; did you mean r{text}?" if re.fullmatch("[0-9]{1,18}", text, re.ASCII) else ""
        raise InvalidInput(f"{text[:80]!r} is not a revision such as {FORMS}{hint}") from None


def parse_time(text: str, now: datetime) -> datetime:
    """Parse a time. Raises `InvalidInput`.

    A time without a time zone is a local time. A day means the start of the day.
    """
    ago = _AGO.fullmatch(text)
    try:
        if ago is not None:
            return now - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        if text in {"today", "yesterday"}:
            day = now.astimezone().date() - timedelta(days=text == "yesterday")
            return datetime.combine(day, time()).astimezone()
        given = datetime.fromisoformat(text)
        return given.astimezone() if given.tzinfo is None else given
    except (ValueError, OverflowError):
        raise InvalidInput(f"{text[:80]!r} is not a time such as {TIMES}") from None


def as_revision(given: Named, now: datetime | None = None) -> Revision:
    """Convert a time or a text to a revision. Raises `InvalidInput`."""
    if isinstance(given, Revision):
        return given
    if isinstance(given, datetime):
        check_zone(given)
        return Revision(given, 0, given.isoformat())
    return parse(given, now or datetime.now(UTC))


def check_zone(at: datetime | None) -> None:
    """Raise `InvalidInput` for a time without a time zone."""
    if at is not None and at.utcoffset() is None:
        raise InvalidInput("a time must have a time zone, as in 2026-11-21T10:00:00+00:00")


def moment(found: Snapshot, named: Named, target: MemoryPath | None = None) -> Moment:
    """Return the state right after a revision.

    If the revision is one version of a larger change, such as the rename of a directory, this is the state after the
    whole change. Raises `NotFound` for an unknown or ambiguous revision, and `InvalidInput` for a time without a time
    zone.
    """
    revision = as_revision(named)
    if isinstance(revision.base, datetime):
        last = newest_at(found, revision.base)
        return Moment("" if last is None else _after_change(found, last), revision.base)
    if isinstance(revision.base, str):
        version = find_version(found, revision.base)
    else:
        version = named_change(found, revision, target)[0]
    return Moment(_after_change(found, version), version.created_at, version)


def named_change(found: Snapshot, named: Named, target: MemoryPath | None = None) -> list[Version]:
    """Return all versions of the change that a revision names, newest first.

    A version id means the whole change of this version: all versions with the same number and actor. A command may find
    an external edit, and record this edit under the same number as its own versions. The number then means only the
    versions of the command. Raises the errors of `moment`.
    """
    revision = as_revision(named)
    base = revision.base
    if isinstance(base, str):
        return _same_change(found, find_version(found, base))
    if isinstance(base, int):
        every = list(found.versions(revision_of=_any_numbered(found, base).id))
        return [version for version in every if version.actor != EXTERNAL] or every
    before = "~" if base is None else moment(found, base).bound
    versions = (each for each in versions_in(found, target) if each.id < before)
    changes = (next(group) for _, group in groupby(versions, attrgetter("revision")))
    seen = list(islice(changes, revision.back + 1))
    if len(seen) > revision.back:
        return _same_change(found, seen[-1])
    where = "the memory store" if target is None or target.is_root else target.written
    if not seen and base is None:
        raise NotFound(f"{where} has no changes")
    oldest = f", whose oldest change is r{seen[-1].revision}" if seen else ""
    raise NotFound(f"{revision.text} is before the history of {where}{oldest}")


def one_version(found: Snapshot, named: Named, target: MemoryPath | None = None) -> Version:
    """Return the only version that a revision names at or below a path. Raises `InvalidInput` if there are several."""
    revision = as_revision(named)
    if isinstance(revision.base, str):
        return find_version(found, revision.base)
    versions = in_scope(found, named_change(found, revision, target), target)
    if len(versions) != 1:
        some = ", ".join(version.id for version in versions[:2])
        raise InvalidInput(
            f"{revision.text} has {len(versions)} versions, such as {some}; specify a version id or a path"
        )
    return versions[0]


def in_scope(found: Snapshot, versions: Sequence[Version], target: MemoryPath | None) -> list[Version]:
    """Return the versions that belong to the history of a target. Raises `NotFound` if no version does."""
    if target is None or target.is_root:
        return list(versions)
    ids = {version.id for version in versions}
    oldest = min(ids)
    there = takewhile(lambda version: version.id >= oldest, versions_in(found, target))
    chosen = [version for version in there if version.id in ids]
    if not chosen:
        raise NotFound(f"r{versions[0].revision} did not change {target.written}")
    return chosen


def _same_change(found: Snapshot, version: Version) -> list[Version]:
    """Return the versions that have the same number and the same actor as `version`."""
    return [each for each in found.versions(revision_of=version.id) if each.actor == version.actor]


def _any_numbered(found: Snapshot, number: int) -> Version:
    """Return one of the versions with the revision number `number`, whichever is found first. Raises `NotFound`."""
    newest = next(found.versions(limit=1), None)
    if newest is None or number > newest.revision:
        last = "the store has no changes" if newest is None else f"the newest change is r{newest.revision}"
        raise NotFound(f"there is no change r{number} in the memory store; {last}")
    newest_us, bound = time_in_id(newest.id), None
    if newest_us is not None:  # bisection over the times in version ids
        bound = first_id(bisect_left(range(newest_us + 1), number, key=partial(_revision_before, found)))
    later = takewhile(lambda each: each.revision >= number, all_versions(found, before=bound))
    numbered = next((each for each in later if each.revision == number), None)
    if numbered is None:
        raise NotFound(
            f"the change r{number} has no versions; they were removed later, or the change only removed other versions"
        )
    return numbered


def first_id(at_us: int) -> str:
    """Return the lowest id of a version with a time, in microseconds."""
    return f"{_VERSION}{max(at_us, 0):014x}"


def _revision_before(found: Snapshot, at_us: int) -> int:
    return next((each.revision for each in found.versions(before=first_id(at_us), limit=1)), 0)


def newest_at(found: Snapshot, at: datetime) -> Version | None:
    """Return the newest version up to a time, or None if all versions are newer."""
    newest = next(found.versions(limit=1), None)
    if newest is None or newest.created_at <= at:
        return newest
    if time_in_id(newest.id) is None:
        return next((version for version in all_versions(found) if version.created_at <= at), None)
    return next(found.versions(before=first_id(to_us(at) + 1), limit=1), None)


def _after_change(found: Snapshot, version: Version) -> str:
    """Return the lowest bound above the ids of all versions of the change of `version`."""
    newest = next((each.id for each in found.versions(revision_of=version.id, limit=1)), version.id)
    return max(newest, version.id) + "!"  # sorts right after the id


def versions_in(
    found: Snapshot, target: MemoryPath | None, memory_id: str | None = None, *, first: int | None = None
) -> Iterator[Version]:
    """Return the versions that the log of `target` (or of the memory `memory_id`) lists, newest first.

    `first` is the number of versions that the caller expects to need.

    If no memory is at or below the path now, these are the versions of the last memory at the path. The versions of a
    directory include the renames that moved memories out of it.
    """
    memory_id = memory_id or memory_at(found, target)
    if memory_id is not None or target is None or target.is_root:
        return all_versions(found, memory_id=memory_id, first=first)
    below = target.text + "/"
    chosen: list[Version] = []
    for each in {version.memory_id for version in found.versions(path=below)}:
        later: Version | None = None
        for version in found.versions(memory_id=each):
            if version.path.startswith(below):
                if later is not None and later.path and not later.path.startswith(below):
                    chosen.append(later)
                chosen.append(version)
            later = version
    return iter(sorted(chosen, key=lambda version: version.id, reverse=True))


def versions_of(found: Snapshot, target: MemoryPath) -> Iterator[Version]:
    """Return the versions of the memories at or below a path, newest first."""
    memory_id = memory_at(found, target)
    if memory_id is not None or target.is_root:
        return all_versions(found, memory_id=memory_id)
    return found.versions(path=target.text + "/")


def memory_at(found: Snapshot, target: MemoryPath | None) -> str | None:
    """Return the id of the memory at a path; None for a directory.

    If no memory is at or below the path now, return the id of the last memory at the path.
    """
    if target is None or target.is_root:
        return None
    entry = locate(found, target.text)
    if entry.memory is not None:
        return entry.memory.id
    last = None if entry.below else next(found.versions(path=target.text, limit=1), None)
    return None if last is None else last.memory_id


def past_of(found: Snapshot, at: Named, target: MemoryPath | None = None) -> Past:
    """Return a snapshot of the state right after the revision `at`. `found` is a snapshot of the current state.

    If `target` is given, `HEAD` and `~2` in the revision count only the changes of this path.

    Raises the errors of `moment`, and `InvalidInput` if necessary versions were pruned.
    """
    then = moment(found, at, target)
    check_kept(found, then)
    return Past(found, then.bound)


def check_kept(found: Snapshot, then: Moment) -> None:
    """Raise `InvalidInput` if versions of the state at `then` were pruned."""
    pruned = found.get_record(HISTORY, PRUNED)
    if pruned is not None and to_us(then.at) < int(pruned):
        raise InvalidInput("versions of that time were pruned (setting keep_versions_days); choose a later time")


def version_at(found: Snapshot, before: str, path: str) -> Version | None:
    """Return the version that was current at a path before the version id `before`, or None."""
    version = next(found.list_at(before, path.rpartition("/")[0], start=path, limit=1), None)
    return version if version is not None and version.path == path else None


class Past(Overlay):
    """Snapshot of the store as it was after the last version whose id is lower than `before`."""

    def __init__(self, inner: Snapshot, before: str) -> None:
        super().__init__(inner)
        self._before = before

    @property
    def state(self) -> State:
        newest = next(self.versions(limit=1), None)
        sizes = [memory.size_bytes for memory, _ in self.list(ROOT)]
        usage, revision = Usage(len(sizes), sum(sizes)), 0 if newest is None else newest.revision
        return self._inner.state._replace(revision=revision, usage=usage)

    def get(self, path: str) -> Entry:
        found = version_at(self._inner, self._before, path)
        if found is not None:
            return Entry(memory_then(found), self._inner.version(found.id)[1])
        above = next((one for one in ancestors(path) if version_at(self._inner, self._before, one) is not None), None)
        return Entry(above=above, below=any(True for _ in self.list(path, limit=1)))

    def find(self, memory_id: str) -> Memory | None:
        found = next(self.versions(memory_id=memory_id, limit=1), None)
        return None if found is None or found.operation == "deleted" else memory_then(found)

    def list(
        self, under: str, *, start: str = "", limit: int | None = None, one_level: bool = False, texts: bool = False
    ) -> Iterator[tuple[Memory, bytes | None]]:
        found = self._inner.list_at(self._before, under, start=start, limit=limit, one_level=one_level)
        return ((memory_then(each), self._inner.version(each.id)[1] if texts else None) for each in found)

    def list_at(
        self, before: str, under: str, *, start: str = "", limit: int | None = None, one_level: bool = False
    ) -> Iterator[Version]:
        return self._inner.list_at(min(before, self._before), under, start=start, limit=limit, one_level=one_level)

    def versions(self, **selection: Unpack[Selection]) -> Iterator[Version]:
        before = selection.get("before")
        selection["before"] = self._before if before is None else min(before, self._before)
        return self._inner.versions(**selection)


def as_of(read: Read[R], at: Named) -> Read[R]:
    """Return a read of the state of the store at `at`. It raises the errors of `past_of`."""
    target = next(iter(read.paths), None)
    return replace(read, name=f"{read.name}.as_of", work=lambda found: read.work(past_of(found, at, target)))
