"""Memories that are new, changed or gone since an earlier time, computed from the versions since then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Literal, TypeAlias

from retentive.engine.operation import Read
from retentive.history.revisions import Named, moment
from retentive.storage.contract import Snapshot, Version
from retentive.values.records import to_us

Fate: TypeAlias = Literal["new", "changed", "gone"]


@dataclass(frozen=True)
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

    def count(self, fate: Fate) -> int:
        """Return the number of memories with this fate."""
        return sum(found == fate for found, _ in self.fates.values())

    def below(self, directory: str, fate: Fate) -> int:
        """Return the number of memories with this fate below a directory."""
        return self._below[directory, fate]

    @cached_property
    def _below(self) -> Counter[tuple[str, Fate]]:
        """Number of memories with each fate, by directory."""
        found: Counter[tuple[str, Fate]] = Counter()
        for fate, version in self.fates.values():
            directory = version.path.rpartition("/")[0]
            while directory:
                found[directory, fate] += 1
                directory = directory.rpartition("/")[0]
        return found


def since(at: Named, limit: int) -> Read[SinceMoment]:
    """Return an operation that reads at most `limit` versions since an earlier time. Raises the errors of `moment`."""

    def work(snapshot: Snapshot) -> SinceMoment:
        bound = moment(snapshot, at).bound
        versions = list(snapshot.versions(after=bound, limit=limit + 1))
        last = next(snapshot.versions(before=bound, limit=1), None) if bound else None
        read = versions[:limit]
        return SinceMoment(
            last,
            changes=len({each.revision for each in read}),
            actors=len({str(each.actor or "") for each in read}),
            is_cut=len(versions) > limit,
            fates=_fates(read),
        )

    return Read("log", work)


def _fates(versions: list[Version]) -> dict[str, tuple[Fate, Version]]:
    found: dict[str, tuple[Fate, Version]] = {}
    by_memory = sorted(versions, key=lambda each: (each.memory_id, -to_us(each.created_at)))
    for memory_id, group in groupby(by_memory, key=lambda each: each.memory_id):
        newest, *others = group
        was_there = [newest, *others][-1].operation != "created"
        is_there = newest.operation != "deleted"
        if was_there or is_there:
            found[memory_id] = ("changed" if was_there and is_there else "new" if is_there else "gone"), newest
    return found
