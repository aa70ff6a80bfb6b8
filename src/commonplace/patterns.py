"""Patterns of paths and of actors, as settings name them.

`*` stands for any part of one name, `?` for one character, `**` for any names. A pattern that matches a directory
covers all below it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from commonplace.errors import InvalidInput
from commonplace.paths import ROOT, ancestors

_PARTS = {"**": ".*", "*": "[^/]*", "?": "[^/]"}
_SPLIT = re.compile(r"(\*\*|\*|\?)")
MAX_PATTERN_CHARS = 1_100
MAX_STARS_FOR_RE = 2


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
    return any(_compiled(pattern)(place) for pattern in patterns for place in places)


def matches_actor(pattern: str, actor: str) -> bool:
    """Whether the pattern matches an actor; one that is not known is the empty text."""
    return _compiled(pattern.replace("**", "*").replace("*", "**"))(actor)


@lru_cache(maxsize=1_024)
def _compiled(pattern: str) -> Callable[[str], bool]:
    """What says whether a text matches, in bounded time: `re` would try some patterns of many stars for hours."""
    parts = _SPLIT.split(pattern)
    if sum(part in {"*", "**"} for part in parts) > MAX_STARS_FOR_RE:
        tokens = [token for part in parts for token in ([part] if part in _PARTS else part)]
        return lambda text: _matches(tokens, text)
    compiled = re.compile("".join(_PARTS.get(part) or re.escape(part) for part in parts), re.DOTALL)
    return lambda text: compiled.fullmatch(text) is not None


def _matches(tokens: Sequence[str], text: str) -> bool:
    """Whether tokens (characters and wildcards) match a text: all ways to do so are followed at once."""
    at = _with_empty(tokens, {0})
    for char in text:
        after = set[int]()
        for place in at:
            part = tokens[place] if place < len(tokens) else ""
            if part == "**" or (part == "*" and char != "/"):
                after.add(place)
            elif part == char or (part == "?" and char != "/"):
                after.add(place + 1)
        at = _with_empty(tokens, after)
    return len(tokens) in at


def _with_empty(tokens: Sequence[str], places: set[int]) -> set[int]:
    """These places, and those reached from them by stars that match nothing."""
    for place in list(places):
        beyond = place
        while beyond < len(tokens) and tokens[beyond] in {"*", "**"}:
            beyond += 1
            places.add(beyond)
    return places
