"""Redaction rules: their types, and the built-in ones as data (`rules.toml`)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib.resources import files
from typing import Any, NamedTuple

from retentive.errors import InvalidInput

NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of sensitive value, such as `github_token`.

    Settings refer to it by `name`. `on` is True if values of this kind are found by default.
    """

    name: str
    description: str
    on: bool = True


class Find(NamedTuple):
    """A match: a sensitive value in a text, with its kind and its start and end in characters.

    If `likely` is True, only the context suggests that the value is sensitive. Otherwise the match is certain.
    """

    kind: str
    start: int
    end: int
    likely: bool = False


@dataclass(frozen=True)
class Rule:
    """Regular expression (`re`) for one kind of sensitive value. The value is the group `value`, or the whole match.

    `check` takes a matched value and returns whether it counts. `starts` makes the search faster: only texts that
    contain one of these strings are searched, so every match must contain one of them. With `ignore_case`, `starts` has
    no effect. If `likely` is True, the setting `sensitive_likely` applies to the matches, not the setting `sensitive`.

    A rule without `starts` searches every text in full. A pattern with unbounded backtracking slows every write.
    """

    name: str
    pattern: str
    check: Callable[[str], bool] | None = None
    starts: tuple[str, ...] = field(default=(), kw_only=True)
    ignore_case: bool = field(default=False, kw_only=True)
    likely: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise InvalidInput(
                f"invalid rule name {self.name!r}: use at most 40 lower-case letters, digits, _ and -, "
                "starting with a letter"
            )

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """The pattern, compiled at first use. Raises `InvalidInput` if `re` cannot compile it."""
        try:
            return re.compile(self.pattern, re.IGNORECASE if self.ignore_case else 0)
        except (re.error, OverflowError, RecursionError) as error:
            raise InvalidInput(f"invalid pattern in rule {self.name!r}: {error}") from None

    def to_find(self, match: re.Match[str]) -> Find | None:
        """Convert a match of the pattern to a `Find`. Return None if the value is empty or fails the check."""
        group = "value" if "value" in self.compiled.groupindex else 0
        start, end = match.span(group)
        if end <= max(start, 0) or (self.check is not None and not self.check(match[group])):
            return None
        return Find(self.name, start, end, likely=self.likely)


@cache
def data() -> Any:
    """Return the tables of `rules.toml`. They are constant."""
    return tomllib.loads(files("retentive.redaction").joinpath("rules.toml").read_text("utf-8"))


def expanded(pattern: str) -> str:
    """Return a pattern of `rules.toml` with the `parts` that it names filled in."""
    for name, part in data()["parts"].items():
        pattern = pattern.replace(f"<{name}>", part)
    return pattern


def lowered(text: str) -> str:
    r"""Return the text in lower case, with each character at its old position.

    Only \u0130 needs care, because its lower case has two characters.
    """
    return text.lower() if text.isascii() else text.replace("\u0130", "I").lower()
