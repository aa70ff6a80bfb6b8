"""Path patterns and actor patterns, as used in settings.

In a path pattern, `*` matches any characters within one name, and `?` matches one character. `**` between two slashes
matches any number of names, as in Git. A pattern that matches a directory covers everything below the directory.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache

from retentive.errors import InvalidInput, Refused
from retentive.values.paths import ROOT, MemoryPath
from retentive.values.records import ACTOR_KINDS

_NAMES = "**"
MAX_PATTERN_CHARS = 1_100
MAX_TRUST_PATTERN_CHARS = 2_010  # long enough for a whole source


def check_path_pattern(pattern: object) -> str:
    """Return the pattern in Unicode NFC. Raises `InvalidInput` if no path can match it."""
    if not isinstance(pattern, str) or not 1 <= len(pattern) <= MAX_PATTERN_CHARS:
        raise InvalidInput("a path pattern must be a string such as /memories/notes/**")
    normal = unicodedata.normalize("NFC", pattern)
    if normal != ROOT and not normal.startswith(ROOT + "/"):
        raise InvalidInput(f"path pattern {pattern!r} must start with {ROOT}/")
    if normal.endswith("/") or "//" in normal or "***" in normal:
        raise InvalidInput(
            f"path pattern {pattern!r} contains an empty name or ***; use names, * or ** between single slashes"
        )
    names = normal.split("/")
    if any(_NAMES in name for name in names if name != _NAMES):
        raise InvalidInput(f"path pattern {pattern!r} has ** next to other characters; ** replaces whole names")
    below = "/".join(name for name in names if name != _NAMES).replace("?", "a")
    for filler in ("a", ""):  # with short texts for the wildcards, the pattern must be a path
        with suppress(Refused):
            MemoryPath.parse(below.replace("*", filler))
            return normal
    raise InvalidInput(f"path pattern {pattern!r} has a name that no path can have, or is too long")


def check_name_pattern(pattern: object) -> str:
    """Check a pattern that matches sources, sessions, integrations or flags, and return it unchanged.

    Raises `InvalidInput` if the pattern is not a string, is empty or is too long.
    """
    if not isinstance(pattern, str) or not 1 <= len(pattern) <= MAX_PATTERN_CHARS:
        raise InvalidInput(f"a pattern must be a string of 1 to {MAX_PATTERN_CHARS} characters, such as web:*")
    return pattern


def check_actor_pattern(pattern: object) -> str:
    """Check an actor pattern such as `session:*`, and return it unchanged.

    Raises `InvalidInput` if the pattern is not a string, is empty or too long, or if no actor can match it.
    """
    if not isinstance(pattern, str) or not 1 <= len(pattern) <= MAX_PATTERN_CHARS:
        raise InvalidInput("an actor pattern must be a string such as session:* or user:ann")
    kind, colon, _ = pattern.partition(":")
    if not {"*", "?"} & set(kind) and not (colon and kind in ACTOR_KINDS):
        kinds = ", ".join(ACTOR_KINDS)
        raise InvalidInput(
            f"actor pattern {pattern[:80]!r} matches no actor; write KIND:NAME, such as user:ann or session:*, "
            f"with one of the kinds {kinds}"
        )
    return pattern


def check_trust_pattern(pattern: object) -> str:
    """Check a pattern that matches actors or sources, and return it. Raises `InvalidInput` if it is not valid."""
    if not isinstance(pattern, str) or pattern in {"", "source:"} or len(pattern) > MAX_TRUST_PATTERN_CHARS:
        raise InvalidInput("a trust pattern must be a string such as session:* or source:web:*")
    return pattern


def covers(patterns: Iterable[str], path: str) -> bool:
    """Return whether one of the patterns matches the path or a directory above it."""
    return any(_path_pattern(pattern).match(path) for pattern in patterns)


def matches_actor(pattern: str, actor: str) -> bool:
    """Return whether the pattern matches an actor such as `user:ann`. The empty string means an unknown actor."""
    return _actor_pattern(pattern).match(actor) is not None


@lru_cache(maxsize=1_024)
def _path_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a path pattern. The result matches a path if the pattern matches the path or a directory above it.

    Each `**` matches as few names as possible.
    """
    if pattern.endswith("/**"):
        pattern = pattern[:-1]  # `/a/*` matches each name in `/a`, and so covers everything below `/a`, like `/a/**`
    parts = [part.split("/")[1:] for part in re.split(r"(?:/\*\*)+(?=/)", pattern)]
    first, *rest = ["".join("/" + _regex(name, star="[^/]", end="(?![^/])") for name in names) for names in parts]
    return re.compile(first + "".join(f"(?>(?:/[^/]+)*?{part})" for part in rest))


@lru_cache(maxsize=1_024)
def _actor_pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(_regex(pattern, star=".", end=r"\Z"), re.DOTALL)


def _regex(pattern: str, *, star: str, end: str) -> str:
    """Return a regular expression for a pattern with stars.

    The pieces between the stars are matched in order, each at its first occurrence. The first occurrence leaves the
    most text for the later pieces, so the expression never tries a later occurrence. With plain backtracking, a pattern
    with many stars could take hours.
    """
    first, *pieces = (re.escape(piece).replace(r"\?", "[^/]") for piece in re.split(r"\*+", pattern))
    if not pieces:
        return first + end
    *middle, last = pieces
    return "".join([first, *(f"(?>{star}*?{piece})" for piece in middle), f"{star}*{last}{end}"])
