"""`ls`, `view`, `cat`, `stores`: output in a pipe and as JSON."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest

import retentive
from support.command_line import here

TEXT = "one\ntwo\r\nthree"


@pytest.fixture
def at(tmp_path: Path) -> str:
    """Location with some memories, one of them hidden, and with a second memory store."""
    location = f"sqlite:///{tmp_path}/memory.db"
    with retentive.open(location) as opened:
        store = opened.store()
        for path, text in {"a.txt": TEXT, "b/.secret": "x", "b/c/d.md": "é" * 1000}.items():
            assert not store.execute({"command": "create", "path": f"/memories/{path}", "file_text": text}).is_error
        opened.store("user-42", name="Zoë")
    return location


def test_ls_in_a_pipe_is_every_memory_with_its_bytes(at: str) -> None:
    expected = "14\t/memories/a.txt\n1\t/memories/b/.secret\n2000\t/memories/b/c/d.md\n"
    assert here(at, "ls").stdout == expected
    assert here(at, "ls", "/memories/").stdout == expected


def test_ls_as_json_has_all_fields(at: str) -> None:
    (found,) = json.loads(here(at, "ls", "/memories/a.txt", "--json").stdout)
    with retentive.open(at) as opened:
        (memory,) = [each for each in opened.store().memories() if each.path == "/memories/a.txt"]
    assert found == {
        "path": "/memories/a.txt",
        "memory_id": memory.id,
        "size_bytes": 14,
        "sha256": memory.sha256,
        "version_id": memory.version_id,
        "created_at": memory.created_at.isoformat().replace("+00:00", "Z"),
        "updated_at": memory.updated_at.isoformat().replace("+00:00", "Z"),
    }


@pytest.mark.parametrize(
    ("given", "lines"),
    [("1:2", [1, 2]), ("2:", [2, 3]), ("2", [2]), ("2:-1", [2, 3]), ("3:99", [3])],
)
def test_view_of_a_range(at: str, given: str, lines: list[int]) -> None:
    shown = here(at, "view", "/memories/a.txt", "--range", given).stdout.removesuffix("\n").split("\n")
    assert [int(line.split("\t")[0]) for line in shown[1:]] == lines


@pytest.mark.parametrize("given", ["", "x", "1-2", ":3", "1:2:3", "１:2", "1" * 5_000])
def test_an_invalid_range_is_a_usage_error(at: str, given: str) -> None:
    ended = here(at, "view", "/memories/a.txt", "--range", given)
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert "is not a line range such as 10:20, 10: or 10." in ended.stderr


def test_cat_prints_the_exact_bytes(at: str) -> None:
    assert here(at, "cat", "/memories/a.txt").stdout_bytes == TEXT.encode()
    assert json.loads(here(at, "cat", "/memories/a.txt", "--json").stdout)["text"] == TEXT


def test_stores(at: str) -> None:
    plain = here(at, "stores").stdout.splitlines()
    found = json.loads(here(at, "stores", "--json").stdout)
    assert [(row["key"], row["name"], row["memories"], row["size_bytes"]) for row in found] == [
        ("default", "default", 3, 2015),
        ("user-42", "Zoë", 0, 0),
    ]
    rows = [line.rpartition("\t") for line in plain]
    assert [row for row, _, _ in rows] == ["\t".join(map(str, list(row.values())[:5])) for row in found]
    times = [datetime.fromisoformat(time) for _, _, time in rows]
    assert times == [datetime.fromisoformat(row["created_at"]) for row in found]  # local here, UTC in JSON
    assert here(at, "--store", found[0]["id"], "cat", "/memories/b/.secret").stdout == "x"


def test_a_missing_memory_store_is_not_created(at: str) -> None:
    for command in (["ls"], ["view"], ["rm", "/memories/a.txt"], ["mv", "/memories/a.txt", "/memories/b.txt"]):
        ended = here(at, "--store", "user-43", *command)
        assert (ended.exit_code, ended.stderr) == (
            3,
            "Error: there is no memory store 'user-43'; `retentive stores` lists the existing ones\n",
        )
    assert len(json.loads(here(at, "stores", "--json").stdout)) == 2


@pytest.mark.parametrize("kind", ["sqlite:///{}/memory.db", "{}/memory"])
def test_reading_does_not_recreate_an_erased_default_store(kind: str, tmp_path: Path) -> None:
    """A read reports that the store does not exist. A write creates it."""
    location = kind.format(tmp_path)
    missing = "Error: there is no memory store 'default'; `retentive stores` lists the existing ones\n"
    assert here(location, "create", "/memories/a", "a").exit_code == 0
    assert here(location, "erase", "--whole-store", "--store", "default", "--yes").exit_code == 0
    for command in (["ls"], ["view"], ["search", "x"], ["export", "{}/x.tar"], ["admin", "audit", "verify"]):
        done = here(location, *(part.format(tmp_path) for part in command))
        assert (done.exit_code, done.stderr) == (3, missing), command
    assert here(location, "create", "/memories/a", "a").exit_code == 0
    assert here(location, "ls").stdout == "1\t/memories/a\n"
    if kind == "{}/memory":  # files that others wrote are read
        assert here(location, "erase", "--whole-store", "--store", "default", "--yes").exit_code == 0
        (tmp_path / "memory" / "memories" / "b").write_text("bb")
        assert here(location, "ls").stdout == "2\t/memories/b\n"


def test_init_creates_a_store_and_keeps_memories(tmp_path: Path) -> None:
    at = f"sqlite:///{tmp_path}/memory.db"
    assert here(at, "init").stdout == f"The memory store default is at {at}, with 0 memories.\n"
    here(at, "create", "a.md", "a")
    assert here(at, "init").stdout == f"The memory store default is at {at}, with 1 memory.\n"
    assert json.loads(here(at, "--store", "shop", "init", "--json").stdout) == {
        "at": at,
        "store": "shop",
        "memories": 0,
    }
