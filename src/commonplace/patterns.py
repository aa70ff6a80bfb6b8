"""Patterns of paths and of actors, as settings name them.

`*` stands for any part of one name, `?` for one character, `**` for any names. A pattern that matches a directory
covers all below it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from commonplace.errors import InvalidInput
from commonplace.paths import ROOT, ancestors

_PARTS = {"**": ".*", "*": "[^/]*", "?": "[^/]"}
_SPLIT = re.compile(r"(\*\*|\*|\?)")
MAX_PATTERN_CHARS = 1_100


def check_path_pattern(pattern: object) -> str:
    """The pattern, if it is one of paths. Raises `InvalidInput`."""
    if not isinstance(pattern, str) or not 1 <= len(pattern) <= MAX_PATTERN_CHARS:
        raise InvalidInput("a path pattern is a text such as /memories/notes/**")
    if pattern != ROOT and not pattern.startswith(ROOT + "/"):
        raise InvalidInput(f"the path pattern {pattern!r} must begin with {ROOT}/")
    if pattern.endswith("/") or "//" in pattern or "***" in pattern:
        raise InvalidInput(f"the path pattern {pattern!r} has an empty name or three stars in it")
    return pattern


def check_actor_pattern(pattern: object) -> str:
    """The pattern, if it is one of actors, as in `session:*`. Raises `InvalidInput`."""
    if not isinstance(pattern, str) or not 1 <= len(pattern) <= MAX_PATTERN_CHARS:
        raise InvalidInput("an actor pattern is a text such as session:* or user:ann")
    return pattern


def covers(patterns: Iterable[str], path: str) -> bool:
    """Whether one of the patterns matches the path, or a directory above it."""
    places = (path, *ancestors(path), ROOT)
    return any(_compiled(pattern).fullmatch(place) for pattern in patterns for place in places)


def matches_actor(pattern: str, actor: str) -> bool:
    """Whether the pattern matches an actor; one that is not known is the empty text."""
    return _compiled(pattern.replace("**", "*").replace("*", "**")).fullmatch(actor) is not None


@lru_cache(maxsize=1_024)
def _compiled(pattern: str) -> re.Pattern[str]:
    parts = (_PARTS.get(part) or re.escape(part) for part in _SPLIT.split(pattern))
    return re.compile("".join(parts), re.DOTALL)
