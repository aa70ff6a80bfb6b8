"""Patterns of paths and of actors, as settings name them.

In a pattern of paths `*` stands for any part of one name, `?` for one character of it, and `**` in place of a name for
any number of names, as in Git's. A pattern that matches a directory covers all below it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from retentive.errors import InvalidInput, Phrase, Refused
from retentive.values.paths import ROOT, MemoryPath

_PARTS = {"**": ".*", "*": "[^/]*", "?": "[^/]"}
_SPLIT = re.compile(r"(\*\*|\*|\?)")
_NAMES = "**"
MAX_PATTERN_CHARS = 1_100
MAX_STARS_FOR_RE = 2
_REASONS = {
    "path_escapes": "leads above /memories",
    "reason_dots": "has the name '{name}' in it",
    "reason_backslash": "has a backslash in it",
    "reason_unseen": "has the invisible character {code_point} in it",
    "reason_encoded": "has an encoded or look-alike '..', '/', '\\' or control character in it",
}
_TOO_LONG = "is longer or deeper than a path may be"


def check_path_pattern(pattern: object) -> str:
    """The pattern in Unicode NFC, as paths are, if it is one that a path may match. Raises `InvalidInput`."""
    if not isinstance(pattern, str) or not 1 <= len(pattern) <= MAX_PATTERN_CHARS:
        raise InvalidInput("a path pattern is a text such as /memories/notes/**")
    normal = unicodedata.normalize("NFC", pattern)
    if normal != ROOT and not normal.startswith(ROOT + "/"):
        raise InvalidInput(f"the path pattern {pattern!r} must begin with {ROOT}/")
    if normal.endswith("/") or "//" in normal or "***" in normal:
        raise InvalidInput(f"the path pattern {pattern!r} has an empty name or three stars in it")
    names = normal.split("/")
    if any(_NAMES in name for name in names if name != _NAMES):
        raise InvalidInput(f"the path pattern {pattern!r} has ** beside other characters: it stands for whole names")
    reason = _never("/".join(name for name in names if name != _NAMES))
    if reason is not None:
        said = _REASONS.get(reason.key, _TOO_LONG).format(**reason.values)
        raise InvalidInput(f"the path pattern {pattern!r} {said}, as no path has")
    return normal


def _never(pattern: str) -> Phrase | None:
    """Why no path matches a pattern; None if some path does: one with little in place of the wildcards."""
    reason = None
    for little in ("a", ""):
        try:
            MemoryPath.parse(pattern.replace("?", "a").replace("*", little))
        except Refused as refusal:
            found = refusal.values.get("reason")
            reason = found if isinstance(found, Phrase) else Phrase(refusal.key, {})
        else:
            return None
    return reason


def check_actor_pattern(pattern: object) -> str:
    """The pattern, if it is one of actors, as in `session:*`. Raises `InvalidInput`."""
    if not isinstance(pattern, str) or not 1 <= len(pattern) <= MAX_PATTERN_CHARS:
        raise InvalidInput("an actor pattern is a text such as session:* or user:ann")
    return pattern


def covers(patterns: Iterable[str], path: str) -> bool:
    """Whether one of the patterns matches the path, or a directory above it."""
    return any(_covering(pattern)(path) for pattern in patterns)


def matches_actor(pattern: str, actor: str) -> bool:
    """Whether the pattern matches an actor; one that is not known is the empty text."""
    return _compiled(pattern.replace("**", "*").replace("*", "**"))(actor)


@lru_cache(maxsize=1_024)
def _covering(pattern: str) -> Callable[[str], bool]:
    """What says whether a path is covered, in bounded time: `re` would try some patterns of many stars for hours."""
    split = pattern.split("/")[1:]
    names = [name for name, before in zip(split, ["", *split], strict=False) if (name, before) != (_NAMES, _NAMES)]
    if names[-1] == _NAMES:
        names[-1] = "*"  # one name at least; all below is covered anyhow
    stars = sum(name == _NAMES or name.count("*") for name in names)
    return _by_names(names) if stars > MAX_STARS_FOR_RE else _by_re(names)


def _by_re(names: Sequence[str]) -> Callable[[str], bool]:
    parts = ["(?:/[^/]+)*" if name == _NAMES else "/" + _regex(name) for name in names]
    compiled = re.compile("".join(parts) + "(?:/.*)?", re.DOTALL)
    return lambda path: compiled.fullmatch(path) is not None


def _by_names(names: Sequence[str]) -> Callable[[str], bool]:
    """All ways to match are followed at once, name by name."""
    matches = [None if name == _NAMES else _compiled(name) for name in names]

    def beyond(places: set[int]) -> set[int]:
        """These places, and those reached from them by a `**` that stands for nothing; no two of them are in a row."""
        return places | {place + 1 for place in places if place < len(matches) and matches[place] is None}

    def covered(path: str) -> bool:
        at = beyond({0})
        for name in path.split("/")[1:]:
            after = set[int]()
            for place in at - {len(matches)}:
                match = matches[place]
                if match is None:
                    after.add(place)
                elif match(name):
                    after.add(place + 1)
            at = beyond(after)
            if len(matches) in at:
                return True
        return False

    return covered


def _regex(pattern: str) -> str:
    return "".join(_PARTS.get(part) or re.escape(part) for part in _SPLIT.split(pattern))


@lru_cache(maxsize=1_024)
def _compiled(pattern: str) -> Callable[[str], bool]:
    """What says whether a text, not a path, matches; `**` is any part of it. In bounded time, as `_covering`."""
    parts = _SPLIT.split(pattern)
    if sum(part in {"*", "**"} for part in parts) > MAX_STARS_FOR_RE:
        tokens = [token for part in parts for token in ([part] if part in _PARTS else part)]
        return lambda text: _matches(tokens, text)
    compiled = re.compile(_regex(pattern), re.DOTALL)
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
