"""Contributors to the text of a memory: who wrote the texts that it builds on.

A version names its contributors in its provenance while they are at most `INLINE`. More are entries of a *set*: one
record for each contribution, in order. The provenance then names only the set and the number of its entries that count
for this version, so that a memory with many contributors does not store all of them with each version. An entry is
never changed or dropped: a rule that is set later may match it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, takewhile

from retentive.storage.contract import Snapshot
from retentive.values.provenance import (
    Contributor,
    ContributorSet,
    HasProvenance,
    Provenance,
    parse_provenance,
    provenance_of,
)

KIND = "contributors"
"""Kind of the records of all sets. The key is the name of the set, a dot, and the number of the entry."""
INLINE = 16
_RENEWED_AT = 4  # a set with this many times the entries that it began with is followed by a new one, of one entry each


def contributors_of(snapshot: Snapshot, found: HasProvenance) -> Sequence[Contributor]:
    """Return the contributions to the text of a version or memory: the newest of each contributor, newest last."""
    return _contributors(snapshot, provenance_of(found), {})


class Lineage:
    """Joins the contributors of the texts that a change builds on. `entries` are the records to write with it."""

    def __init__(self) -> None:
        self.entries: dict[str, str] = {}

    @property
    def records(self) -> list[tuple[str, str, str]]:
        """Kind, key and value of each record."""
        return [(KIND, key, text) for key, text in self.entries.items()]

    def join(
        self, snapshot: Snapshot, earlier: Sequence[str | None], own: Contributor
    ) -> tuple[Sequence[Contributor], ContributorSet | None]:
        """Return what the provenance of a change names: the contributors of `earlier` and then `own`, or their set.

        `earlier` are stored provenances.
        """
        made = [parse_provenance(text) for text in earlier if text is not None]
        only = made[0].contributor_set if len(made) == 1 else None
        if only is not None and only.size < _RENEWED_AT * only.first_size and self._is_newest(snapshot, only):
            return [own], self._added(only, [*made[0].contributors[1:], own])  # edits of plain files are not in the set
        every = chain.from_iterable(_contributors(snapshot, each, self.entries) for each in made)
        joined = {each.names: each for each in every if each.names != own.names} | {own.names: own}
        if len(joined) <= INLINE:
            return list(joined.values()), None
        begun = ContributorSet(os.urandom(8).hex(), 0, len(joined))
        return [own], self._added(begun, list(joined.values()))

    def _is_newest(self, snapshot: Snapshot, found: ContributorSet) -> bool:
        """Return whether no later version has added an entry to the set."""
        key = _key(found.name, found.size)
        return key not in self.entries and snapshot.get_record(KIND, key) is None

    def _added(self, to: ContributorSet, contributors: Sequence[Contributor]) -> ContributorSet:
        for number, each in enumerate(contributors, to.size):
            self.entries[_key(to.name, number)] = json.dumps(each, separators=(",", ":"))
        return to._replace(size=to.size + len(contributors))


def forgotten(snapshot: Snapshot, versions: Iterable[HasProvenance]) -> list[tuple[str, str, None]]:
    """Return the records that remove the sets of versions. Use it only if no other version has them: at an erasure."""
    names = {found.name for each in versions if (found := provenance_of(each).contributor_set) is not None}
    return [(KIND, key, None) for name in sorted(names) for key, _ in _records(snapshot, name, None)]


def _contributors(snapshot: Snapshot, made: Provenance, entries: Mapping[str, str]) -> Sequence[Contributor]:
    found = made.contributor_set
    if found is None:
        return made.contributors
    new = {key: text for key, text in entries.items() if key.startswith(f"{found.name}.")}
    whole = dict(_records(snapshot, found.name, found.size)) | new
    counted = [Contributor(*json.loads(whole[key])) for key in sorted(whole)[: found.size]]
    counted += made.contributors[1:]
    return list({each.names: each for each in reversed(counted)}.values())[::-1]


def _records(snapshot: Snapshot, name: str, limit: int | None) -> Iterator[tuple[str, str]]:
    return takewhile(lambda each: each[0].startswith(f"{name}."), snapshot.records(KIND, after=f"{name}.", limit=limit))


def _key(name: str, number: int) -> str:
    return f"{name}.{number:08d}"
