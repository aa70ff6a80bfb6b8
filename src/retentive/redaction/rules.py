"""Types of the redaction rules: a kind of sensitive value, a rule that finds it, and a find."""

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
    """A kind of sensitive value. Settings refer to it by name."""

    name: str
    description: str
    on: bool = True


class Find(NamedTuple):
    """A sensitive value in a text: its kind and its span, in characters. If `likely`, only its context suggests it."""

    kind: str
    start: int
    end: int
    likely: bool = False


@dataclass(frozen=True)
class Rule:
    """Regular expression (`re`) for one kind of value. The sensitive part is the group `value`, or the whole match.

    `check` finally decides whether a matched value counts. `starts` only makes the search faster: every match must
    contain one of these texts. With `likely`, the setting `sensitive_likely` applies to the finds. A rule without
    `starts` searches every text in full, and a pattern with unbounded backtracking slows every write.
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
        """Return the find for a match, or None if its value fails the check."""
        group = "value" if "value" in self.compiled.groupindex else 0
        start, end = match.span(group)
        if end <= max(start, 0) or (self.check is not None and not self.check(match[group])):
            return None
        return Find(self.name, start, end, likely=self.likely)
