"""Uses the versions that a server lists to compute changes and their differences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from retentive.errors import InvalidInput, NotFound
from retentive.history.differences import MemoryDifference, difference_of
from retentive.history.revisions import Revision
from retentive.history.versions import LoggedChange
from retentive.remote.methods import PAGE, Place, get, no_route, pages
from retentive.remote.requests import HttpExchange, JsonBody, segment
from retentive.values.records import Version
from retentive.wire.base import AnswerPage
from retentive.wire.versions import VersionObject

Befores = Mapping[str, Version | None]
"""Maps the id of a version to the previous version of the same memory. None if there is no previous version."""


def versions_of(store: Place, query: JsonBody, most: int | None = None) -> HttpExchange[list[Version]]:
    """Return the versions that `query` selects, newest first. Without `most`, return all of them."""
    found = yield from pages(store, "/memory_versions", AnswerPage[VersionObject], most=most, **query)
    return [each.version() for each in found]


def named(store: Place, query: JsonBody, revision: Revision) -> HttpExchange[LoggedChange]:
    """Return the change that a revision names.

    The change contains only the versions that `query` selects. Raises `NotFound`.
    """
    if isinstance(revision.base, str):
        version, _ = yield from version_with_text(store, revision.base)
        return grouped([version], {})[0]
    if isinstance(revision.base, datetime):
        raise no_route("naming a change by a time")
    number = revision.base
    found: list[Version] = []
    page: str | None = None
    while True:
        asked = {**query, "limit": PAGE, "page": page}
        answer = yield from get(store, AnswerPage[VersionObject], "/memory_versions", asked)
        found += [each.version() for each in answer.data]
        page = answer.next_page
        changes = [each for each in grouped(found, {}) if number is None or each.number <= number]
        if page is None or len(changes) > revision.back + 1:
            break
    if len(changes) <= revision.back or (number is not None and changes[0].number != number):
        raise NotFound(f"there is no change {revision.text}")
    return changes[revision.back]


def version_with_text(store: Place, version_id: str) -> HttpExchange[tuple[Version, str | None]]:
    """Return a version and its text.

    The text is None if the version is a deletion or is redacted. Raises `NotFound`.
    """
    try:
        found = yield from get(store, VersionObject, f"/memory_versions/{segment(version_id)}")
    except NotFound:
        raise NotFound(f"there is no version {version_id}") from None
    return found.version(), found.content


def befores(store: Place, versions: Iterable[Version]) -> HttpExchange[Befores]:
    """Return, for each version, the previous version of the same memory."""
    found: dict[str, Version | None] = {}
    for memory_id in dict.fromkeys(each.memory_id for each in versions if each.operation != "created"):
        listed = yield from versions_of(store, {"memory_id": memory_id})
        found |= {later.id: earlier for later, earlier in zip(listed, [*listed[1:], None], strict=True)}
    return found


def differences(
    store: Place, versions: Sequence[Version], before: Befores
) -> HttpExchange[tuple[MemoryDifference, ...]]:
    """Return the difference that each version made to its memory, oldest first.

    `versions` must be sorted from newest to oldest. `before` maps the id of each version to the previous version.
    """
    found: list[MemoryDifference] = []
    for version in reversed(versions):
        earlier = before.get(version.id)
        if earlier is None and version.operation != "created":
            raise InvalidInput(f"the version that precedes {version.id} was pruned (setting keep_versions_days)")
        found.append((yield from difference(store, earlier, version)))
    return tuple(found)


def difference(store: Place, old: Version | None, new: Version | None) -> HttpExchange[MemoryDifference]:
    """Return the difference between two versions of a memory.

    If an argument is None or a deletion, the memory did not exist on that side.
    """
    texts: list[str | None] = []
    for side in (old, new):
        is_there = side is not None and side.operation != "deleted"
        if side is not None and is_there and side.redacted_at is not None:
            return difference_of(old, new, reason=f"{side.id} was redacted; its text no longer exists")
        texts.append((yield from version_with_text(store, side.id))[1] if side is not None and is_there else None)
    return difference_of(old, new, texts[0], texts[1])


def grouped(versions: Iterable[Version], before: Befores) -> list[LoggedChange]:
    """Return the versions grouped by the command that wrote them. `versions` must be sorted from newest to oldest."""
    groups: list[list[Version]] = []
    for each in versions:
        if not groups or (groups[-1][0].revision, groups[-1][0].actor) != (each.revision, each.actor):
            groups.append([])
        groups[-1].append(each)
    return [
        LoggedChange(group[0].revision, group[0].actor, group[0].created_at, tuple(group), _moved(group, before))
        for group in groups
    ]


def _moved(versions: Iterable[Version], before: Befores) -> dict[str, str]:
    """Return the previous paths of renamed memories, by version id."""
    pairs = ((each, before.get(each.id)) for each in versions if each.operation == "modified" and each.path)
    return {each.id: old.path for each, old in pairs if old is not None and old.path not in {"", each.path}}


def befores_in(versions: Iterable[Version]) -> Befores:
    """Return the previous version of each version. `versions` must have all versions of each memory, newest first."""
    later: dict[str, Version] = {}
    found: dict[str, Version | None] = {}
    for each in versions:
        after = later.get(each.memory_id)
        if after is not None:
            found[after.id] = each
        later[each.memory_id] = each
    return found
