"""`retentive init`: new and existing stores, project records, and the code that it prints."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import retentive
from retentive.agent import open_session
from retentive.cli.location import shown
from retentive.testing.scripted_claude import scripted_claude
from support.command_line import environment, here, process

RECORD = ["/memories/project/features.json", "/memories/project/progress.md", "/memories/project/setup.md"]
PROJECT = ["init", "--pattern", "project", "--goal", "A shop for tea"]


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


def test_an_empty_store_is_created(tmp_path: Path) -> None:
    ended = process(tmp_path, "init")
    assert (ended.err, ended.status) == ("", 0)
    assert ended.out.decode().splitlines()[0] == "Created the memory store default at ./memory, with 0 memories."
    assert (tmp_path / "memory").is_dir()
    run(code_of(ended.out.decode()) + "assert list(store.memories()) == []", tmp_path)


def test_existing_memories_are_kept(at: str) -> None:
    with retentive.open(at) as opened:
        assert not opened.store().execute({"command": "create", "path": "/memories/a", "file_text": "a"}).is_error
    done = here(at, "init")
    assert done.exit_code == 0
    assert done.stdout.startswith(f"The memory store default exists at {at}, with 1 memory.\n")
    again = json.loads(here(at, "init", "--json").stdout)
    assert (again["is_new"], again["memories"], again["made"]) == (False, 1, [])
    other = json.loads(here(at, "--store", "shop", "init", "--json").stdout)
    assert (other["is_new"], other["store"], other["memories"]) == (True, "shop", 0)


def test_a_project_is_created(at: str) -> None:
    features = ["--feature", "pay: A visitor pays: by card", "--feature", "All teas are listed"]
    done = here(at, "--store", "shop", *PROJECT, *features, "--setup", "./init.sh")
    assert (done.exit_code, done.stderr) == (0, "")
    for path in RECORD:
        assert f"  {path}\n" in done.stdout
    with retentive.open(at) as opened:
        store = opened.store("shop")
        assert [memory.path for memory in store.memories()] == RECORD
        told = open_session(store)
        made = json.loads(store.read(RECORD[0]))["features"]
    assert "Goal: A shop for tea" in told
    assert "./init.sh" in told
    assert [(each["id"], each["description"], each["passes"]) for each in made] == [
        ("pay", "A visitor pays: by card", False),
        ("f2", "All teas are listed", False),
    ]


def test_a_project_can_be_created_without_a_goal(at: str) -> None:
    done = here(at, "init", "--pattern", "project")
    assert (done.exit_code, done.stderr) == (0, "")
    progress = "/memories/project/progress.md"
    assert f"Write the goal of the project into {progress}.\n" in done.stdout
    with retentive.open(at) as opened:
        assert "Goal: not written yet; describe the purpose of the project here\n" in opened.store().read(progress)


@pytest.mark.long
def test_the_printed_code_runs(tmp_path: Path) -> None:
    """The code uses another store and a project record in another directory. It records a session."""
    made = process(tmp_path, "--at", "sqlite:///m.db", "--store", "shop", *PROJECT, "--directory", "/memories/tea")
    assert made.err == ""
    with scripted_claude(lambda _seen: "I begin.") as server:
        keys = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "none-needed"}
        assert run(code_of(made.out.decode()), tmp_path, **keys) == "I begin.\n"
        assert "A shop for tea" in str(server.requests[0].body)
    with retentive.open(f"sqlite:///{tmp_path}/m.db") as opened:
        assert "## Session of " in opened.store("shop").read("/memories/tea/progress.md")


def test_a_second_project_is_refused_and_changes_nothing(at: str) -> None:
    assert here(at, *PROJECT).exit_code == 0
    with retentive.open(at) as opened:
        before = [version.id for version in opened.store().versions()]
    again = here(at, *PROJECT)
    assert (again.exit_code, again.stdout) == (4, "")
    assert again.stderr == (
        "Error: /memories/project already has a project, so nothing was changed; `open_session` continues it\n"
    )
    assert json.loads(here(at, *PROJECT, "--json").stdout)["code"] == "already_exists"
    with retentive.open(at) as opened:
        assert [version.id for version in opened.store().versions()] == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--goal", "x"], "--goal needs `--pattern project`."),
        (["--feature", "a: b"], "--feature needs `--pattern project`."),
        (["--pattern", "project", "--goal", " "], "--goal must not be empty: describe the purpose of the project."),
        (["--pattern", "other"], "'other' is not 'project'"),
    ],
)
def test_invalid_arguments_create_nothing(tmp_path: Path, arguments: list[str], said: str) -> None:
    ended = here(f"sqlite:///{tmp_path}/memory.db", "init", *arguments)
    assert ended.exit_code == 2
    assert said in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_two_features_with_one_id_are_refused(at: str) -> None:
    done = here(at, *PROJECT, "--feature", "a: one", "--feature", "a: two")
    assert (done.exit_code, done.stderr) == (2, "Error: each feature needs a unique, non-empty id\n")
    wrong = here(at, *PROJECT, "--directory", "/elsewhere")
    assert wrong.exit_code == 2
    with retentive.open(at) as opened:
        assert list(opened.store().memories()) == []


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        ("./memory", "./memory"),
        ("sqlite:////tmp/a@b.db", "sqlite:////tmp/a@b.db"),
        ("postgresql://ann:secret@db.example:5432/memory?password=x", "postgresql://db.example:5432/memory"),
        ("s3://bucket/prefix", "s3://bucket/prefix"),
    ],
)
def test_no_password_is_shown(at: str, expected: str) -> None:
    assert shown(at) == expected


def test_keys_are_in_the_code(tmp_path: Path) -> None:
    assert process(tmp_path, "--keys", "k.json", "encryption", "new").status == 0
    made = process(tmp_path, "--at", "sqlite:///m.db", "--keys", "k.json", "init")
    assert made.err == ""
    run(code_of(made.out.decode()) + "assert list(store.memories()) == []", tmp_path)
