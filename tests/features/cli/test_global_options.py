"""Global options before and after commands, the help, suggestions, aliases, relative paths, usage errors as JSON."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import retentive
from retentive.cli.app import ALIASES, COMMANDS_BY_NAME, MEANT, app
from support.command_line import here, inside, terminal

PATH = "/memories/notes.md"


def at(directory: Path) -> str:
    return f"sqlite:///{directory}/memory.db"


def all_commands(group: click.Group = app, above: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield f"{above}{name}", command
        if isinstance(command, click.Group):
            yield from all_commands(command, f"{above}{name} ")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--at", "{}", "--store", "team", "--actor", "ann", "create", PATH, "text"],
        ["create", "--at", "{}", PATH, "--store=team", "text", "--actor", "ann"],
        ["--at", "sqlite:///elsewhere.db", "create", PATH, "text", "--actor", "ann", "--store", "team", "--at", "{}"],
    ],
)
def test_global_options_are_accepted_anywhere(tmp_path: Path, arguments: list[str]) -> None:
    given = [each.format(at(tmp_path)) for each in arguments]
    ended = inside(tmp_path, *given, RETENTIVE_STORE="other", RETENTIVE_AT="sqlite:///elsewhere.db")
    assert (ended.status, ended.err) == (0, "")
    with retentive.open(at(tmp_path)) as opened:
        (version,) = opened.store("team").versions()
    assert str(version.actor) == "user:ann"
    assert sorted(each.name for each in tmp_path.glob("*.db")) == ["memory.db"]
    assert inside(tmp_path, "cat", PATH, RETENTIVE_STORE="team", RETENTIVE_AT=at(tmp_path)).out == b"text"


def test_global_options_are_accepted_inside_groups(tmp_path: Path) -> None:
    here(at(tmp_path), "create", PATH, "text")
    for arguments in (
        ["settings", "--at", at(tmp_path), "show", "--json"],
        ["--json", "settings", "show", "--at", at(tmp_path)],
    ):
        ended = inside(tmp_path, *arguments)
        assert (ended.status, json.loads(ended.out)["read_only"]) == (0, False), ended.err


def test_every_command_and_option_has_a_help_of_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert len(app.table) < 48
    for name, command in all_commands():
        assert (command.name, bool(command.help)) == (name.rpartition(" ")[2], True)
        assert [each.opts for each in command.params if isinstance(each, click.Option) and not each.help] == [], name
    for name in ("", *(name for name, _ in all_commands())):
        _, *lines = CliRunner().invoke(app, [*name.split(), "--help"]).stdout.splitlines()
        assert lines, name
        assert [line for line in lines if len(line) > 80 or line.endswith("...")] == [], name


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("vew", "view"),
        ("creat", "create"),
        ("str_replce", "str_replace"),
        ("remove", "rm"),
        ("version", "--version"),
        ("server", "serve"),
        ("fsck", "doctor"),
        ("sweep", "admin sweep"),
        ("gc", "admin maintain"),
        ("clone", "admin migrate"),
    ],
)
def test_a_mistyped_command_is_answered_with_a_suggestion(tmp_path: Path, typed: str, meant: str) -> None:
    ended = inside(tmp_path, typed)
    assert ended.status == 2
    assert f"No such command '{typed}'." in ended.err
    assert f"'{meant}'" in ended.err.partition("Did you mean")[2]


def test_the_examples_in_the_help_parse() -> None:
    found = 0
    for name, command in all_commands():
        for example in re.findall(r"^    (?:.*[|] )?(retentive .*)", command.help or "", re.MULTILINE):
            words = shlex.split(example)
            given = list(takewhile(lambda word: word not in {">", ">>"}, words[1:]))
            own = {command, *getattr(command, "commands", {}).values()}
            assert parsed(given) in own or name in {"admin", "review", "tidy", "trust"}, example
            found += 1
    assert found > 20


def parsed(given: list[str]) -> click.Command:
    """The command that a command line names. Raises `UsageError` for arguments that it does not accept."""
    context: click.Context | None = None
    command: click.Command = app
    while True:
        context = command.make_context(command.name, given, parent=context)
        if not isinstance(command, click.Group):
            return command
        found = command.resolve_command(context, [*context._protected_args, *context.args])
        assert found[1] is not None
        command, given = found[1], found[2]


def test_suggestions_name_commands() -> None:
    assert set(MEANT.values()) | set(ALIASES.values()) <= {*COMMANDS_BY_NAME, "--help", "--version"}
    assert not (set(MEANT) | set(ALIASES)) & set(COMMANDS_BY_NAME)


def test_the_names_of_the_protocol_are_aliases(tmp_path: Path) -> None:
    for arguments in (
        ["create", PATH, "one"],
        ["str_replace", PATH, "one", "two"],
        ["insert", PATH, "0", "zero"],
        ["rename", PATH, "/memories/b.md"],
    ):
        assert here(at(tmp_path), *arguments).exit_code == 0
    assert here(at(tmp_path), "cat", "/memories/b.md").stdout == "zero\ntwo\n"
    assert here(at(tmp_path), "delete", "/memories/b.md").exit_code == 0
    assert "Usage: retentive rm" in here(at(tmp_path), "delete", "--help").stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--json", "nosuch"], "Error: No such command 'nosuch'."),
        (["cat", "--json"], "Error: Missing argument 'PATH'."),
        (["ls", "--format", "json", "--nosuch"], "Error: No such option '--nosuch'."),
        (["ls", "--format=json", "a", "b"], "Error: Got unexpected extra argument (b)"),
    ],
)
def test_errors_of_the_usage_are_json_if_asked(tmp_path: Path, arguments: list[str], said: str) -> None:
    ended = inside(tmp_path, *arguments)
    found = json.loads(ended.out)
    assert (ended.status, ended.err) == (2, "")
    assert found["text"].startswith(said)
    assert (found["is_error"], found["code"]) == (True, "invalid_input")


@pytest.mark.parametrize("relative", ["notes.md", "./notes.md", ".//./notes.md"])
def test_a_relative_path_is_below_memories(tmp_path: Path, relative: str) -> None:
    assert here(at(tmp_path), "create", relative, "one\n").stdout == f"File created successfully at: {PATH}\n"
    for arguments in (
        ["cat", relative],
        ["log", relative],
        ["diff", relative],
        ["blame", relative],
        ["insert", relative, "0", "x"],
        ["mv", relative, "d/b.md"],
        ["search", "one", "--under", "d"],
        ["trust", "list", "d"],
        ["rm", "d/b.md"],
        ["redact", "--all-of", "d", "--yes"],
    ):
        assert here(at(tmp_path), *arguments).exit_code == 0, arguments


def test_a_dot_is_the_root_and_an_empty_path_is_refused(tmp_path: Path) -> None:
    here(at(tmp_path), "create", "d/a.md", "x")
    assert here(at(tmp_path), "ls", ".").stdout == here(at(tmp_path), "ls").stdout == "1\t/memories/d/a.md\n"
    for path in ("", "/", "/d"):
        assert here(at(tmp_path), "rm", path).exit_code == 2
    assert here(at(tmp_path), "rm", "../x").stderr == "Error: Path /memories/../x would escape /memories directory\n"


# -- groups, and tables on narrow terminals

LONG = "session:" + "0123456789" * 9


@pytest.fixture
def filled(tmp_path: Path) -> str:
    made = f"sqlite:///{tmp_path}/memory.db"
    here(made, "--actor", LONG, "create", "/memories/customers/ada.md", "one")
    return made


@pytest.mark.parametrize(
    ("group", "default"), [("settings", "show"), ("review", "list"), ("trust", "list"), ("admin encryption", "status")]
)
def test_a_group_alone_shows_its_state(group: str, default: str, filled: str) -> None:
    for options in ((), ("--json",)):
        alone, whole = here(filled, *group.split(), *options), here(filled, *group.split(), default, *options)
        assert (alone.exit_code, alone.stdout) == (0, whole.stdout)
    assert f"runs `{default}`" in here(filled, *group.split(), "--help").stdout


@pytest.mark.parametrize("command", ["log", "stores", "admin encryption"])
def test_tables_fit_80_columns(command: str, filled: str, tmp_path: Path) -> None:
    """The full values are in the other formats."""
    shown = terminal(tmp_path, "--at", filled, *command.split(), NO_COLOR="1", COLUMNS="80").splitlines()
    assert max(len(line.rstrip()) for line in shown) <= 80
    assert "…" in shown[1]
    for options in (("--json",), ("--format", "csv"), ("--format", "table"), ()):
        assert "…" not in here(filled, *command.split(), *options).stdout


@pytest.mark.parametrize("command", [("blame", "customers/ada.md"), ("trust", "list")])
def test_long_actors_are_shortened_on_a_terminal(command: tuple[str, ...], filled: str, tmp_path: Path) -> None:
    here(filled, "settings", "set", 'review=["session:*"]', 'trust={"session:*": "unconfirmed"}')
    here(filled, "--actor", LONG, "create", "/memories/new.md", "two")
    shown = terminal(tmp_path, "--at", filled, *command, NO_COLOR="1", COLUMNS="80").splitlines()
    assert max(len(line.rstrip()) for line in shown) <= 80
    assert any("session:" in line and "…" in line for line in shown), shown
    assert LONG in here(filled, *command).stdout
