"""Names of revisions, as in git: `r1234`, `HEAD~2`, `@{yesterday}`, a time, a version id, or its first characters.

`parse` turns a text into a value without I/O. The other functions look up a parsed revision in a snapshot. `HEAD` and
`~2` count the changes of a target, which is a memory (across its renames), a directory or the whole store.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from functools import partial
from itertools import groupby, islice, takewhile
from operator import attrgetter
from typing import TypeAlias

from retentive.errors import InvalidInput, NotFound
from retentive.history.versions import versions_in
from retentive.storage.contract import Snapshot, Version
from retentive.storage.paging import all_versions
from retentive.values.paths import MemoryPath
from retentive.values.records import EXTERNAL, time_in_id, to_us

TIMES = "2026-11-21T10:00, 2026-11-21, 2h, 3d, today or yesterday"
FORMS = "r1234, HEAD, HEAD~2, @{yesterday}, a time (2026-11-21T10:00, 2h) or the id of a version"
_VERSION = "memver_"
_SHAPE = re.compile(r"(?P<base>.*?)(?P<back>(?:~[0-9]{0,9}|\^)*)", re.ASCII | re.DOTALL)
_STEP = re.compile(r"~([0-9]*)|\^", re.ASCII)
_NUMBER = re.compile(r"r([0-9]{1,18})", re.ASCII)
_AT = re.compile(r"(?:HEAD)?@\{(.*)\}", re.DOTALL)
_AGO = re.compile(r"([0-9]{1,9})\s*(s|min|m|h|d|w)(?:\s+ago)?", re.ASCII)
_UNITS = {"s": "seconds", "m": "minutes", "min": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_SOME = 3  # versions to read for an error message, which names two


@dataclass(frozen=True, slots=True)
class Revision:
    """Parsed name of a revision. It means the change that is `back` changes before `base`.

    `base` is the number of a change, the id of a version (or its first characters, if no other id begins with them), or
    a time, which means the last change up to this time. None means the newest change, `HEAD`. `text` is the name as
    written.
    """

    base: int | str | datetime | None = None
    back: int = 0
    text: str = ""

    @property
    def is_version(self) -> bool:
        """True if the revision names one version, rather than a change or a time."""
        return isinstance(self.base, str) and not self.back

    @property
    def is_time(self) -> bool:
        """True if the revision names a time."""
        return isinstance(self.base, datetime) and not self.back


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
    shape = _SHAPE.fullmatch(text)
    assert shape is not None
    base, back = shape["base"], 0
    for step in _STEP.finditer(shape["back"]):
        back += 1 if not step[1] else int(step[1])
    return Revision(_base(base, text, now), back, text)


def _base(base: str, text: str, now: datetime) -> int | str | datetime | None:
    if base in {"HEAD", "@"}:
        return None
    if number := _NUMBER.fullmatch(base):
        return int(number[1])
    if base.startswith(_VERSION):
        return base
    at = _AT.fullmatch(base)
    try:
        return parse_time(base if at is None else at[1], now)
    except ValueError as error:
        if at is not None:
            raise InvalidInput(str(error).rstrip(".")) from None
    hint = f"; did you mean r{text}?" if re.fullmatch("[0-9]{1,18}", text, re.ASCII) else ""
    raise InvalidInput(f"{text[:80]!r} is not a revision such as {FORMS}{hint}") from None


def parse_time(text: str, now: datetime) -> datetime:
    """Parse a time. Raises `ValueError`.

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
        raise ValueError(f"{text[:80]!r} is not a time such as {TIMES}.") from None


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
    if isinstance(revision.base, datetime) and not revision.back:
        last = newest_at(found, revision.base)
        return Moment("" if last is None else _after_change(found, last), revision.base)
    version = version_at(found, revision) if revision.is_version else named_change(found, revision, target)[0]
    return Moment(_after_change(found, version), version.created_at, version)


def named_change(found: Snapshot, named: Named, target: MemoryPath | None = None) -> list[Version]:
    """Return all versions of the change that a revision names, newest first.

    A version id means the whole change of this version: all versions with the same number and actor. A command may find
    an external edit, and record this edit under the same number as its own versions. The number then means only the
    versions of the command. Raises the errors of `moment`.
    """
    revision = as_revision(named)
    base, back, before, first_number = revision.base, revision.back, "~", None
    if isinstance(base, datetime):
        before = moment(found, base).bound
    elif base is not None:
        if isinstance(base, str):
            change = _same_change(found, version_at(found, revision))
        else:
            every = list(found.versions(revision_of=_any_numbered(found, base).id))
            change = [version for version in every if version.actor != EXTERNAL] or every
        if not back:
            return change
        back -= 1
        first_number = change[0].revision
    versions = (
        each
        for each in versions_in(found, target)
        if each.id < before and (first_number is None or each.revision < first_number)
    )
    changes = (next(group) for _, group in groupby(versions, attrgetter("revision")))
    seen = list(islice(changes, back + 1))
    if len(seen) > back:
        return _same_change(found, seen[back])
    where = "the memory store" if target is None or target.is_root else target.written
    if not seen and base is None:
        raise NotFound(f"{where} has no changes")
    oldest = f", whose oldest change is r{seen[-1].revision}" if seen else ""
    raise NotFound(f"{revision.text} is before the history of {where}{oldest}")


def one_version(found: Snapshot, named: Named, target: MemoryPath | None = None) -> Version:
    """Return the only version that a revision names at or below a path. Raises `InvalidInput` if there are several."""
    revision = as_revision(named)
    if revision.is_version:
        return version_at(found, revision)
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


def version_at(found: Snapshot, revision: Revision) -> Version:
    """Return the version that a revision names by its id or the beginning of its id. Raises `NotFound`."""
    text = str(revision.base)
    highest = [] if text == _VERSION else found.versions(after=text[:-1], before=text + "~", limit=_SOME)
    matching = [version for version in highest if version.id.startswith(text)]
    if not matching:
        raise NotFound(f"there is no version {text}")
    if len(matching) > 1:
        some = ", ".join(version.id for version in matching[:2])
        raise NotFound(
            f"{text} is ambiguous: several version ids begin with this text, such as {some}; give more characters"
        )
    return matching[0]


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
