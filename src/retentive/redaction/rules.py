"""Types of the redaction rules: a kind of sensitive value, a rule that finds values of a kind, and a match."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

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
