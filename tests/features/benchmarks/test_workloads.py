"""The workloads run on retentive and the SDK's tool, and the oracle finds planted faults. No time is checked."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that imports a module of the benchmark."""
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    return lambda name: importlib.import_module(f"workloads.{name}")


def played(parts: Any, store: Any, letter: str) -> Any:
    """Run one workload in its smallest size and return the oracle, which has judged all answers and the end."""
    operations, oracles, worker = parts("operations"), parts("oracle"), parts("worker")
    workload = next(each for each in operations.WORKLOADS if each.letter == letter)
    source = operations.Source(operations.SCALES["tiny"], "a test")
    notes, oracle = workload.fill(source), oracles.Oracle()
    store.fill(notes)
    oracle.filled(notes)
    turn = workload.plan(source)
    done = worker.run(store, turn, 60.0)["done"]
    assert [len(each) for each in done] == [len(each) for each in turn]
    oracle.play(turn, [[oracles.Outcome(*each) for each in one] for one in done])
    oracle.check(store.names(), {key: store.read(key) for key in oracle.keys})
    return oracle


@pytest.mark.parametrize("letter", "ABCDEF")
@pytest.mark.parametrize("system", ["retentive, SQLite", "retentive, directory", "SDK's local tool"])
def test_every_workload_runs(parts: Any, tmp_path: Path, system: str, letter: str) -> None:
    """No operation is refused. All answers are right, except those of several writers without a lock."""
    module = parts(f"adapters.{'sdk' if system.startswith('SDK') else 'retentive'}")
    store = module.open_store(system, str(tmp_path), "")
    try:
        oracle = played(parts, store, letter)
    finally:
        store.close()
    if module.__name__.endswith("retentive") or letter not in "CF":
        assert oracle.verdict() == "valid"


class Broken:
    """Store in memory that spoils the change of one note. `fault` says how."""

    def __init__(self, fault: str) -> None:
        self._fault = fault
        self._texts: dict[str, str] = {}
        self._before: dict[str, str] = {}
        self._spoiled = ""

    def fill(self, notes: dict[str, str]) -> None:
        self._texts |= notes

    def create(self, key: str, text: str) -> None:
        if not self._spoiled:
            self._spoiled = key
            text = {"lost": "", "torn": text[: len(text) // 2]}.get(self._fault, text)
        if text:
            self._texts[key] = text

    def append(self, key: str, line: str) -> None:
        self._before[key] = self._texts[key]
        self._texts[key] += f"{line}\n"

    def read(self, key: str) -> str | None:
        return self._before.get(key, self._texts.get(key)) if self._fault == "stale" else self._texts.get(key)

    def names(self) -> list[str]:
        return list(self._texts)


@pytest.mark.parametrize("fault", ["none", "lost", "torn", "stale"])
def test_planted_faults_void_a_figure(parts: Any, fault: str) -> None:
    """A note that vanishes is lost, half of a note is torn, and an older text in a second process is stale."""
    operations, oracles, worker = parts("operations"), parts("oracle"), parts("worker")
    source = operations.Source(operations.SCALES["tiny"], "a test")
    notes, oracle, store = operations.notes(source, 2), oracles.Oracle(), Broken(fault)
    store.fill(notes)
    oracle.filled(notes)
    turn = [[["create", "planted", source.text()], ["append", source.keys[0], "more"]]]
    done = worker.run(store, turn, 60.0)["done"]
    oracle.play(turn, [[oracles.Outcome(*each) for each in one] for one in done])
    oracle.check(store.names(), {key: store.read(key) for key in oracle.keys}, again=True)
    assert {kind for kind, found in oracle.faults.items() if found} == ({fault} - {"none"})
    assert oracle.is_valid is (fault == "none")


@pytest.mark.parametrize(
    ("found", "fault"),
    [
        ("# Progress\nwriter-0 a\nwriter-1 b\n", ""),
        ("# Progress\nwriter-0 a\n", "lost"),
        ("# Progress\nwriter-0 a\nwriter-1 b\nwriter-1 b\n", "torn"),
        ("# Progress\nwriter-0 a\nwriter-1 b\nwrit", "torn"),
    ],
)
def test_lines_of_several_writers_are_counted(parts: Any, found: str, fault: str) -> None:
    """Each acknowledged line is in the shared file once."""
    oracles = parts("oracle")
    oracle = oracles.Oracle()
    oracle.filled({"shared": "# Progress\n"})
    turn = [[["append", "shared", "writer-0 a"]], [["append", "shared", "writer-1 b"], ["read", "shared"]]]
    oracle.play(turn, [[oracles.Outcome(1, None)], [oracles.Outcome(1, None), oracles.Outcome(1, "writer-1 b")]])
    oracle.check(["shared"], {"shared": found})
    assert {kind for kind, count in oracle.faults.items() if count} == ({fault} - {""})


def test_a_writer_that_misses_its_own_line_reads_stale(parts: Any) -> None:
    """A read after an append of the same writer must contain the line."""
    oracles = parts("oracle")
    oracle = oracles.Oracle()
    oracle.filled({"shared": "# Progress\n"})
    turn = [[["append", "shared", "writer-0 a"], ["read", "shared"]], []]
    oracle.play(turn, [[oracles.Outcome(1, None), oracles.Outcome(1, "# Progress")], []])
    oracle.check(["shared"], {"shared": "# Progress\nwriter-0 a"})
    assert oracle.verdict() == "VOID: 1 stale"


def test_refused_operations_are_not_judged(parts: Any) -> None:
    """A change that raised is not acknowledged: either state of its note is right, and the refusal is shown."""
    oracles = parts("oracle")
    oracle = oracles.Oracle()
    oracle.filled({"note": "text\n"})
    oracle.play([[["replace", "note", "new\n"]]], [[oracles.Outcome(1, None, "OSError: full")]])
    oracle.check(["note"], {"note": "new"})
    assert oracle.verdict() == "valid; 1 refused"


def test_a_system_that_cannot_be_installed_is_skipped_with_the_reason(
    parts: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The reason is printed, and the other systems run."""
    system = parts("adapters.base").System(
        name="a peer",
        adapter="sdk",
        packages=("a-peer",),
        python=(3, 99),
        durable="",
        history="",
        precondition="",
    )
    with ExitStack() as stack:
        started, skipped = parts("command").candidates([system], tmp_path, stack)
    assert started == []
    assert skipped == {"a peer": "needs Python 3.99 or newer, and none was found"}
    assert capsys.readouterr().err == "SKIPPED a peer: needs Python 3.99 or newer, and none was found\n"


def test_the_chart_has_a_bar_for_each_valid_figure(parts: Any) -> None:
    """A void figure has the word in place of a bar."""
    records = [
        {"workload": "A", "system": "one", "is_valid": True, "validity": "valid", "per_second": 20.0},
        {"workload": "A", "system": "two <&>", "is_valid": False, "validity": "VOID: 2 lost", "per_second": 90.0},
    ]
    drawn = parts("chart").chart(records, {"A": "A session start", "B": "B"}, "a caption")
    texts = [each.text for each in ElementTree.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["a caption", "A session start", "one", "20/s", "two <&>", "void"]


@pytest.mark.long
def test_the_script_measures_in_processes(tmp_path: Path) -> None:
    """Both tables are printed, a second process reads the store, and only the JSON file is left."""
    command = [sys.executable, str(BENCHMARKS / "workloads" / "run.py"), "--tiny", "--dir", str(tmp_path)]
    chosen = ["--only", "A", "--only", "F", "--system", "retentive, SQLite", "--json", str(tmp_path / "run.json")]
    ended = subprocess.run([*command, *chosen], capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["run.json"]
    measured, offered = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))["sheets"]
    assert [(each["workload"], each["validity"]) for each in measured["records"]] == [("A", "valid"), ("F", "valid")]
    assert [each["name"] for each in offered["records"]] == ["retentive, SQLite"]


@pytest.mark.long
@pytest.mark.parametrize("is_broken", [False, True], ids=["whole", "with a lost edit"])
def test_a_peer_of_the_server_is_measured_and_checked(
    parts: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], is_broken: bool
) -> None:
    """The system under test is retentive, which is installed. A peer that loses an edit is left out with the reason."""
    peers = importlib.import_module("server_peers")
    system = parts("adapters.retentive").SYSTEMS[0]
    monkeypatch.setattr(peers, "PEERS", {system.name: system})
    if is_broken:
        monkeypatch.setattr(peers.Process, "read", lambda _, keys: (0, dict.fromkeys(keys, peers.memory_text(0))))
    load = peers.Load(callers=3, operations=2, turn_s=60.0)
    found = peers.measured_peers([system.name], tmp_path, load)
    assert [each.case for each in found] == (["views"] if is_broken else ["views", "edits"])
    assert ("left out" in capsys.readouterr().err) == is_broken
    assert all(each.figures.per_second > 0 for each in found)
