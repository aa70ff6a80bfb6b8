"""Completion in shells: commands, options, paths and memory stores."""

from __future__ import annotations

import subprocess
from contextlib import chdir
from pathlib import Path

import pytest
from click.testing import CliRunner

import retentive
from retentive.cli.app import app
from support.command_line import RETENTIVE, environment, process

AT = "sqlite:///memory.db"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    with retentive.open(f"sqlite:///{tmp_path}/memory.db") as opened:
        for path in ("notes.md", "team/a.md", "team/deep/b.md", "new file.md"):
            opened.store().execute({"command": "create", "path": f"/memories/{path}", "file_text": path})
        opened.store("team-1").execute({"command": "create", "path": "/memories/other.md", "file_text": "x"})
    return tmp_path


def completed(directory: Path, *words: str, at: str = AT) -> list[str]:
    """The completions of the last word, by the protocol of the script for fish."""
    given = {"RETENTIVE_AT": at, "_RETENTIVE_COMPLETE": "fish_complete", "COMP_CWORD": words[-1]}
    with chdir(directory):
        ended = CliRunner().invoke(
            app, prog_name="retentive", env={**given, "COMP_WORDS": " ".join(["retentive", *words])}
        )
    assert ended.stderr == ""
    return [line.partition(",")[2].partition("\t")[0] for line in ended.stdout.splitlines() if line]


def test_commands_and_options_are_completed(directory: Path) -> None:
    assert completed(directory, "re") == ["recall", "replace", "restore", "review", "redact"]
    assert completed(directory, "admin", "ma") == ["maintain"]
    assert {"--at", "--store", "--json", "--as-of"} <= set(completed(directory, "cat", "--"))
    assert completed(directory, "ls", "--format", "c") == ["csv"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["cat", "no"], ["notes.md"]),
        (["cat", "t"], ["team/"]),
        (["cat", "team/"], ["team/a.md", "team/deep/"]),
        (["cat", "/memories/team/d"], ["/memories/team/deep/"]),
        (["mv", "notes.md", "te"], ["team/"]),
        (["cat", "../"], []),
        (["--store", "team-1", "cat", "o"], ["other.md"]),
        (["search", "x", "--under", "t"], ["team/"]),
    ],
)
def test_paths_are_completed(directory: Path, words: list[str], expected: list[str]) -> None:
    assert completed(directory, *words) == expected


def test_stores_and_paths_after_revisions_are_completed(directory: Path) -> None:
    assert completed(directory, "ls", "--store", "t") == ["team-1"]
    assert completed(directory, "--store", "d") == ["default"]
    assert completed(directory, "diff", "no") == ["notes.md"]


@pytest.mark.parametrize("at", ["none", "sqlite:///none.db", "notes.db", "postgresql://127.0.0.1:1/x?timeout_s=1"])
def test_completion_creates_nothing_and_reports_nothing(tmp_path: Path, at: str) -> None:
    assert completed(tmp_path, "cat", "n", at=at) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_bash_completes_a_path_and_every_shell_has_a_script(directory: Path) -> None:
    for shell in ("bash", "zsh", "fish"):
        assert "_RETENTIVE_COMPLETE" in process(directory, _RETENTIVE_COMPLETE=f"{shell}_source").out.decode()
    program = f"""
        PATH={Path(RETENTIVE).parent}:$PATH
        eval "$(_RETENTIVE_COMPLETE=bash_source retentive)"
        COMP_WORDS=(retentive cat te) COMP_CWORD=2
        _retentive_completion retentive te cat
        echo "${{COMPREPLY[@]}}"
    """
    env = environment(directory, {"RETENTIVE_AT": AT})
    ended = subprocess.run(["bash", "-c", program], capture_output=True, cwd=directory, env=env, text=True, check=True)
    assert (ended.stdout, ended.stderr) == ("team/\n", "")
