"""What a kind and a rule of sensitive values are."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from retentive.errors import InvalidInput

HOLDS_WITHIN = 100  # characters of a match within which one of `holds` or the gate stands
NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")


@dataclass(frozen=True, slots=True)
class Kind:
    """A sort of sensitive value, which users pick by its name."""

    name: str
    description: str
    on: bool = True


@dataclass(frozen=True, slots=True)
class Find:
    """A sensitive value: its kind, and where it stands, in characters."""

    kind: str
    start: int
    end: int


@dataclass(frozen=True)
class Rule:
    """A pattern of `re` for one kind of value; the group `value`, or else the whole match, is what is sensitive.

    `check` has the last word on the value. The rest makes the search fast and never changes what a correct rule
    finds: with `starts`, every match starts with one of these texts; with `holds`, one of them stands among its
    first 100 characters; with `gate`, a pattern of RE2, it matches there (with both, the gate says whether, and
    `holds` where); `then`, of RE2 too, follows `starts`. A rule without any of them reads every text from its start
    to its end. Patterns are run by `re`: one that backtracks without bounds makes every write slow.
    """

    name: str
    pattern: str
    check: Callable[[str], bool] | None = None
    starts: tuple[str, ...] = field(default=(), kw_only=True)
    holds: tuple[str, ...] = field(default=(), kw_only=True)
    gate: str = field(default="", kw_only=True)
    then: str = field(default="", kw_only=True)
    ignore_case: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise InvalidInput(
                f"{self.name!r} is no name of a rule: it takes lower-case letters, digits, _ and -, at most 40, "
                "and starts with a letter"
            )

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """The pattern, compiled at first use. Raises `InvalidInput` for one that `re` does not take."""
        try:
            return re.compile(self.pattern, re.IGNORECASE if self.ignore_case else 0)
        except (re.error, OverflowError, RecursionError) as error:
            raise InvalidInput(f"the pattern of the rule {self.name!r} is not valid: {error}") from None

    def found(self, match: re.Match[str]) -> Find | None:
        """What a match of the pattern means, if its value passes the check."""
        group = "value" if "value" in self.compiled.groupindex else 0
        start, end = match.span(group)
        if end <= max(start, 0) or (self.check is not None and not self.check(match[group])):
            return None
        return Find(self.name, start, end)
