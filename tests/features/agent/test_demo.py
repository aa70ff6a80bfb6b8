"""`retentive demo`: the context is cleared and compacted, a process is killed, and the memory survives."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import retentive
from retentive.cli.demo import command, session, story
from retentive.cli.demo.command import WINDOW

COMMANDS = str(Path(sys.executable).parent / "retentive")
COLUMNS = 72
LAST = len(story.TICKETS)


def expected_answer() -> str:
    """Compute the correct answer from the archive."""
    return story.named(story.counted("\n".join(map(story.archive, story.TICKETS))))


def environment(**more: str) -> dict[str, str]:
    """Return the environment of the tests without API keys and terminal settings (rich reads COLUMNS first)."""
    look = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")
    ours = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ANTHROPIC_", "RETENTIVE_")) and name not in look
    }
    return {**ours, **more}


def run(arguments: list[str], directory: Path) -> subprocess.CompletedProcess[str]:
    command = [COMMANDS, "demo", *arguments]
    env = environment(PATH=os.pathsep.join([os.path.dirname(COMMANDS), os.environ["PATH"]]))
    return subprocess.run(command, cwd=directory, env=env, capture_output=True, text=True, timeout=120, check=False)


def assert_in_order(lines: list[str], *expected: str) -> None:
    rest = iter(lines)
    missing = next((line for line in expected if line not in rest), None)
    assert missing is None, f"{missing!r} is not there, or not in this order"


def test_shown_commands_can_be_copied_into_a_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the shell does not find the program by its name, as in a checkout, its path is shown."""
    program = tmp_path / "retentive"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(program), "demo"])
    monkeypatch.setenv("PATH", "/usr/bin")
    assert command.program_in_shell() == str(program)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert command.program_in_shell() == "retentive"


@pytest.mark.long
def test_the_work_survives_clearing_compaction_and_a_kill(tmp_path: Path) -> None:
    """The demo runs in a pipe and stores its memory in a directory.

    All figures are checked, and other files stay unchanged.
    """
    other = tmp_path / "memory-demo" / "mine.txt"
    other.parent.mkdir()
    other.write_text("mine")

    done = run([], tmp_path)

    assert done.returncode == 0
    (note,) = done.stderr.splitlines()
    assert note.startswith("This would undo ")
    assert done.stdout.splitlines()[-1] == f"$ retentive --at ./memory-demo-2 diff {story.NOTES}"
    assert "\x1b" not in done.stdout
    lines = done.stdout.splitlines()
    assert lines[0].startswith("Claude is scripted: no model is used, and token counts are estimates.")
    assert_in_order(
        lines,
        f"user     {story.TASK}",
        "claude   I only see a summary now. My progress is in my notes.",
        f"              1  Weeks done: 4 of {LAST}. Next: week 5.",
        f"              1  Weeks done: 5 of {LAST}. Next: week 6.",
        f"claude   I have counted all {LAST} weeks. Returns: {expected_answer()}.",
        "$ retentive --at ./memory-demo-2 log -n 2",
        "would be reverted\t/memories/returns.md",
    )
    assert_figures(done.stdout)
    assert list(other.parent.iterdir()) == [other]
    assert_notes(str(tmp_path / "memory-demo-2"))
    kept = tmp_path / "memory-demo-2" / "memories" / "returns.md"
    assert kept.read_text("utf-8").splitlines()[-1] == f"So far: {expected_answer()}."


def assert_figures(shown: str) -> None:
    """Check that each prompt fits the window because results were cleared and compacted.

    The whole history does not fit.
    """
    cleared = [
        int(n.replace(",", "")) for n in re.findall(r"context: cleared \d+ tool results?, ([\d,]+) tokens", shown)
    ]
    compacted = re.findall(r"context: compacted ([\d,]+) tokens to a summary of (\d+);", shown)
    assert len(cleared) >= 2
    assert [int(summary) < 50 for _, summary in compacted] == [True]
    assert int(compacted[0][0].replace(",", "")) > session.COMPACT_AT
    assert figure(shown, "cleared") == sum(cleared)
    assert figure(shown, "compactions") == 1
    assert session.COMPACT_AT < figure(shown, "largest prompt") <= WINDOW < figure(shown, "whole history") / 2
    assert figure(shown, "memory calls") == 12
    assert "1, 2, 3, 4, 5, 5, 6 in session 1, and 6, 7 in session 2" in shown
    processes = re.findall(r"process (\d+), an empty conversation", shown)
    assert len(set(processes)) == 2
    assert f"Process {processes[0]} is killed (kill -9)" in shown


def figure(shown: str, name: str) -> int:
    found = re.search(rf"^{name} +([\d,]+)  ", shown, re.MULTILINE)
    assert found is not None, name
    return int(found[1].replace(",", ""))


def assert_notes(at: str, key: str = "default") -> None:
    """Check that each session wrote the notes of the weeks that it read itself."""
    with retentive.open(at) as memory:
        store = memory.store(key)
        assert expected_answer() in store.read(story.NOTES)
        actors = [str(version.actor) for version in store.versions(story.NOTES)]
    assert actors == ["session:second"] * (LAST - story.KILLED_AT + 1) + ["session:first"] * story.KILLED_AT


@pytest.mark.long
def test_a_failing_memory_fails_the_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The store is read-only. The demo shows the error and stops."""
    for name in [name for name in os.environ if name.startswith("ANTHROPIC_")]:
        monkeypatch.delenv(name)
    at = f"sqlite:///{tmp_path}/command.db"
    with retentive.open(at) as memory:
        memory.store().change_settings({"read_only": True})
    assert command.demo.main(["--at", at], standalone_mode=False) == 1
    shown = capfd.readouterr().out
    assert f"error    Error: {story.NOTES} is read-only" in shown
    assert "failed   the first session ended early, with exit code 1" in shown


@pytest.mark.long
def test_invalid_arguments_are_usage_errors(tmp_path: Path) -> None:
    """The location already has memories, or --live is given without an API key. The location stays unchanged."""
    at = f"sqlite:///{tmp_path}/command.db"
    with retentive.open(at) as memory:
        memory.store().execute({"command": "create", "path": "/memories/mine", "file_text": "mine"})
    taken, keyless = run(["--at", at], tmp_path), run(["--live"], tmp_path)
    assert (taken.returncode, keyless.returncode) == (2, 2)
    assert "already has memories; the script needs an empty memory store" in taken.stderr
    assert "set ANTHROPIC_API_KEY" in keyless.stderr
    assert not list(tmp_path.glob("memory-demo*"))
