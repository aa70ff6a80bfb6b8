"""Rows of a directory page: its entries with their last changes.

A page that shows an earlier state also marks the entries that have changed since.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from retentive.engine.listings import Listed, ListedMemory
from retentive.engine.operation import Read
from retentive.history.log import Fate, SinceMoment
from retentive.history.past import AsOf
from retentive.history.revisions import Named
from retentive.storage.contract import Memory, Version
from retentive.store import MemoryStore, core_of

RECENT = 500
"""Number of newest versions that a listing searches for the last change of each entry."""
SINCE = 1_000
"""Maximum number of newer versions that a page of an earlier state reads to mark changes."""
NEW = 100
"""Maximum number of newer entries that a page of an earlier state shows."""
FATES: tuple[Fate, ...] = ("new", "changed", "gone")


@dataclass(frozen=True, slots=True)
class EntryRow:
    """Row of a listing. For a directory, `below` is the path of its last change, relative to the directory.

    On a page of an earlier state, `marks` has the numbers of memories that are new, changed and gone since that time.
    If `is_new` is true, the entry did not exist at that time, and the row links to the current entry.
    """

    path: str
    memory: Memory | None = None
    last: Version | None = None
    below: str = ""
    marks: tuple[tuple[Fate, int], ...] = ()
    is_new: bool = False

    @property
    def is_directory(self) -> bool:
        """True for a directory.

        A row with `is_new` has no `memory`, because only a version is read for it. It is a directory if it has `below`.
        """
        return self.memory is None and (not self.is_new or bool(self.below))

    @property
    def name(self) -> str:
        """Last name in the path."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class RecentChanges:
    """Newest versions of a store, newest first. `oldest` is the last of them, or None if no older versions exist."""

    versions: Sequence[Version]
    oldest: Version | None

    def by_name(self, directory: str) -> dict[str, tuple[Version, str]]:
        """Return the newest version at or below each entry of a directory, and the version's path inside the entry."""
        found: dict[str, tuple[Version, str]] = {}
        for each in self.versions:
            if each.path.startswith(f"{directory}/"):
                name, _, rest = each.path[len(directory) + 1 :].partition("/")
                found.setdefault(name, (each, rest))
        return found


def recent_changes(store: MemoryStore, at: Named | None) -> RecentChanges:
    """Return the newest versions of a store, now or in an earlier state.

    Writes no audit entry, because the listing of the directory writes one.
    """
    operation = Read("list", lambda snapshot: list(snapshot.versions(limit=RECENT + 1)))
    found = core_of(store).peek(operation if at is None else AsOf(operation, at))
    return RecentChanges(found[:RECENT], found[RECENT - 1] if len(found) > RECENT else None)


def rows_of(directory: str, items: Sequence[Listed], recent: RecentChanges, then: SinceMoment | None) -> list[EntryRow]:
    """Return the rows of a directory, in the order of the listing."""
    known = recent.by_name(directory)
    return [_row(item, known, then) for item in items]


def _row(item: Listed, known: Mapping[str, tuple[Version, str]], then: SinceMoment | None) -> EntryRow:
    if isinstance(item, ListedMemory):
        memory = item.memory
        last, _ = known.get(memory.path.rpartition("/")[2], (None, ""))
        fate = None if then is None else then.fates.get(memory.id)
        last = last if last is not None and last.id == memory.version_id else None
        return EntryRow(memory.path, memory, last, marks=() if fate is None else ((fate[0], 1),))
    path = item.path.rstrip("/")
    last, below = known.get(path.rpartition("/")[2], (None, ""))
    counts = [] if then is None else [(fate, then.below(path, fate)) for fate in FATES]
    return EntryRow(path, last=last, below=below, marks=tuple(each for each in counts if each[1]))


def new_rows(directory: str, items: Sequence[Listed], then: SinceMoment) -> list[EntryRow]:
    """Return rows for the entries that were added to a directory since an earlier state, sorted by name."""
    there = {item.memory.path if isinstance(item, ListedMemory) else item.path.rstrip("/") for item in items}
    found = {row.path: row for row in _new(directory, then) if row.path not in there}
    return [found[path] for path in sorted(found)[:NEW]]


def _new(directory: str, then: SinceMoment) -> Iterator[EntryRow]:
    for fate, version in then.fates.values():
        if fate == "new" and version.path.startswith(f"{directory}/"):
            name, slash, rest = version.path[len(directory) + 1 :].partition("/")
            path = f"{directory}/{name}"
            count = then.below(path, "new") if slash else 1
            yield EntryRow(path, last=version, below=rest, marks=(("new", count),), is_new=True)
