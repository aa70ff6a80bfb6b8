"""Every command and option has a help, and docs/cli.md has the exit statuses and a real example of `exec`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import click

from retentive.cli.app import app
from retentive.cli.exits import EXITS
from support.command_line import here

PAGE = Path(__file__).parents[3] / "docs" / "cli.md"


def everything(name: str = "retentive", command: click.Command = app) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for each in command.list_commands(context):
            found = command.get_command(context, each)
            assert found is not None
            yield from everything(f"{name} {each}", found)


def test_every_command_and_option_has_a_help() -> None:
    for name, command in everything():
        assert command.help, f"{name} has no help"
        for param in command.params:
            assert not isinstance(param, click.Option) or param.help, f"{name} {param.opts} has no help"


def test_every_command_has_the_name_in_the_table() -> None:
    assert [
        name for name, command in everything() if command.name != name.rpartition(" ")[2] and command is not app
    ] == []


def test_some_thirty_commands_are_at_the_top() -> None:
    assert len(app.list_commands(click.Context(app))) < 40


def test_every_exit_status_is_documented() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for row in EXITS:
        codes = ", ".join(f"`{code}`" for code in row.codes) or "-"
        assert f"| {row.status} | {row.meaning} | {codes} |" in text


def test_the_example_of_exec_is_real(tmp_path: Path) -> None:
    text = re.search(r"```console\n(\$ printf .*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert text is not None
    command, *replies = text[1].splitlines()
    lines = command.split("'")[3::2][:2]
    ended = here(f"sqlite:///{tmp_path}/m.db", "exec", text="".join(line + "\n" for line in lines).encode())
    assert ended.stdout.splitlines() == replies
    assert [json.loads(line)["code"] for line in replies] == ["not_found", "invalid_input"]
