"""--json and --format: one shape of memories, changes, replies and errors in every command."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

import retentive
from support.command_line import here

PATH = "/memories/a.md"


@pytest.fixture
def at(tmp_path: Path) -> str:
    location = f"sqlite:///{tmp_path}/memory.db"
    with retentive.open(location) as opened:
        for path, text in {"a.md": 'one, "two"\nthree', "d/b.md": "é", "d/c.md": "c"}.items():
            opened.store().execute({"command": "create", "path": f"/memories/{path}", "file_text": text})
    return location


def as_json(location: str, *arguments: str) -> Any:
    ended = here(location, *arguments, "--json")
    assert ended.stderr == ""
    return json.loads(ended.stdout)


@pytest.mark.parametrize(
    ("command", "operation"),
    [
        (["create", "new.md", "x"], "created"),
        (["write", "a.md", "x"], "modified"),
        (["append", "a.md", "x"], "modified"),
        (["cp", "a.md", "new.md"], "created"),
        (["insert", "a.md", "0", "x"], "modified"),
        (["mv", "a.md", "new.md"], "modified"),
        (["rm", "a.md"], "deleted"),
    ],
)
def test_a_change_names_the_memory_and_the_version(at: str, command: list[str], operation: str) -> None:
    found = as_json(at, *command)
    with retentive.open(at) as opened:
        newest = opened.store().versions(limit=1)[0]
    change = {
        "path": newest.path,
        "memory_id": newest.memory_id,
        "version_id": newest.id,
        "operation": operation,
    }
    assert (found["is_error"], found["code"], found["changes"]) == (False, None, [change])
    assert {name: found[name] for name in ("path", "memory_id", "version_id")} == {
        name: change[name] for name in ("path", "memory_id", "version_id")
    }


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["cat", "none.md"], "not_found"),
        (["view", "none.md"], "not_found"),
        (["create", "a.md", "x"], "already_exists"),
        (["rm", "/x"], "invalid_path"),
        (["nosuch"], "invalid_input"),
        (["create", "a.md", "--nosuch"], "invalid_input"),
        (["--store", "none", "ls"], "not_found"),
    ],
)
def test_an_error_has_one_shape(at: str, command: list[str], code: str) -> None:
    found = as_json(at, *command)
    assert list(found)[:3] == ["text", "is_error", "code"]
    assert (found["is_error"], found["code"]) == (True, code)
    assert f"{found['text']}\n" in here(at, *command).stderr


def test_csv_has_a_header_and_a_line_for_each_record(at: str) -> None:
    listed = as_json(at, "ls")
    found = list(csv.DictReader(io.StringIO(here(at, "ls", "--format", "csv").stdout)))
    assert found == [{name: str(value) for name, value in each.items()} for each in listed]
    (hit,) = csv.DictReader(io.StringIO(here(at, "search", "three", "--format", "csv").stdout))
    assert (hit["path"], json.loads(hit["snippets"])[0]["text"]) == (PATH, "three")
    (memory,) = csv.DictReader(io.StringIO(here(at, "cat", "a.md", "--format", "csv").stdout, newline=""))
    assert memory["text"] == 'one, "two"\nthree'
    assert here(at, "ls", "--csv").stdout == here(at, "ls", "--format", "csv").stdout
    assert here(at, "ls", "d/none", "--format", "csv").stdout == ""
    assert here(at, "ls", "d/none", "--format", "csv").stderr.startswith("Error: ")


def test_a_table_is_printed_into_a_pipe(at: str) -> None:
    head, *rows = here(at, "ls", "-l", "--format", "table").stdout.splitlines()
    assert head.split() == ["size", "changed", "memory", "version", "path"]
    assert [row.split()[-1] for row in rows] == ["/memories/a.md", "/memories/d/b.md", "/memories/d/c.md"]
    assert "\x1b" not in here(at, "stores", "--format", "table").stdout
