"""The command as a process: its imports, its output on a terminal, closed pipes, interrupts, and the environment."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import retentive
from support.command_line import AT, RETENTIVE, environment, process, terminal
from support.profiles import some

PATH = "/memories/notes.md"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Directory with a memory in `memory.db`."""
    with retentive.open(f"sqlite:///{tmp_path}/memory.db") as opened:
        store = opened.store()
        for path, text in {PATH: "x" * 1_536, "/memories/.env/[red]x": "y"}.items():
            assert not store.execute({"command": "create", "path": path, "file_text": text}).is_error
    return tmp_path


@pytest.mark.long
def test_version_and_help(tmp_path: Path) -> None:
    """`python -m retentive` is the command too."""
    version = f"retentive {retentive.__version__}\n".encode()
    assert process(tmp_path, "--version").out == version
    assert subprocess.check_output([sys.executable, "-m", "retentive", "--version"], cwd=tmp_path) == version
    assert process(tmp_path, "-h").out == process(tmp_path, "--help").out


def test_a_command_imports_only_what_it_needs(directory: Path) -> None:
    """In a pipe, `retentive view` imports no rich, no SDK and no other command, so that it starts quickly."""
    script = (
        "import sys; from retentive.cli.app import run; status = run(sys.argv[1:]); "
        "print(status, *sys.modules, file=sys.stderr)"
    )
    command = [sys.executable, "-c", script, "--at", AT, "view", PATH]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=directory, check=True)
    status, *modules = ended.stderr.split()
    assert status == "0"
    heavy = {"rich", "anthropic", "anyio", "asyncio", "email", "httpx2", "pydantic", "starlette", "uvicorn"}
    assert heavy & set(modules) == set()
    assert not {
        name for name in modules if name.startswith(("retentive.integrations", "retentive.mcp", "retentive.server"))
    }


def test_a_terminal_gets_a_table_in_colour(directory: Path) -> None:
    shown = terminal(directory, "--at", AT, "ls")
    assert "\x1b[" in shown
    head, first, row = re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines()
    assert (head.split(), first.split(), row) == (["size", "path"], ["1B", "/memories/.env/[red]x"], f"1.5K  {PATH}")
    assert terminal(directory, "--at", "sqlite://", "ls") == "No memories.\r\n"
    missing = "The path /memories/none does not exist. Please provide a valid path."
    assert terminal(directory, "--at", AT, "view", "/memories/none") == f"\x1b[31m{missing}\x1b[0m\r\n"
    shown = terminal(directory, "--at", AT, "ls", NO_COLOR="1")
    assert ("\x1b" in shown, bool(shown)) == (False, True)


@pytest.mark.long
def test_a_memory_cannot_steer_the_terminal_of_its_reader(directory: Path) -> None:
    evil = "\x1b]52;c;cm0gLXJm\x07 \x9b2J \ttab"
    assert process(directory, "--at", AT, "create", "/memories/evil", text=evil.encode()).status == 0
    shown = terminal(directory, "--at", AT, "view", "/memories/evil")
    assert shown.splitlines()[1] == "     1\t\\x1b]52;c;cm0gLXJm\\x07 \\x9b2J \ttab"
    shown = terminal(directory, "--at", AT, "replace", "/memories/evil", "\x1b[2J", "x", NO_COLOR="1")
    assert "\x1b" not in shown
    assert "\\x1b[2J" in shown
    assert process(directory, "--at", AT, "cat", "/memories/evil").out.decode() == evil
    assert evil in process(directory, "--at", AT, "view", "/memories/evil").out.decode()


@pytest.mark.long
def test_output_is_utf_8_in_any_locale(directory: Path) -> None:
    text = "Zoë 報告 ✓\n".encode()
    assert process(directory, "--at", AT, "create", "/memories/z", text=text).status == 0
    for command in (["view", "/memories/z"], ["cat", "/memories/z"]):
        ended = process(
            directory,
            "--at",
            AT,
            *command,
            LC_ALL="C",
            PYTHONUTF8="0",
            PYTHONCOERCECLOCALE="0",
            PYTHONIOENCODING="ascii",
        )
        assert (ended.out.endswith(text), ended.err) == (True, "")


def test_arguments_that_are_not_utf_8_are_rejected(directory: Path) -> None:
    command = [RETENTIVE.encode(), b"--at", AT.encode(), b"create"]
    for arguments in ([b"/memories/\xff", b"x"], [b"/memories/y", b"\xff"]):
        ended = subprocess.run(
            [*command, *arguments], capture_output=True, cwd=directory, env=environment(directory), check=False
        )
        assert (ended.returncode, ended.stdout) == (2, b"")
        assert ended.stderr.startswith(b"Error: Invalid ")


@pytest.mark.parametrize("arguments", some(["cat /memories/big", "-h", "ls", "view /memories/big"], 4))
def test_a_closed_pipe_ends_it_quietly(directory: Path, arguments: str) -> None:
    big = b"line\n" * 20_000
    assert process(directory, "--at", AT, "create", "/memories/big", text=big).status == 0
    command = f"{RETENTIVE} --at {AT} {arguments} | true; echo ${{PIPESTATUS[0]}}"
    ended = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, cwd=directory, env=environment(directory), check=False
    )
    assert ended.stderr == ""
    # 0 if all output was written before the reader closed the pipe; click prints the help and exits with 1
    assert ended.stdout in ({"1\n", "0\n"} if arguments == "-h" else {"141\n", "0\n"})


def test_a_failing_output_is_reported(directory: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    with open("/dev/full", "wb") as full:
        ended = subprocess.run(
            [RETENTIVE, "--at", AT, "ls"],
            stdout=full,
            stderr=subprocess.PIPE,
            cwd=directory,
            env=environment(directory),
            check=False,
        )
    assert ended.stderr == b"Error: the output could not be written: No space left on device\n"
    assert ended.returncode == 1


def test_ctrl_c_ends_with_130_and_no_traceback(tmp_path: Path) -> None:
    with subprocess.Popen(
        [RETENTIVE, "--at", AT, "exec"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
        env=environment(tmp_path),
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdin.write(b"{}\n")
        running.stdin.flush()
        assert running.stdout.readline()
        os.kill(running.pid, signal.SIGINT)
        assert running.wait(60) == 130
        assert running.stderr.read().strip() == b""


@pytest.mark.parametrize(
    ("command", "package"),
    some(
        [
            ("serve", "uvicorn"),
            ("keys list", "pydantic"),
            ("console", "jinja2"),
            ("mcp", "mcp"),
            ("demo", "anthropic"),
            ("ls --at https://localhost", "httpx2"),
        ],
        3,
    ),
)
def test_a_command_names_the_packages_that_it_lacks(command: str, package: str, tmp_path: Path) -> None:
    """Without a traceback, and with the command that installs them."""
    code = """
import sys
sys.modules |= {"pydantic": None, "anthropic": None, "mcp": None}
from retentive.cli.app import run
sys.exit(run())
"""
    done = subprocess.run(
        [sys.executable, "-c", code, *command.split()], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert re.search(rf"pip install .*'{package}[<>]", done.stderr)
