"""The log: filters of versions, changes, the feed of changes, and a summary of the changes since a time."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain, groupby, islice, pairwise, takewhile
from typing import Literal, TypeAlias, get_args

from retentive.engine.lists import HISTORY, PRUNED, StoreEvent, events_of, has_lost_events, newest_event
from retentive.engine.operation import Read
from retentive.engine.visibility import Level, author_of, check_level, session_of, trust_levels
from retentive.errors import InvalidInput, NotFound
from retentive.history.revisions import Named, check_zone, first_id, moment
from retentive.storage.contract import Actor, Operation, Snapshot, Version
from retentive.storage.paging import PAGE_VERSIONS, all_versions
from retentive.values.listing import ListPage
from retentive.values.patterns import check_actor_pattern, check_name_pattern, matches_actor
from retentive.values.records import to_us
from retentive.values.settings import DEFAULTS, Settings

MAX_SCANNED = 5_000  # versions that one page reads; a page with few matches then ends early
_VERSION = "memver_"
_TIME_DIGITS = 14


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Conditions that the versions of a log must meet. None means no condition. Raises `InvalidInput`.

    `actor`, `source`, `session`, `integration` and `flag` are patterns. `trust` is the trust level of the version's
    author; earlier contributors do not count.
    """

    actor: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    operation: Operation | None = None
    source: str | None = None
    session: str | None = None
    integration: str | None = None
    flag: str | None = None
    trust: Level | None = None

    def __post_init__(self) -> None:
        if self.actor is not None:
            check_actor_pattern(self.actor)
        for pattern in (self.source, self.session, self.integration, self.flag):
            if pattern is not None:
                check_name_pattern(pattern)
        check_level(self.trust)
        if self.operation is not None and self.operation not in get_args(Operation):
            raise InvalidInput(f"the operation must be one of {', '.join(get_args(Operation))}")
        for time in (self.since, self.until):
            check_zone(time)

    def chosen(self, versions: Iterable[Version], settings: Settings = DEFAULTS) -> Iterable[Version]:
        """Return the matching versions. `versions` must be newest first. `settings` determine the trust levels."""
        since, level_of = self.since, trust_levels(settings)
        if since is not None:
            first = first_id(to_us(since))  # versions from elsewhere have earlier times than ids
            versions = takewhile(lambda version: version.id >= first, versions)
        return (
            version
            for version in versions
            if self.fits(version) and (self.trust is None or level_of(author_of(version)) == self.trust)
        )

    def fits(self, version: Version) -> bool:
        """Return whether a version meets all conditions other than `since` and `trust`."""
        if self.operation not in {None, version.operation} or (self.until and version.created_at > self.until):
            return False
        if self.actor is not None and not matches_actor(self.actor, str(version.actor or "")):
            return False
        if not (self.source or self.session or self.integration or self.flag):
            return True
        made = version.provenance
        pairs = (self.source, made.source), (self.session, session_of(version)), (self.integration, made.integration)
        return all(pattern is None or (name and matches_actor(pattern, name)) for pattern, name in pairs) and (
            self.flag is None or any(matches_actor(self.flag, kind) for _, kind in made.flags)
        )


@dataclass(frozen=True, slots=True)
class LoggedChange:
    """One change: the versions that one actor recorded in one revision, newest first.

    In a filtered log, some of these versions may be missing. `moved_from` contains the previous paths of renamed
    memories, by version id.
    """

    number: int
    actor: Actor | None
    at: datetime
    versions: tuple[Version, ...]
    moved_from: Mapping[str, str] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Short name of the change, such as `r1234`."""
        return f"r{self.number}"

    @property
    def cause(self) -> str:
        """Description of an undo or restore, such as `undo of r3`. Empty for other changes and after a redaction."""
        return next((each.provenance.cause for each in self.versions if each.provenance.cause), "")


def grouped(
    found: Snapshot, versions: Iterable[Version], limit: int | None = None, only: Container[str] | None = None
) -> list[LoggedChange]:
    """Group versions into at most `limit` changes. Both are newest first.

    If `only` is given, the previous paths of other memories are not looked up.
    """
    groups = (tuple(group) for _, group in groupby(versions, key=lambda each: (each.revision, each.actor)))
    chosen = list(islice(groups, limit))
    looked_up = (each for each in chain.from_iterable(chosen) if only is None or each.memory_id in only)
    before = previous_paths(found, looked_up)
    return [
        LoggedChange(
            group[0].revision,
            group[0].actor,
            group[0].created_at,
            group,
            {each.id: before[each.id] for each in group if each.id in before},
        )
        for group in chosen
    ]


def previous_paths(found: Snapshot, versions: Iterable[Version]) -> dict[str, str]:
    """Return the path that the memory had before, by version id, for those of `versions` that renamed a memory."""
    chosen: dict[str, list[Version]] = {}
    for version in versions:
        if version.operation == "modified" and version.path:
            chosen.setdefault(version.memory_id, []).append(version)
    before: dict[str, str] = {}
    for memory_id, own in chosen.items():
        ids = {version.id for version in own}
        history = all_versions(found, memory_id=memory_id, before=max(ids) + "!")
        pairs = takewhile(lambda pair: pair[0].id >= min(ids), pairwise(history))  # noqa: B023 - used at once
        before |= {new.id: old.path for new, old in pairs if new.id in ids and old.path not in {"", new.path}}
    return before


@dataclass(frozen=True, slots=True)
class BlameLine:
    """Line of a text with its number, and the version that added the line."""

    number: int
    text: str = field(repr=False)
    version: Version


def page_of(
    select: Callable[..., Iterable[Version]],
    only: LogFilter,
    settings: Settings,
    *,
    fits: Callable[[Version], bool],
    oldest_first: bool,
    after: str | None,
    limit: int,
) -> ListPage[Version, str]:
    """Return the next matching versions after the version id `after`, with the cursor of the next page.

    `select` is `Snapshot.versions` with all arguments but the bounds and the limit. `fits` is one more condition.
    """
    matching = replace(only, since=None)  # version ids begin with the time: `since` and `until` are bounds of ids
    low = None if only.since is None else first_id(to_us(only.since))
    high = None if only.until is None else first_id(to_us(only.until) + 1)
    found, last, left, is_end = list[Version](), after, MAX_SCANNED, False
    while len(found) <= limit and left > 0 and not is_end:
        size = min(PAGE_VERSIONS, left)
        bounds = {"after": low, "before": high}
        if last is not None and oldest_first:
            bounds["after"] = max(low or "", last)
        elif last is not None:
            bounds["before"] = last if high is None else min(high, last)
        page = list(select(limit=size, **bounds))
        found += matching.chosen(filter(fits, page), settings)
        is_end, last, left = len(page) < size, page[-1].id if page else last, left - size
    if len(found) > limit:
        return ListPage(tuple(found[:limit]), found[limit - 1].id)
    return ListPage(tuple(found), None if is_end else last)


def check_limit(limit: int | None) -> None:
    """Raise `InvalidInput` for a negative limit."""
    if limit is not None and limit < 0:
        raise InvalidInput("`limit` must be an integer of at least 0")


def no_memory(path: str) -> NotFound:
    """Return the error for a path at which no memory is or was."""
    return NotFound(f"there is no memory at or below {path}, and there was none before")


@dataclass(frozen=True, slots=True)
class Feed:
    """Changes in the order in which they happened. `next` is the cursor for later changes.

    If `has_gap` is true, changes after the given cursor may be missing, because versions were pruned or old events were
    removed.
    """

    items: tuple[Version | StoreEvent, ...]
    next: str
    has_gap: bool = False


def feed(after: str, limit: int) -> Read[Feed]:
    """Return an operation that reads the changes after a cursor: the id of a version or an event without its prefix."""

    def work(snapshot: Snapshot) -> Feed:
        versions = snapshot.versions(after=_VERSION + after, oldest_first=True, limit=limit)
        found: list[Version | StoreEvent] = [*versions, *events_of(snapshot, after=f"evt_{after}", limit=limit)]
        found = sorted(found, key=lambda each: position_of(each.id))[:limit]
        pruned = snapshot.get_record(HISTORY, PRUNED)
        is_pruned = pruned is not None and after[:_TIME_DIGITS] < f"{int(pruned):014x}"
        has_gap = is_pruned or has_lost_events(snapshot, f"evt_{after}")
        return Feed(tuple(found), position_of(found[-1].id) if found else after, has_gap)

    return Read("feed", work)


def newest_position(snapshot: Snapshot) -> str:
    """Return the cursor of the newest change. It is empty if there are no changes."""
    versions = (position_of(version.id) for version in snapshot.versions(limit=1))
    return max([*versions, position_of(newest_event(snapshot))])


def position_of(change_id: str) -> str:
    """Return the id of a version or an event without its prefix. The result sorts by time."""
    return change_id.partition("_")[2]


Fate: TypeAlias = Literal["new", "changed", "gone"]


@dataclass(frozen=True, slots=True)
class SinceMoment:
    """Summary of the changes to a store since an earlier time.

    `fates` lists the memories that are new, changed or gone. It maps the id of each memory to its fate (`new`,
    `changed` or `gone`) and to its newest version. A memory that was created and deleted since that time is left out.
    `last` is the newest version at that time. `changes` is the number of changes, and `actors` is the number of their
    actors. If `is_cut` is true, there were more versions than the limit, and the oldest of them are left out.
    """

    last: Version | None
    changes: int
    actors: int
    is_cut: bool
    fates: Mapping[str, tuple[Fate, Version]] = field(default_factory=dict)

    def below(self, directory: str, fate: Fate) -> int:
        """Return the number of memories with this fate below a directory; of all if it is empty."""
        return sum(own == fate and each.path.startswith(f"{directory}/") for own, each in self.fates.values())


def since(at: Named, limit: int) -> Read[SinceMoment]:
    """Return an operation that reads at most `limit` versions since an earlier time. Raises the errors of `moment`."""

    def work(snapshot: Snapshot) -> SinceMoment:
        bound = moment(snapshot, at).bound
        versions = list(snapshot.versions(after=bound, limit=limit + 1))
        last = next(snapshot.versions(before=bound, limit=1), None) if bound else None
        read, fates = versions[:limit], dict[str, tuple[Fate, Version]]()
        oldest = {each.memory_id: each for each in read}
        for newest in {each.memory_id: each for each in reversed(read)}.values():
            was, is_there = oldest[newest.memory_id].operation != "created", newest.operation != "deleted"
            if was or is_there:
                fates[newest.memory_id] = ("changed" if was and is_there else "new" if is_there else "gone"), newest
        actors = {str(each.actor or "") for each in read}
        return SinceMoment(last, len({each.revision for each in read}), len(actors), len(versions) > limit, fates)

    return Read("log", work)
