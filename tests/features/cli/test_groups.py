"""Commands with subcommands, and tables on narrow terminals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.command_line import here, terminal

LONG = "session:" + "0123456789" * 9


@pytest.fixture
def at(tmp_path: Path) -> str:
    made = f"sqlite:///{tmp_path}/memory.db"
    here(made, "--actor", LONG, "create", "/memories/customers/ada.md", "one")
    return made


@pytest.mark.parametrize(
    ("group", "default"), [("settings", "show"), ("review", "list"), ("trust", "list"), ("admin encryption", "status")]
)
def test_a_group_alone_shows_its_state(group: str, default: str, at: str) -> None:
    for options in ((), ("--json",)):
        alone, whole = here(at, *group.split(), *options), here(at, *group.split(), default, *options)
        assert (alone.exit_code, alone.stdout) == (0, whole.stdout)
    assert f"runs `{default}`" in here(at, *group.split(), "--help").stdout


def test_a_group_reports_errors_of_its_default(tmp_path: Path) -> None:
    missing = here(f"sqlite:///{tmp_path}/none.db", "settings", "--json")
    assert (missing.exit_code, json.loads(missing.stdout)["code"]) == (3, "not_found")


@pytest.mark.parametrize("command", ["log", "stores", "admin encryption"])
def test_tables_fit_80_columns(command: str, at: str, tmp_path: Path) -> None:
    """The full values are in the other formats."""
    shown = terminal(tmp_path, "--at", at, *command.split(), NO_COLOR="1", COLUMNS="80").splitlines()
    assert max(len(line.rstrip()) for line in shown) <= 80
    assert "…" in shown[1]
    for options in (("--json",), ("--format", "csv"), ("--format", "table"), ()):
        assert "…" not in here(at, *command.split(), *options).stdout


@pytest.mark.parametrize("command", [("blame", "customers/ada.md"), ("trust", "list")])
def test_long_actors_are_shortened_on_a_terminal(command: tuple[str, ...], at: str, tmp_path: Path) -> None:
    here(at, "settings", "set", 'review=["session:*"]', 'trust={"session:*": "unconfirmed"}')
    here(at, "--actor", LONG, "create", "/memories/new.md", "two")
    shown = terminal(tmp_path, "--at", at, *command, NO_COLOR="1", COLUMNS="80").splitlines()
    assert max(len(line.rstrip()) for line in shown) <= 80
    assert any("session:" in line and "…" in line for line in shown), shown
    assert LONG in here(at, *command).stdout
