"""Trust levels of the contributors to a text, as the settings assign them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias, cast

from retentive.errors import InvalidInput
from retentive.values.patterns import matches_actor
from retentive.values.provenance import Contributor
from retentive.values.records import Version
from retentive.values.settings import TRUST_LEVELS, Settings

Level: TypeAlias = Literal["trusted", "unconfirmed", "quarantined"]
LEVELS = cast("tuple[Level, ...]", TRUST_LEVELS)
"""Trust levels, from most to least trusted."""
TRUSTED, UNCONFIRMED, QUARANTINED = LEVELS
SOURCE = "source:"
"""Prefix of the patterns that match sources. All other patterns match actors and sessions."""


def is_used(settings: Settings) -> bool:
    """Return whether the settings distinguish trust levels."""
    return bool(settings.trust or settings.quarantine)


class Levels:
    """Trust levels that the settings of a store assign to contributors.

    A contributor is quarantined if it matches a pattern in the setting `quarantine`, or a pattern to which the setting
    `trust` assigns the level `quarantined`. For all other contributors, the patterns in `trust` are tried in this
    order: patterns for sources, and patterns for actors and sessions. Within each of these groups, longer patterns are
    tried before shorter ones. The first match decides. A contributor without a match is trusted.
    """

    def __init__(self, settings: Settings) -> None:
        by_length = sorted(settings.trust.items(), key=lambda item: (-len(item[0]), item[0]))
        self._rules = [(pattern, cast("Level", level)) for pattern, level in by_length]
        self._hidden = [*settings.quarantine, *(pattern for pattern, level in self._rules if level == QUARANTINED)]
        self._known: dict[object, Level] = {}

    def of(self, contributor: Contributor) -> Level:
        """Return the trust level of one contributor."""
        level = self._known.get(contributor.names)
        if level is None:
            level = self._known[contributor.names] = self._found(list(_names(contributor)))
        return level

    def least(self, contributors: Iterable[Contributor]) -> Level:
        """Return the least trusted level of several contributors; `trusted` if there are no contributors."""
        return max(map(self.of, contributors), key=LEVELS.index, default=TRUSTED)

    def _found(self, names: list[str]) -> Level:
        if any(_fits(pattern, name) for pattern in self._hidden for name in names):
            return QUARANTINED
        for kind in (SOURCE, ""):
            same = [name for name in names if _kind(name) == kind]
            for pattern, level in self._rules:
                if any(_fits(pattern, name) for name in same):
                    return level
        return TRUSTED


def session_of(version: Version) -> str:
    """Return the session of a version; empty if there is none.

    This is the session that the application named. If it named none and the actor is a session, this is the
    id of the actor.
    """
    actor = version.actor
    return version.provenance.session or (actor.id if actor is not None and actor.kind == "session" else "")


def author_of(version: Version) -> Contributor:
    """Return the author of one version as a contributor."""
    made = version.provenance
    actor = "" if version.actor is None else str(version.actor)
    return Contributor("", actor, made.session, made.source)


def check_level(level: object) -> None:
    """Raise `InvalidInput` for an unknown level. None is allowed and means any level."""
    if level is not None and level not in LEVELS:
        raise InvalidInput(f"a trust level must be one of {', '.join(LEVELS)}")


def described(contributor: Contributor) -> str:
    """Return a short description of a contributor: its actor, session and source."""
    actor = contributor.actor or "an actor without a name"
    names = [name for name in _names(contributor) if name not in {contributor.actor, ""}]
    return " ".join([actor, *names])


def _names(contributor: Contributor) -> Iterator[str]:
    yield contributor.actor
    if contributor.session:
        yield f"session:{contributor.session}"
    if contributor.source:
        yield SOURCE + contributor.source


def _kind(text: str) -> str:
    return SOURCE if text.startswith(SOURCE) else ""


def _fits(pattern: str, name: str) -> bool:
    """Return whether a pattern matches a name. A pattern for actors never matches a source."""
    return _kind(pattern) == _kind(name) and (pattern == name or matches_actor(pattern, name))
