"""Table of the rules of the Messages API, read from `rules.tsv`.

A source is a page of the API documentation ("docs"), the types of the SDK ("types"), or a public report of the error.
"own words" marks documented rules whose error text is not public.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

from retentive.testing.scripted_claude.errors import KINDS, ApiError


@dataclass(frozen=True, slots=True)
class Rule:
    """Rule of the API. `text` is a format string for the error message."""

    status: int
    source: str
    text: str


def _read() -> dict[str, Rule]:
    rows = (line.split("\t") for line in files(__package__).joinpath("rules.tsv").read_text("utf-8").splitlines()[1:])
    return {name: Rule(int(status), source, text) for name, status, source, text in rows}


RULES: Mapping[str, Rule] = _read()


def refusal(rule: str, where: str = "", *, details: Mapping[str, object] | None = None, **values: object) -> ApiError:
    """Create the error of a rule of the table. The error names its rule."""
    row = RULES[rule]
    return ApiError(row.status, KINDS[row.status], row.text.format(where=where, **values), details, rule=rule)


def refuse_if(broken: object, rule: str, where: str = "", **values: object) -> None:
    """Raise the error of a rule if it is broken."""
    if broken:
        raise refusal(rule, where, details=None, **values)
