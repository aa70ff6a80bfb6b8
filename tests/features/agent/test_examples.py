"""The examples run unchanged against the scripted Claude and have the documented effect."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import retentive
from retentive.testing.scripted_claude import (
    Call,
    Check,
    Prompt,
    Result,
    Script,
    ScriptedClaude,
    Turn,
    scripted_claude,
)

EXAMPLES = Path(__file__).parents[3] / "examples"
CURL = pytest.mark.skipif(shutil.which("curl") is None, reason="examples/basic.sh needs curl, which is not installed")
SHOP = "def total(prices):\n    t = 0\n    for p in prices:\n        t = t + p\n    return t\n"
TEST = "from shop import total\nassert total([1, 2]) == 3\n"


def run(claude: ScriptedClaude, directory: Path, *arguments: str, typed: str = "", fails: bool = False) -> str:
    """Run an example and return its output, or its errors if it `fails`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ANTHROPIC_", "RETENTIVE_"))}
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    program = [sys.executable] if arguments[0].endswith(".py") else []
    done = subprocess.run(
        [*program, str(EXAMPLES / arguments[0]), *arguments[1:]],
        cwd=directory,
        env={**kept, "PATH": path, "ANTHROPIC_BASE_URL": claude.url, "ANTHROPIC_API_KEY": "none-needed"},
        input=typed,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode != 0, done.stderr != "") == (fails, fails), done.stderr
    return done.stderr if fails else done.stdout


def load_example(name: str) -> ModuleType:
    """Import an example into this process, because importing the SDK takes over a second in each new process."""
    spec = spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def redirect_clients(claude: ScriptedClaude, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the clients that this process creates connect to `claude`."""
    monkeypatch.setenv("ANTHROPIC_BASE_URL", claude.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none-needed")


def last_result(prompt: Prompt) -> Result:
    """Return the result of the last tool call."""
    found = prompt.calls[-1].result
    assert found is not None
    return found


def refactoring(prompt: Prompt) -> Turn | Call | str:
    """Script for two sessions.

    It depends only on the prompt. The first session runs the tests; the second changes the code.
    """
    names = [call.name for call in prompt.calls]
    if "not yet: f1:" in prompt.opening:
        if not names:
            return Call({"feature": "f1"}, name="feature_done")
        assert last_result(prompt).text.startswith("It passes.")
        return "The tests pass. Next: shorten total."
    assert "Next: shorten total." in prompt.opening, "the second session does not know of the first"
    plan = [
        Call({"name": "shop.py"}, name="read_file"),
        Call({"name": "../shop.py", "text": ""}, name="write_file"),
        Call({"name": "shop.py", "text": "def total(prices):\n    return prices\n"}, name="write_file"),
        Call({"feature": "f2"}, name="feature_done"),
        Call({"name": "shop.py", "text": "def total(prices):\n    return sum(prices)\n"}, name="write_file"),
        Call({"feature": "f2"}, name="feature_done"),
    ]
    if len(names) == 2:
        assert last_result(prompt) == Result("Error: ../shop.py is outside the code directory", is_error=True)
    if len(names) == 4:
        assert last_result(prompt).text.startswith("The tests fail, so it does not pass yet.")
    return plan[len(names)] if len(names) < len(plan) else "I shortened total. Nothing is left."


@pytest.mark.long
def test_a_refactoring_continues_across_sessions(tmp_path: Path) -> None:
    """Each session is a separate process.

    A feature passes only if the tests pass, and no file outside the code is written.
    """
    code = tmp_path / "code"
    code.mkdir()
    (code / "shop.py").write_text(SHOP)
    (code / "test_shop.py").write_text(TEST)
    command = ["refactoring_agent.py", str(code), "--goal", "Shorter code", "--test", f"{sys.executable} test_shop.py"]
    with scripted_claude(refactoring) as claude:
        assert run(claude, tmp_path, *command) == "[feature_done]\nThe tests pass. Next: shorten total.\n"
        printed = run(claude, tmp_path, *command)
        assert claude.failures == []
    assert printed.splitlines()[-1] == "I shortened total. Nothing is left."
    assert (code / "shop.py").read_text() == "def total(prices):\n    return sum(prices)\n"
    assert not (tmp_path / "shop.py").exists()
    with retentive.open(tmp_path / "memory") as memory:
        store = memory.store("refactoring-code")
        features = json.loads(store.read("/memories/project/features.json"))["features"]
        assert [feature["passes"] for feature in features] == [True, True]
        assert store.read("/memories/project/progress.md").count("## Session of ") == 2


def service(prompt: Prompt) -> Turn | Call | str | list[str | Call]:
    """Script that views its memory and the rules, records a fact, and uses the fact at the next visit."""
    commands = [(call.input["command"], call.input.get("path")) for call in prompt.calls]
    if ("view", "/memories") not in commands:
        return ["One moment, I look.", Call({"command": "view", "path": "/memories"})]
    listed = prompt.calls[0].result
    assert listed is not None
    assert "/memories/house/rules.md" in listed.text
    if "/memories/likes.md" in listed.text:
        if len(commands) == 1:
            return Call({"command": "view", "path": "/memories/likes.md"})
        assert "green tea" in last_result(prompt).text
        return "Welcome back! Green tea again?"
    if len(commands) == 1:
        return Call({"command": "create", "path": "/memories/likes.md", "file_text": "likes green tea\n"})
    if len(commands) == 2:
        return Call({"command": "delete", "path": "/memories/house/rules.md"})
    assert "read-only" in last_result(prompt).text
    return "You can send it back within 30 days." if "back" in prompt.messages[-1].text else "Noted, green tea."


@pytest.mark.long
def test_each_customer_has_a_separate_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A new process remembers each customer. The house rules stay unchanged."""
    example: Any = load_example("customer_service")
    options: dict[str, Any] = {"location": str(tmp_path / "memory"), "model": "claude-sonnet-5-5"}
    with scripted_claude(service) as claude:
        typed = "I like green tea.\nCan I send it back?\n\nafter the visit\n"
        first = run(claude, tmp_path, "customer_service.py", "ada", typed=typed)
        redirect_clients(claude, monkeypatch)
        example.serve("ada", ["Hello again."], **options)
        again = capsys.readouterr().out
        example.serve("bob", ["Hello."], **options)
        other = capsys.readouterr().out
        assert claude.failures == []
    assert first.splitlines()[-2:] == ["Noted, green tea.", "You can send it back within 30 days."]
    assert again.splitlines()[-1] == "Welcome back! Green tea again?"
    assert other.splitlines()[-1] == "Noted, green tea."
    with retentive.open(tmp_path / "memory") as memory:
        assert memory.store("customer-ada").read("/memories/likes.md") == "likes green tea\n"
        assert memory.store("house").read("/memories/rules.md").startswith("# Rules of the house\n")


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


def assert_played(claude: ScriptedClaude, printed: str, at: str) -> None:
    """Check that the script was played to its end, that the user saw its text, and that the note is corrected."""
    assert claude.failures == []
    assert [exchange.status for exchange in claude.requests] == [200] * 4
    lines = printed.splitlines()
    assert (lines[0], lines[-1]) == ("I'll check my memory for earlier work on this.", "Wait longer before each retry.")
    assert '[memory] {"command": "view", "path": "/memories"}' in lines
    with retentive.open(at) as memory:
        assert memory.store().read(NOTES) == FIRST_TEXT.replace("1 s, always", "2 ** i s")


@pytest.mark.long
@pytest.mark.parametrize("way", ["loop", "runner"])
def test_basic_py_runs_both_loops(claude: ScriptedClaude, tmp_path: Path, way: str) -> None:
    printed = run(claude, tmp_path, "basic.py", way)
    assert_played(claude, printed, str(tmp_path / "memory"))
    body: Any = claude.requests[0].body
    assert body["tools"] == [{"type": "memory_20250818", "name": "memory"}]
    assert body["model"] == "claude-sonnet-5-5"


@pytest.mark.long
@CURL
def test_basic_sh_runs_with_curl_and_exec(claude: ScriptedClaude, tmp_path: Path) -> None:
    printed = run(claude, tmp_path, "basic.sh", "./notes")
    assert_played(claude, printed, str(tmp_path / "notes"))


@CURL
def test_basic_sh_shows_api_errors(tmp_path: Path) -> None:
    with scripted_claude(Script((Turn(("Not for you.",)),), when="another story")) as claude:
        assert "invalid_request_error" in run(claude, tmp_path, "basic.sh", fails=True)
