"""Every error has one exit status. A single table defines them."""

from __future__ import annotations

from collections.abc import Iterator

import click

from retentive.agent import AgentError
from retentive.cli.exits import EXITS, status_of
from retentive.errors import RetentiveError
from retentive.values.replies import ERROR_CODES

_NEVER = {
    AgentError: "of the library's agents, which no command runs",
}
LISTED = [code for row in EXITS for code in row.codes]


def all_errors(above: type[RetentiveError] = RetentiveError) -> Iterator[type[RetentiveError]]:
    yield above
    for below in above.__subclasses__():
        is_ours = below.__module__.startswith("retentive.")  # other tests define errors of their own
        if is_ours and below not in _NEVER:
            yield from all_errors(below)


def test_every_code_is_in_the_table() -> None:
    assert {error.code for error in all_errors()} | set(ERROR_CODES.values()) <= set(LISTED)


def test_codes_and_statuses_are_unique() -> None:
    assert sorted(set(LISTED)) == sorted(LISTED)
    statuses = [row.status for row in EXITS]
    assert sorted(set(statuses)) == statuses


def test_an_error_is_never_a_success() -> None:
    assert [code for code in LISTED if status_of(code) == 0] == []
    assert status_of("a code of a custom backend") == 1


def test_invalid_input_has_the_status_of_usage_errors() -> None:
    assert status_of("invalid_input") == click.UsageError.exit_code
