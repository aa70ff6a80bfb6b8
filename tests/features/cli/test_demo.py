"""`retentive demo`, which is `make run`: the context is cleared, a process is killed, and the memory survives."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest

import retentive
from retentive.cli import demo
from support.command_line import interactive, process
from support.pages import ROOT

LAST = len(demo.TICKETS)
RIGHT = demo.named(demo.counted("\n".join(map(demo.archive, demo.TICKETS))))


def test_the_targets_of_the_readme_exist() -> None:
    """README shows `make TARGET`, and `make run` starts the demo."""
    named = set(re.findall(r"^make (\w+)", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE))
    recipes = dict(re.findall(r"^(\w+):[^\n]*\n\t([^\n]+)", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert named == {"run", "test"} <= recipes.keys()
    assert recipes["run"] == "$(BIN)/retentive demo"


@pytest.mark.long
def test_the_work_survives_clearing_compaction_and_a_kill(tmp_path: Path) -> None:
    """In a pipe, the demo ends after the sessions. Earlier files stay unchanged."""
    other = tmp_path / "memory-demo" / "mine.txt"
    other.parent.mkdir()
    other.write_text("mine")
    done = process(tmp_path, "demo")
    assert done.status == 0, done.err
    shown = done.out.decode()
    lines = iter(shown.splitlines())
    expected = (
        f"user: {demo.TASK}",
        "  context: 1 tool result cleared so far",
        "  context: the conversation so far was replaced by a summary",
        "claude: I have worked on this before.",
        f"claude: I have counted all {LAST} weeks. Returns: {RIGHT}.",
        f"The answer is right: counted without an agent, the returns are {RIGHT}.",
        "would be reverted\t/memories/returns.md",
    )
    missing = next((line for line in expected if line not in lines), None)
    assert missing is None, f"{missing!r} is not there, or not in this order: {shown}"
    assert shown.index("This process is killed (kill -9)") < shown.index("── The second session")
    prompts = [int(tokens.replace(",", "")) for tokens in re.findall(r"a prompt of ([\d,]+) tokens", shown)]
    assert 0 < max(prompts) <= demo.WINDOW
    assert re.findall(r"read_week (\d)", shown) == list("123455667")
    assert "{" not in shown + done.err  # no lines of a log
    assert [*other.parent.iterdir()] == [other]
    with retentive.open(str(tmp_path / "memory-demo-2")) as opened:
        actors = [str(version.actor) for version in opened.store().versions(demo.NOTES)]
    assert actors == ["session:second"] * (LAST - demo.KILLED_AT + 1) + ["session:first"] * demo.KILLED_AT
    assert (tmp_path / "memory-demo-2" / "memories" / "returns.md").read_text("utf-8").endswith(f"So far: {RIGHT}.\n")


@pytest.mark.long
def test_on_a_terminal_the_console_follows(tmp_path: Path) -> None:
    with interactive(tmp_path, "demo", COLUMNS="300") as terminal:
        shown = terminal.expect("Code for the login page")
        (url,) = re.findall(r"at (http://\S+/console/)", shown)
        with urlopen(url, timeout=60) as answer:
            assert b"retentive" in answer.read()
        terminal.type("\x03")
        assert terminal.end() == 0
        assert "Traceback" not in terminal.shown
        assert '{"' not in terminal.shown


@pytest.mark.long
def test_a_failing_memory_fails_the_demo(tmp_path: Path) -> None:
    at = f"sqlite:///{tmp_path}/memory.db"
    with retentive.open(at) as memory:
        memory.store().change_settings({"read_only": True})
    done = process(tmp_path, "--at", at, "demo")
    assert done.status == 1
    assert f"  error: Error: {demo.NOTES} is read-only" in done.out.decode()
    assert "the first session ended with status" in done.err


def test_a_location_with_memories_is_left_alone(tmp_path: Path) -> None:
    at = f"sqlite:///{tmp_path}/memory.db"
    with retentive.open(at) as memory:
        memory.store().create("/memories/mine", "mine")
    done = process(tmp_path, "--at", at, "demo")
    assert done.status == 2
    assert "already has memories; the script needs an empty store" in done.err
    assert not list(tmp_path.glob("memory-demo*"))


def test_shown_commands_can_be_copied_into_a_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the shell does not find the program by its name, as in a checkout, its path is shown."""
    program = tmp_path / "retentive"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(program), "demo"])
    monkeypatch.setenv("PATH", "/usr/bin")
    assert demo._program() == str(program)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert demo._program() == "retentive"
