"""Differences between versions: those that a change made, those that an actor made, or those between two states."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, islice, takewhile
from typing import TypeAlias

from retentive.engine.core import StoreCore
from retentive.engine.operation import Read
from retentive.engine.visibility import Assessment, is_used
from retentive.errors import Damaged, InvalidInput, NotFound
from retentive.history.log import LogFilter, LoggedChange, grouped
from retentive.history.revisions import (
    Revision,
    check_kept,
    first_id,
    in_scope,
    memory_at,
    moment,
    named_change,
    one_version,
    version_at,
    versions_in,
)
from retentive.storage.contract import Snapshot, Version
from retentive.storage.paging import all_versions
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.records import to_us
from retentive.values.settings import Settings
from retentive.values.text import decoded

Pair: TypeAlias = tuple[Version | None, Version | None]


@dataclass(frozen=True, slots=True)
class MemoryDifference:
    """Two versions of a memory and their texts. `old` is None for a new memory, and `new` is None for a deleted one.

    Both are None for a memory that was created and deleted again. `gone` is the version that deleted a memory.
    If the texts cannot be compared, they are None and `reason` says why.
    """

    old: Version | None
    new: Version | None
    old_text: str | None = None
    new_text: str | None = None
    reason: str = ""
    gone: Version | None = None

    @property
    def path(self) -> str:
        """Path of the new version. If it is unknown, the path of the old version. Empty if both are redacted."""
        return next((each.path for each in (self.new, self.old, self.gone) if each is not None and each.path), "")


@dataclass(frozen=True, slots=True)
class Differences:
    """Result of a comparison. `found` lists the differences.

    `hidden` is the number of memories that were left out because they are hidden from the actor. `more` is the number
    of memories that were left out because of `limit`. `changes` lists the selected changes, newest first; it is empty
    if two states were compared. If the search ended because of `most_read`, `unread` is the
    newest version that was not examined.
    """

    found: tuple[MemoryDifference, ...]
    hidden: int = 0
    changes: tuple[LoggedChange, ...] = ()
    more: int = 0
    unread: Version | None = None


@dataclass(frozen=True, slots=True)
class Compare:
    """Comparison of versions at or below a path, in one of three ways.

    - With `change`, each version of this change is compared with the version that it replaced. `change` can also be a
      single version.
    - With `only`, each matching version from `since` to `until` is compared with the version that it replaced.
      Consecutive versions of a memory become one difference.
    - Otherwise, the state at `since` is compared with the state at `until` (by default now). If `since` and `until` are
      ids of versions and no path is given, these two versions are compared.

    `limit` is the maximum number of memories whose differences and renames are read. `most_read` is the maximum number
    of versions to examine, newest first. Without `only`, `most_read` has no effect.
    """

    path: MemoryPath | None = None
    change: Revision | None = None
    since: Revision | None = None
    until: Revision | None = None
    only: LogFilter | None = None
    limit: int | None = None
    most_read: int | None = None

    def run(self, core: StoreCore) -> Differences:
        """Compare the versions in a store. Raises `NotFound`, and `InvalidInput` if necessary versions were pruned."""

        def facts(result: Differences) -> Mapping[str, object]:
            sides = (each and each.id for found in result.found[:10] for each in (found.old, found.new))
            return {"compared": list(sides)}

        work = partial(self._compared, core)
        return core.result_of(Read("diff", work, self.path, facts, needs_external_edits=True, sees_all=True))

    def _compared(self, core: StoreCore, snapshot: Snapshot) -> Differences:
        settings = core.settings_of(snapshot)
        named = [each for each in (self.change, self.since, self.until) if each is not None]
        chosen, unread = self._chosen(snapshot, settings)
        memory_ids = list(dict.fromkeys(version.memory_id for version in reversed(chosen or ())))
        read = memory_ids[: self.limit]
        pairs = self._states(snapshot) if chosen is None else list(_runs(snapshot, chosen, read))
        shown = pairs
        if is_used(settings) and not (named and all(each.is_version for each in named)):
            assessed = Assessment(snapshot, settings, core.actor)
            shown = [pair for pair in pairs if all(map(assessed.shows, filter(None, pair)))]
        found = tuple(_difference(snapshot, old, new) for old, new in shown)
        changes = grouped(snapshot, chosen or (), only=None if self.limit is None else set(read))
        more = len(memory_ids) - len(read)
        return Differences(found, len(pairs) - len(shown), tuple(changes), more, unread)

    def _chosen(self, found: Snapshot, settings: Settings) -> tuple[Sequence[Version] | None, Version | None]:
        """Return the selected versions, newest first, and the newest version that was not examined.

        The first result is None if two states are compared. The second is None if no versions are left to examine.
        """
        if self.change is not None and self.change.is_version:
            return [one_version(found, self.change)], None
        if self.change is not None:
            return in_scope(found, named_change(found, self.change, self.path), self.path), None
        if self.only is None:
            return None, None
        low = "" if self.since is None else moment(found, self.since, self.path).bound
        high = "~" if self.until is None else moment(found, self.until, self.path).bound
        newest_first = all_versions(found, before=high) if self.path is None else versions_in(found, self.path)
        versions = takewhile(lambda each: each.id > low, (each for each in newest_first if each.id < high))
        looked_at = islice(versions, self.most_read)
        chosen, unread = list(self.only.chosen(looked_at, settings)), next(versions, None)
        since = self.only.since
        is_over = unread is None or (since is not None and unread.id < first_id(to_us(since)))
        return chosen, None if is_over else unread

    def _states(self, found: Snapshot) -> list[Pair]:
        """Return, for each memory that differs, its version at `since` and its version at `until`."""
        ends = [each for each in (self.since, self.until) if each is not None and each.is_version]
        if self.path is None and len(ends) == 2:
            return [(one_version(found, ends[0]), one_version(found, ends[1]))]
        assert self.since is not None
        sides = [None if each is None else moment(found, each, self.path) for each in (self.since, self.until)]
        for then in filter(None, sides):
            check_kept(found, then)
        bounds = ["~" if then is None else then.bound for then in sides]
        memory_id, below = memory_at(found, self.path), ROOT if self.path is None else self.path.text
        if memory_id is not None:  # or else the one that was at the path then
            last = [_version_at(found, bound, memory_id) or version_at(found, bound, below) for bound in bounds]
            states = [{} if each is None else {each.memory_id: each} for each in last]
        else:
            states = [{each.memory_id: each for each in found.list_at(bound, below)} for bound in bounds]
            if below != ROOT and not any(states):
                raise NotFound(f"neither of the compared states has a memory at or below {below}")
            for one, other, bound in zip(states, states[::-1], bounds, strict=True):  # moved in or out, or redacted
                for each in other.keys() - one.keys():
                    if (version := _version_at(found, bound, each)) is not None:
                        one[each] = version
        return [pair for pair in _paired(*states) if (pair[0] and pair[0].id) != (pair[1] and pair[1].id)]


def _version_at(found: Snapshot, bound: str, memory_id: str) -> Version | None:
    last = next(found.versions(memory_id=memory_id, before=bound, limit=1), None)
    return None if last is None or last.operation == "deleted" else last


def _paired(old: Mapping[str, Version], new: Mapping[str, Version]) -> list[Pair]:
    """Pair the old and the new version of each memory, in path order.

    A new memory is paired with a deleted memory that had the same path. Without such a pair, a patch would delete and
    create the same file.
    """
    gone = {version.path: version for key, version in old.items() if key not in new and version.path}
    pairs: list[Pair] = [(old.get(key) or gone.pop(version.path, None), version) for key, version in new.items()]
    pairs += [(version, None) for version in gone.values()]
    return sorted(pairs, key=lambda pair: next((each.path for each in reversed(pair) if each and each.path), ""))


def _runs(
    found: Snapshot, chosen: Sequence[Version], memory_ids: Iterable[str]
) -> Iterator[tuple[Version | None, Version]]:
    """Group the selected versions of each memory into runs of consecutive versions.

    For each run, yield two versions: the one right before the run, and the last one of the run.
    """
    ids = {version.id for version in chosen}
    runs = []
    for memory_id in memory_ids:
        before: Version | None = None
        versions = reversed(list(found.versions(memory_id=memory_id)))
        for is_chosen, group in groupby(versions, key=lambda version: version.id in ids):
            first, *rest = group
            last = rest[-1] if rest else first
            if is_chosen:
                runs.append((first.id, before, first, last))
            before = last
    for _, before, first, last in sorted(runs, key=lambda run: run[0]):
        if before is None and first.operation != "created":
            raise InvalidInput(f"the version that precedes {first.id} was pruned (setting keep_versions_days)")
        yield before, last


def _difference(found: Snapshot, old: Version | None, new: Version | None) -> MemoryDifference:
    texts: list[str | None] = []
    for version in (old, new):
        if version is None or version.operation == "deleted":
            texts.append(None)
        elif version.redacted_at is not None:
            return difference_of(old, new, reason=f"{version.id} was redacted; its text no longer exists")
        else:
            try:
                texts.append(decoded(found.version(version.id)[1]))
            except Damaged as error:
                return difference_of(old, new, reason=str(error))
    return difference_of(old, new, texts[0], texts[1])


def difference_of(
    old: Version | None, new: Version | None, old_text: str | None = None, new_text: str | None = None, reason: str = ""
) -> MemoryDifference:
    """Return the difference between two versions. Each may be None or a deletion."""
    before, after = (None if each is None or each.operation == "deleted" else each for each in (old, new))
    return MemoryDifference(before, after, old_text, new_text, reason, new if after is None else None)
