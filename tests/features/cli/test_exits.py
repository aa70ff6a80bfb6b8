"""Every error has one exit status, and the example of `exec` in docs/commands.md is real."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import click

from retentive.agent import AgentError
from retentive.cli.exits import EXITS, status_of
from retentive.errors import RetentiveError
from retentive.values.replies import ERROR_CODES
from support.command_line import here

PAGE = Path(__file__).parents[3] / "docs" / "commands.md"
_NEVER = {
    AgentError: "of the library's agents, which no command runs",
}
LISTED = [code for _, codes in EXITS.values() for code in codes]


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
    assert sorted(EXITS) == list(EXITS)


def test_an_error_is_never_a_success() -> None:
    assert [code for code in LISTED if status_of(code) == 0] == []
    assert status_of("a code of a custom backend") == 1
    assert status_of("invalid_input") == click.UsageError.exit_code


def test_the_example_of_exec_is_real(tmp_path: Path) -> None:
    text = re.search(r"```console\n(\$ printf .*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert text is not None
    command, *replies = text[1].splitlines()
    lines = command.split("'")[3::2][:2]
    ended = here(f"sqlite:///{tmp_path}/m.db", "exec", text="".join(line + "\n" for line in lines).encode())
    assert ended.stdout.splitlines() == replies
    assert [json.loads(line)["code"] for line in replies] == ["not_found", "invalid_input"]
