"""`commonplace demo` tells its story: two processes, one memory, and every call and reply on the screen."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from dataclasses import replace
from pathlib import Path

import pytest

import commonplace
from commonplace.cli import demo, demo_story
from commonplace.cli.demo_show import Screen
from commonplace.testing.scripted_claude import Call, Check, ScriptedClaude, Turn, scripted_claude

COMMANDS = str(Path(sys.executable).parent / "commonplace")
COLUMNS = 72
REFUNDS_AT_THE_END = """\
# Refund policies

- Full refund within 45 days of delivery, with proof of purchase.
- Damaged goods: replacement or refund, the customer chooses.
- A photo is enough, nothing needs to be sent back.
- Damaged goods: answer within one working day.
"""


def environment(**more: str) -> dict[str, str]:
    """That of the tests, without keys, and without what tells programs how to look (rich believes COLUMNS first)."""
    look = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")
    ours = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ANTHROPIC_", "COMMONPLACE_")) and name not in look
    }
    return {**ours, **more}


def run(arguments: list[str], directory: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "commonplace.cli.demo", *arguments]
    return subprocess.run(
        command, cwd=directory, env=environment(), capture_output=True, text=True, timeout=120, check=False
    )


def assert_in_order(lines: list[str], *expected: str) -> None:
    rest = iter(lines)
    missing = next((line for line in expected if line not in rest), None)
    assert missing is None, f"{missing!r} is not there, or not in this order"


def test_the_story_is_told_and_stays(tmp_path: Path) -> None:
    """Scripted is said first; then calls, replies, files and history; a directory that was there is left alone."""
    other = tmp_path / "memory-demo" / "mine.txt"
    other.parent.mkdir()
    other.write_text("mine")

    done = run([], tmp_path)

    assert (done.stderr, done.returncode) == ("", 0)
    assert "\x1b" not in done.stdout
    lines = done.stdout.splitlines()
    assert lines[0] == "Claude is scripted here: its part was written beforehand and no model is asked."
    assert_in_order(
        lines,
        "call     memory view /memories",
        "         0B      /memories",
        "call     memory create /memories/refund_policies.md",
        "         + - Full refund within 30 days of delivery, with proof of purchase.",
        "reply    File created successfully at: /memories/refund_policies.md",
        "call     memory view /memories",
        "         199B    /memories/refund_policies.md",
        "              3  - Full refund within 30 days of delivery, with proof of purchase.",
        "         - within thirty days",
        "error    No replacement was performed, old_str `within thirty days` did not appear verbatim in "
        "/memories/refund_policies.md.",
        "         + 45 days",
        "call     memory insert /memories/refund_policies.md (after line 5)",
        "claude   Corrected: 45 days, and an answer within one working day for damaged goods.",
        "memory-demo-2/",
        "    └── refund_policies.md",
        "memory-demo-2/memories/refund_policies.md",
        "- Full refund within 45 days of delivery, with proof of purchase.",
        "Look around: commonplace --at ./memory-demo-2 ls",
    )
    processes = re.findall(r"A new process, (\d+),", done.stdout)
    assert len(set(processes)) == 2
    assert list(other.parent.iterdir()) == [other]
    assert_left(str(tmp_path / "memory-demo-2"))
    kept = tmp_path / "memory-demo-2" / "memories" / "refund_policies.md"
    assert kept.read_text("utf-8") == REFUNDS_AT_THE_END


def assert_left(at: str) -> None:
    """The refund policies were made in the first session and corrected in the second, and history says so."""
    with commonplace.open(at) as memory:
        store = memory.store()
        assert store.text(demo_story.REFUNDS) == REFUNDS_AT_THE_END
        changes = [(str(version.actor), version.operation) for version in store.versions(demo_story.REFUNDS)]
    assert changes == [
        ("session:second", "modified"),
        ("session:second", "modified"),
        ("session:first", "created"),
    ]


def test_live_asks_what_the_environment_names_and_fits_the_terminal(tmp_path: Path) -> None:
    """With --live the client is left as the SDK makes it; on a terminal there is colour, and no line is too long."""
    at = f"sqlite:///{tmp_path}/demo.db"
    with scripted_claude(*(session.script for session in demo_story.SESSIONS.values())) as claude:
        status, shown = on_terminal(
            [COMMANDS, "--at", at, "demo", "--live"],
            environment(ANTHROPIC_BASE_URL=claude.url, ANTHROPIC_API_KEY="none-needed", TERM="xterm"),
        )
    assert (status, claude.failures) == (0, [])
    assert "\x1b[" in shown
    lines = re.sub(r"\x1b\[[0-9;]*m", "", shown).replace("\r", "").split("\n")
    assert lines[0].startswith("Claude is real here: claude-sonnet-5-5.")
    assert "/memories/refund_policies.md" in lines
    assert max(len(line) for line in lines if "sqlite:" not in line) == COLUMNS
    assert_left(at)


def on_terminal(command: list[str], variables: dict[str, str]) -> tuple[int, str]:
    """Exit status and output of `command` on a terminal of `COLUMNS` columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    shown = b""
    with subprocess.Popen(command, env=variables, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        while True:
            try:
                data = os.read(ours, 65_536)
            except OSError:  # Linux says EIO where the last writer is gone, macOS an empty read
                break
            if not data:
                break
            shown += data
    os.close(ours)
    return process.returncode, shown.decode()


def test_a_reply_that_is_not_as_promised_fails_the_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    wrong = Turn((Call({"command": "view", "path": "/memories"}, Check("something else")),))
    script = replace(demo_story.FIRST.script, turns=(wrong, *demo_story.FIRST.script.turns[1:]))
    first = replace(demo_story.FIRST, script=script)
    monkeypatch.setattr(demo, "SESSIONS", {"first": first, "second": demo_story.SECOND})
    for name in [name for name in os.environ if name.startswith("ANTHROPIC_")]:
        monkeypatch.delenv(name)
    at = f"sqlite:///{tmp_path}/demo.db"
    assert demo.demo.main(["--at", at], standalone_mode=False) == 1
    shown = capfd.readouterr().out
    assert "expected the text 'something else', got" in shown
    assert "failed   the first session ended with exit code 1" in shown


def test_what_cannot_be_played_is_a_usage_error(tmp_path: Path) -> None:
    """A place with memories, and --live without a key; nothing is touched."""
    at = f"sqlite:///{tmp_path}/demo.db"
    with commonplace.open(at) as memory:
        memory.store().execute({"command": "create", "path": "/memories/mine", "file_text": "mine"})
    taken, keyless = run(["--at", at], tmp_path), run(["--live"], tmp_path)
    assert (taken.returncode, keyless.returncode) == (2, 2)
    assert "holds memories; the script needs an empty place" in taken.stderr
    assert "set ANTHROPIC_API_KEY" in keyless.stderr
    assert not list(tmp_path.glob("memory-demo*"))


def test_a_story_that_was_not_played_out_is_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    assert not demo._played(Screen(), ScriptedClaude())
    turns = sum(len(session.script.turns) for session in demo_story.SESSIONS.values())
    assert capsys.readouterr().out == f"failed   0 of {turns} turns were played\n"
