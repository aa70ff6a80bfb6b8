"""Rows of a directory: its entries, the last change of each, and what happened to them since a moment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from retentive.engine.listings import Listed, ListedMemory
from retentive.engine.operation import Read
from retentive.history.reads import AsOf
from retentive.history.revisions import Named
from retentive.history.since import Fate, SinceMoment
from retentive.storage.contract import Memory, Version
from retentive.store import MemoryStore, core_of

RECENT = 500
"""Number of newest versions that a listing searches for the last change of each entry."""
SINCE = 1_000
"""Maximum of versions since a moment that a page of the past reads for its marks."""
NEW = 100
"""Maximum of new entries that a page of the past shows."""
FATES: tuple[Fate, ...] = ("new", "changed", "gone")


@dataclass(frozen=True, slots=True)
class EntryRow:
    """A row of a listing. `below` is the path of the last change inside a directory.

    `marks` tell what has happened since the moment of the page, and to how many memories. If `is_new`, the entry did
    not exist at that moment, and the row links to the present.
    """

    path: str
    memory: Memory | None = None
    last: Version | None = None
    below: str = ""
    marks: tuple[tuple[Fate, int], ...] = ()
    is_new: bool = False

    @property
    def is_directory(self) -> bool:
        """True for a directory. For a new entry only the newest version is read, so it never has a `memory`."""
        return self.memory is None and (not self.is_new or bool(self.below))

    @property
    def name(self) -> str:
        """The last name of the path."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class RecentChanges:
    """The newest versions of a store, newest first. `oldest` is the last of them, or None if there are no more."""

    versions: Sequence[Version]
    oldest: Version | None

    def by_name(self, directory: str) -> dict[str, tuple[Version, str]]:
        """Map each entry of a directory to the newest version at or below it, and to that version's path inside it."""
        found: dict[str, tuple[Version, str]] = {}
        for each in self.versions:
            if each.path.startswith(f"{directory}/"):
                name, _, rest = each.path[len(directory) + 1 :].partition("/")
                found.setdefault(name, (each, rest))
        return found


def recent_changes(store: MemoryStore, at: Named | None) -> RecentChanges:
    """Return the newest versions of a store, now or at a moment, for a listing, which writes the audit entry."""
    operation = Read("list", lambda snapshot: list(snapshot.versions(limit=RECENT + 1)))
    found = core_of(store).peek(operation if at is None else AsOf(operation, at))
    return RecentChanges(found[:RECENT], found[RECENT - 1] if len(found) > RECENT else None)


def rows_of(directory: str, items: Sequence[Listed], recent: RecentChanges, then: SinceMoment | None) -> list[EntryRow]:
    """The rows of a directory, in the order of the listing."""
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
    """Rows of the entries of a directory that did not exist at a moment, sorted by name."""
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
