"""The simulation of many stores runs in its smallest size. No time is checked."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import retentive
from retentive.storage.sealed.keys import add_key

pytestmark = pytest.mark.long

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
KINDS = ["all", "view", "list", "str_replace", "insert", "create", "delete", "rename", "open"]
ROUNDS = ["3", "6", "3 of 6"]


def simulation(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    options = ["--tiny", "--commands", "30", *map(str, arguments)]  # a count of commands does not depend on time
    command = [sys.executable, str(BENCHMARKS / "simulation.py"), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def sheets(*arguments: str | Path, folder: Path) -> tuple[str, list[list[dict[str, Any]]]]:
    """Return the output and the records of a successful run."""
    ended = simulation("--dir", folder, "--json", folder / "run.json", *arguments)
    assert ended.returncode == 0, ended.stderr
    found = json.loads((folder / "run.json").read_text(encoding="utf-8"))["sheets"]
    assert all(len(sheet["rows"]) == len(sheet["records"]) for sheet in found)
    return ended.stdout, [sheet["records"] for sheet in found]


def test_each_kind_has_figures_at_each_number_of_stores(tmp_path: Path) -> None:
    """The figures are percentiles by kind of command, the throughput, and the ratio to the control.

    No command fails.
    """
    printed, (latencies, throughput, growth) = sheets("--commands", "60", folder=tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["run.json"]
    frequent = {"all", "view", "list", "str_replace", "insert", "create"}
    for each in ROUNDS:
        assert frequent <= {record["kind"] for record in latencies if record["stores"] == each} <= set(KINDS)
    assert all(one["p50_ms"] <= one["p90_ms"] <= one["p99_ms"] <= one["max_ms"] for one in latencies)
    assert [(one["stores"], one["errors"]) for one in throughput] == [(each, 0) for each in ROUNDS]
    assert {one["stores"] for one in growth} == set(ROUNDS)
    assert {one["stores"] for one in growth if one["bar"]} == {"6"}
    assert "p50 over that with 3 stores" in printed


@pytest.mark.long
def test_the_mix_of_commands_is_kept(tmp_path: Path) -> None:
    """The mix is 60 % views, 25 % edits, 10 % creations and 5 % deletions and renames, within random variation."""
    _, (latencies, _, _) = sheets("--commands", "200", "--stores", "20", folder=tmp_path)
    counts = {one["kind"]: one["count"] for one in latencies if one["stores"] == "20"}
    share = {kind: count / counts["all"] for kind, count in counts.items()}
    assert share["view"] + share["list"] == pytest.approx(0.60, abs=0.12)
    assert share["str_replace"] + share["insert"] == pytest.approx(0.25, abs=0.12)
    assert share["create"] == pytest.approx(0.10, abs=0.08)
    assert share.get("delete", 0) + share.get("rename", 0) == pytest.approx(0.05, abs=0.05)


def test_a_given_place_keeps_the_acknowledged_changes(tmp_path: Path) -> None:
    """All stores still exist with their memories and changes. Without a control, the first round is the reference."""
    place = f"sqlite:///{tmp_path}/mine.db"
    _, (_, _, growth) = sheets("--at", place, "--memories", "4", folder=tmp_path)
    assert {one["stores"] for one in growth} == {"6", "3 of 6"}
    with retentive.open(place) as opened:
        assert sorted(store.key or "" for store in opened.stores()) == [f"agent-{number:07d}" for number in range(6)]
        operations = {each.operation for number in range(6) for each in opened.store(f"agent-{number:07d}").versions()}
    assert {"created", "modified"} <= operations


def test_stores_can_be_encrypted(tmp_path: Path) -> None:
    """The stores have a key file. No plain text is stored, and every command succeeds."""
    add_key(tmp_path / "keys.json")
    _, (_, throughput, _) = sheets(
        "--at", f"sqlite:///{tmp_path}/mine.db", "--keys", tmp_path / "keys.json", folder=tmp_path
    )
    assert [one["errors"] for one in throughput] == [0, 0, 0]
    assert not [file.name for file in tmp_path.glob("mine.db*") if b"customer" in file.read_bytes()]


def test_a_place_in_use_is_not_changed(tmp_path: Path) -> None:
    """The memories of a location in use would affect the figures, and the run would change these memories."""
    place = f"sqlite:///{tmp_path}/mine.db"
    with retentive.open(place) as opened:
        opened.store("somebody").execute({"command": "create", "path": "/memories/a.md", "file_text": "kept\n"})
    ended = simulation("--dir", tmp_path, "--at", place)
    assert ended.returncode != 0
    assert "needs an empty one" in ended.stderr
    with retentive.open(place) as opened:
        assert [store.key for store in opened.stores()] == ["somebody"]


@pytest.mark.parametrize(
    "command",
    [
        {"command": "delete", "path": "/memories/note-0000.md"},
        {"command": "rename", "old_path": "/memories/note-0000.md", "new_path": "/memories/moved-0000.md"},
        {"command": "str_replace", "path": "/memories/note-0000.md", "old_str": "state: 00000000", "new_str": ""},
        {"command": "create", "path": "/memories/moved-0000.md", "file_text": "state: 00000000\n"},
    ],
    ids=lambda command: str(command["command"]),
)
def test_an_inconsistent_store_fails_the_run(
    command: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A memory is missing, moved, without its edit, or unexpected."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    clients = importlib.import_module("simulation_clients")
    with retentive.open(f"sqlite:///{tmp_path}/memory.db") as opened:
        store = opened.store(clients.store_key(0))
        store.execute({"command": "create", "path": "/memories/note-0000.md", "file_text": "state: 00000000\n"})
        client = clients.Client(0, clients=1, memories=1)
        client._known(0)  # the state after its first command
        assert client.wrong(opened) == []
        assert not store.execute(command).is_error
        assert client.wrong(opened)


@pytest.mark.parametrize("stores", ["6,3", "0,5", "many"])
def test_invalid_numbers_are_refused(stores: str, tmp_path: Path) -> None:
    """The numbers are refused before anything is created."""
    ended = simulation("--dir", tmp_path, "--stores", stores)
    assert ended.returncode == 2
    assert "--stores" in ended.stderr
    assert list(tmp_path.iterdir()) == []
