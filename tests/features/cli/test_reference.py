"""docs/cli.md and the manual page are generated from the commands, and document every command."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from retentive.cli import manual
from retentive.cli.app import app
from retentive.cli.catalogue import COMMANDS
from retentive.cli.exits import EXITS
from retentive.cli.options import GlobalOption
from retentive.cli.reference import EXECUTING, page
from support.command_line import here

PAGE = Path(__file__).parents[3] / "docs" / "cli.md"
MANUAL = PAGE.with_name("retentive.1")


def everything(name: str = "retentive", command: click.Command = app) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for each in command.list_commands(context):
            found = command.get_command(context, each)
            assert found is not None
            yield from everything(f"{name} {each}", found)


def test_the_page_is_up_to_date() -> None:
    assert page() == PAGE.read_text(encoding="utf-8"), "run: make docs"


def test_the_manual_page_is_up_to_date_and_valid(tmp_path: Path) -> None:
    assert manual.page() == MANUAL.read_text(encoding="utf-8"), "run: make docs"
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed")
    rendered = subprocess.run(
        ["groff", "-man", "-ww", "-Tutf8", "-P-cbou", str(MANUAL)], capture_output=True, text=True, check=True
    )
    assert rendered.stderr == ""
    for name, _ in everything():
        assert f"   {name} [" in rendered.stdout or name == "retentive"
    assert "git log --oneline | retentive create log.txt -\n" in rendered.stdout


def test_every_command_and_option_is_documented() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for name, command in everything():
        assert f"# {name}\n" in text
        assert command.help, f"{name} has no help"
        section = text.split(f"# {name}\n")[1].split("\n#")[0]
        for param in command.params:
            if isinstance(param, click.Option) and (command is app or not isinstance(param, GlobalOption)):
                assert param.help, f"{name} {param.opts} has no help"
                assert f"`{param.opts[-1]}" in section, f"{name} {param.opts} is not documented"


def test_every_command_has_the_name_in_the_table() -> None:
    assert [name.split()[1] for name, _ in everything() if name.count(" ") == 1] == list(COMMANDS)


def test_every_exit_status_is_documented() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for row in EXITS:
        assert f"| {row.status} | {row.meaning} |" in text


def test_the_example_of_exec_is_real(tmp_path: Path) -> None:
    _, command, *replies, _ = EXECUTING.splitlines()
    lines = command.split("'")[3::2][:2]
    ended = here(f"sqlite:///{tmp_path}/m.db", "exec", text="".join(line + "\n" for line in lines).encode())
    assert ended.stdout.splitlines() == replies
    assert [json.loads(line)["code"] for line in replies] == ["not_found", "invalid_input"]
