"""The basic examples run unchanged against the scripted Claude and have the documented effect."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import retentive
from retentive.testing.scripted_claude import Call, Check, Script, ScriptedClaude, Turn, scripted_claude

EXAMPLES = Path(__file__).parents[3] / "examples"
NOTES = "/memories/debugging/web_scraper.md"
HEADER = "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and node_modules:"
FIRST_TEXT = "# Web scraper — timeouts\n- fetch_page: retries wait 1 s, always\n"
SCRIPT = Script(
    (
        Turn(
            (
                "I'll check my memory for earlier work on this.",
                Call({"command": "view", "path": "/memories"}, Check(f"{HEADER}\n0B\t/memories")),
            )
        ),
        Turn(
            (
                Call(
                    {"command": "create", "path": NOTES, "file_text": FIRST_TEXT},
                    Check(f"File created successfully at: {NOTES}"),
                ),
                Call(
                    {"command": "view", "path": "/memories/none.md"},
                    Check("The path /memories/none.md does not exist. Please provide a valid path.", is_error=True),
                ),
            )
        ),
        Turn(
            (
                Call(
                    {"command": "str_replace", "path": NOTES, "old_str": "1 s, always", "new_str": "2 ** i s"},
                    Check(contains=("     2\t- fetch_page: retries wait 2 ** i s",)),
                ),
            )
        ),
        Turn(("Wait longer before each retry.",)),
    ),
    when="I'm working on a Python web scraper that keeps crashing with a timeout error. Here's the problematic",
)


@pytest.fixture
def claude() -> Iterator[ScriptedClaude]:
    with scripted_claude(SCRIPT) as server:
        yield server


def run(claude: ScriptedClaude, command: list[str], directory: Path) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ANTHROPIC_")}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    environment = {**kept, "PATH": path, "ANTHROPIC_BASE_URL": claude.url, "ANTHROPIC_API_KEY": "none-needed"}
    return subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, timeout=120, check=False
    )


def assert_played(claude: ScriptedClaude, done: subprocess.CompletedProcess[str], at: str) -> None:
    """Check that the script was played to its end, that the user saw its text, and that the note is corrected."""
    assert done.stderr == ""
    assert done.returncode == 0
    assert claude.failures == []
    assert [exchange.status for exchange in claude.requests] == [200] * 4
    lines = done.stdout.splitlines()
    assert (lines[0], lines[-1]) == ("I'll check my memory for earlier work on this.", "Wait longer before each retry.")
    assert '[memory] {"command": "view", "path": "/memories"}' in lines
    with retentive.open(at) as memory:
        assert memory.store().read(NOTES) == FIRST_TEXT.replace("1 s, always", "2 ** i s")


@pytest.mark.long
@pytest.mark.parametrize("way", ["loop", "runner"])
def test_basic_py_runs_both_loops(claude: ScriptedClaude, tmp_path: Path, way: str) -> None:
    done = run(claude, [sys.executable, str(EXAMPLES / "basic.py"), way], tmp_path)
    assert_played(claude, done, str(tmp_path / "memory"))
    body: Any = claude.requests[0].body
    assert body["tools"] == [{"type": "memory_20250818", "name": "memory"}]
    assert body["model"] == "claude-sonnet-5-5"


@pytest.mark.long
@pytest.mark.skipif(shutil.which("curl") is None, reason="examples/basic.sh needs curl, which is not installed")
def test_basic_sh_runs_with_curl_and_exec(claude: ScriptedClaude, tmp_path: Path) -> None:
    done = run(claude, [str(EXAMPLES / "basic.sh"), "./notes"], tmp_path)
    assert_played(claude, done, str(tmp_path / "notes"))


@pytest.mark.skipif(shutil.which("curl") is None, reason="examples/basic.sh needs curl, which is not installed")
def test_basic_sh_shows_api_errors(tmp_path: Path) -> None:
    with scripted_claude(Script((Turn(("Not for you.",)),), when="another story")) as claude:
        done = run(claude, [str(EXAMPLES / "basic.sh")], tmp_path)
    assert done.returncode != 0
    assert "invalid_request_error" in done.stderr
