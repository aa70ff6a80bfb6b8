"""`retentive init`: new and existing stores, and the code that it prints."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import retentive
from support.command_line import environment, here, process


@pytest.fixture
def at(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/memory.db"


def code_of(printed: str) -> str:
    """Return the printed program, which consists of the lines indented by four spaces."""
    lines = printed.splitlines(keepends=True)
    return textwrap.dedent("".join(line for line in lines if line.startswith("    ") or line == "\n"))


def run(code: str, directory: Path, **variables: str) -> str:
    command = [sys.executable, "-c", code]
    env = environment(directory, variables)
    done = subprocess.run(command, cwd=directory, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_printed_code_opens_the_store(tmp_path: Path) -> None:
    ended = process(tmp_path, "init")
    assert (ended.err, ended.status) == ("", 0)
    assert ended.out.decode().splitlines()[0] == "The memory store default is at ./memory, with 0 memories."
    run(code_of(ended.out.decode()) + "assert list(store.memories()) == []", tmp_path)
    assert process(tmp_path, "--keys", "k.json", "admin", "encryption", "new").status == 0
    made = process(tmp_path, "--at", "sqlite:///m.db", "--keys", "k.json", "--store", "shop", "init")
    run(code_of(made.out.decode()) + "store.write('/memories/a.md', 'one')", tmp_path)
    assert process(tmp_path, "--at", "sqlite:///m.db", "--keys", "k.json", "--store", "shop", "ls").out[:2] == b"3\t"


def test_existing_memories_are_kept(at: str) -> None:
    with retentive.open(at) as opened:
        assert not opened.store().execute({"command": "create", "path": "/memories/a", "file_text": "a"}).is_error
    done = here(at, "init")
    assert done.exit_code == 0
    assert done.stdout.startswith(f"The memory store default is at {at}, with 1 memory.\n")
    again = json.loads(here(at, "init", "--json").stdout)
    assert again["memories"] == 1
    other = json.loads(here(at, "--store", "shop", "init", "--json").stdout)
    assert (other["store"], other["memories"]) == ("shop", 0)
