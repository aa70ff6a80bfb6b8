"""Path patterns and actor patterns, as used in settings.

In a path pattern `*` matches any part of one name, `?` one character of a name, and `**` in place of a name any number
of names, as in Git. A pattern that matches a directory covers everything below it.
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
    "reason_dots": "contains the name '{name}'",
    "reason_backslash": "contains a backslash",
    "reason_unseen": "contains the invisible character {code_point}",
    "reason_encoded": "contains an encoded or look-alike '..', '/', '\\' or control character",
}
_TOO_LONG = "is longer or deeper than any path"


def check_path_pattern(pattern: object) -> str:
    """Return the pattern in Unicode NFC. Raises `InvalidInput` if no path can match it."""
    if not isinstance(pattern, str) or not 1 <= len(pattern) <= MAX_PATTERN_CHARS:
        raise InvalidInput("a path pattern must be a string such as /memories/notes/**")
    normal = unicodedata.normalize("NFC", pattern)
    if normal != ROOT and not normal.startswith(ROOT + "/"):
        raise InvalidInput(f"path pattern {pattern!r} must start with {ROOT}/")
    if normal.endswith("/") or "//" in normal or "***" in normal:
        raise InvalidInput(f"path pattern {pattern!r} contains an empty name or ***")
    names = normal.split("/")
    if any(_NAMES in name for name in names if name != _NAMES):
        raise InvalidInput(f"path pattern {pattern!r} has ** next to other characters; ** replaces whole names")
    reason = _mismatch("/".join(name for name in names if name != _NAMES))
    if reason is not None:
        problem = _REASONS.get(reason.key, _TOO_LONG).format(**reason.values)
        raise InvalidInput(f"path pattern {pattern!r} {problem}; no path can match it")
    return normal


def _mismatch(pattern: str) -> Phrase | None:
    """The reason why no path can match a pattern, or None. Tries short texts in place of the wildcards."""
    reason = None
    for filler in ("a", ""):
        try:
            MemoryPath.parse(pattern.replace("?", "a").replace("*", filler))
        except Refused as refusal:
            why = refusal.values.get("reason")
            reason = why if isinstance(why, Phrase) else Phrase(refusal.key, {})
        else:
            return None
    return reason


def check_actor_pattern(pattern: object) -> str:
    """Return the pattern. Raises `InvalidInput` if it is not an actor pattern such as `session:*`."""
    if not isinstance(pattern, str) or not 1 <= len(pattern) <= MAX_PATTERN_CHARS:
        raise InvalidInput("an actor pattern must be a string such as session:* or user:ann")
    return pattern


def covers(patterns: Iterable[str], path: str) -> bool:
    """Return whether one of the patterns matches the path or a directory above it."""
    return any(_covering(pattern)(path) for pattern in patterns)


def matches_actor(pattern: str, actor: str) -> bool:
    """Return whether the pattern matches an actor. An unknown actor is the empty string."""
    return _compiled(pattern.replace("**", "*").replace("*", "**"))(actor)


@lru_cache(maxsize=1_024)
def _covering(pattern: str) -> Callable[[str], bool]:
    """Matcher for paths that runs in bounded time. With `re`, some patterns with many stars would take hours."""
    split = pattern.split("/")[1:]
    names = [name for name, before in zip(split, ["", *split], strict=False) if (name, before) != (_NAMES, _NAMES)]
    if names[-1] == _NAMES:
        names[-1] = "*"  # at least one name; everything below is covered anyway
    stars = sum(name == _NAMES or name.count("*") for name in names)
    return _by_names(names) if stars > MAX_STARS_FOR_RE else _by_re(names)


def _by_re(names: Sequence[str]) -> Callable[[str], bool]:
    parts = ["(?:/[^/]+)*" if name == _NAMES else "/" + _regex(name) for name in names]
    compiled = re.compile("".join(parts) + "(?:/.*)?", re.DOTALL)
    return lambda path: compiled.fullmatch(path) is not None


def _by_names(names: Sequence[str]) -> Callable[[str], bool]:
    """Matcher that follows all possible matches at once, name by name."""
    matches = [None if name == _NAMES else _compiled(name) for name in names]

    def skip_empty(positions: set[int]) -> set[int]:
        """Add the positions reached by a `**` that matches no name. Two `**` are never adjacent."""
        return positions | {each + 1 for each in positions if each < len(matches) and matches[each] is None}

    def covered(path: str) -> bool:
        current = skip_empty({0})
        for name in path.split("/")[1:]:
            after = set[int]()
            for position in current - {len(matches)}:
                match = matches[position]
                if match is None:
                    after.add(position)
                elif match(name):
                    after.add(position + 1)
            current = skip_empty(after)
            if len(matches) in current:
                return True
        return False

    return covered


def _regex(pattern: str) -> str:
    return "".join(_PARTS.get(part) or re.escape(part) for part in _SPLIT.split(pattern))


@lru_cache(maxsize=1_024)
def _compiled(pattern: str) -> Callable[[str], bool]:
    """Matcher for texts that are not paths, where `**` matches any part. Runs in bounded time, as `_covering`."""
    parts = _SPLIT.split(pattern)
    if sum(part in {"*", "**"} for part in parts) > MAX_STARS_FOR_RE:
        tokens = [token for part in parts for token in ([part] if part in _PARTS else part)]
        return lambda text: _matches(tokens, text)
    compiled = re.compile(_regex(pattern), re.DOTALL)
    return lambda text: compiled.fullmatch(text) is not None


def _matches(tokens: Sequence[str], text: str) -> bool:
    """Return whether tokens (characters and wildcards) match a text. Follows all possible matches at once."""
    current = _skip_empty(tokens, {0})
    for char in text:
        after = set[int]()
        for position in current:
            symbol = tokens[position] if position < len(tokens) else ""
            if symbol == "**" or (symbol == "*" and char != "/"):
                after.add(position)
            elif symbol == char or (symbol == "?" and char != "/"):
                after.add(position + 1)
        current = _skip_empty(tokens, after)
    return len(tokens) in current


def _skip_empty(tokens: Sequence[str], positions: set[int]) -> set[int]:
    """Add the positions reached by stars that match the empty text."""
    for position in list(positions):
        following = position
        while following < len(tokens) and tokens[following] in {"*", "**"}:
            following += 1
            positions.add(following)
    return positions
