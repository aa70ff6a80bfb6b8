"""Each benchmark script runs in its smallest size. No time is checked."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.profiles import LONG

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
TOOLS = {"sdk", "sqlite", "directory"}


def script(name: str, *arguments: str | Path) -> str:
    """Run a benchmark script to its end and return its output."""
    command = [sys.executable, str(BENCHMARKS / name), *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def tiny(name: str, folder: Path, *options: str) -> tuple[str, list[dict[str, object]]]:
    """Return the output and the records of a tiny run, which must leave no file except its JSON file."""
    printed = script(name, "--tiny", "--dir", folder, "--json", folder / "run.json", *options)
    assert [each.name for each in folder.iterdir()] == ["run.json"]
    (sheet,) = json.loads((folder / "run.json").read_text(encoding="utf-8"))["sheets"]
    assert len(sheet["rows"]) == len(sheet["records"])
    return printed, sheet["records"]


@pytest.mark.long
def test_peers_measures_every_case_with_every_tool(tmp_path: Path) -> None:
    """Each of the eleven cases has a figure for each tool and, except for the SDK's own tool, a ratio."""
    printed, records = tiny("peers.py", tmp_path)
    found = {(record["case"], record["candidate"]) for record in records}
    assert len({case for case, _ in found}) == 11
    assert found == {(case, tool) for case, _ in found for tool in TOOLS}
    assert {record["candidate"] for record in records if record["ratio"] is None} == {"sdk"}
    assert "ratio to SDK" in printed


def test_no_acknowledged_edit_is_lost(tmp_path: Path) -> None:
    """The table of the README. The script fails if an edit of retentive is lost."""
    command = [sys.executable, str(BENCHMARKS / "lost_edits.py"), "--tiny"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True)
    assert "| retentive, directory | 12 | 12 |\n| retentive, SQLite | 12 | 12 |" in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_floor_measures_multiples_and_costs(tmp_path: Path) -> None:
    """Each command has its multiple of a synced append, and its costs. Only a view writes no page."""
    script("floor.py", "--tiny", "--dir", tmp_path, "--json", tmp_path / "run.json")
    multiples, costs = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))["sheets"]
    commands = ["create", "view", "str_replace", "insert", "rename", "delete"]
    assert [record["command"] for record in multiples["records"]] == commands
    assert all(record["ratio"] > 0 and record["bar"] > 0 for record in multiples["records"])
    found = {record["command"]: record for record in costs["records"]}
    assert list(found) == commands
    assert {command for command, record in found.items() if record["pages"] == 0} == {"view"}
    assert all(0 < record["python_calls"] < record["all_calls"] for record in found.values())
    assert all(1 <= record["statements"] <= 9 for record in found.values())


@pytest.mark.long
def test_clients_measures_threads_and_processes(tmp_path: Path) -> None:
    """Both modes have figures for each tool, and every acknowledged edit is stored."""
    _, records = tiny("clients.py", tmp_path)
    found = {(record["way"], record["candidate"]) for record in records}
    assert found == {(way, tool) for way in ("threads", "processes") for tool in TOOLS}
    assert all(0 < float(str(record["slowest"])) <= 1 for record in records)


@pytest.mark.long
def test_console_measures_every_page(tmp_path: Path) -> None:
    """Every route with GET has figures; the script fails if one is missing."""
    printed, records = tiny("console.py", tmp_path)
    assert len({record["route"] for record in records}) > 30
    assert "assets:" in printed


@pytest.mark.long
def test_places_measures_bare_and_sealed(tmp_path: Path) -> None:
    """The figures are for one caller and for sixteen, for edits and views, on every local backend.

    All edits are stored.
    """
    only = () if LONG else ("--only", "sqlite", "--only", "s3 (moto)")
    _, records = tiny("places.py", tmp_path, *only)
    found = {(record["place"], record["what"], record["callers"]) for record in records}
    assert "sqlite" in {place for place, _, _ in found}
    assert found == {(place, what, n) for place, _, _ in found for what in ("edit", "view") for n in (1, 16)}
    assert all("bare" in record and "sealed" in record for record in records)


@pytest.mark.long
def test_startup_measures_import_and_view(tmp_path: Path) -> None:
    """The import and the commands have figures, next to an empty Python program, and the slowest imports are listed."""
    script("startup.py", "--tiny", "--dir", tmp_path, "--json", tmp_path / "run.json")
    times, imports = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))["sheets"]
    assert [record["command"] for record in times["records"]] == [
        "python -c pass",
        "import retentive",
        "import, open and view (sqlite)",
        "retentive view (sqlite)",
        "retentive view (directory)",
        "retentive --help",
    ]
    assert any(record["module"].startswith("retentive.") for record in imports["records"])


@pytest.mark.long
def test_the_mcp_server_is_measured_beside_an_import(tmp_path: Path) -> None:
    script("mcp_server.py", "--tiny", "--dir", tmp_path, "--json", tmp_path / "run.json")
    starts, views = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))["sheets"]
    assert [record["what"] for record in starts["records"]] == [
        "python -c 'import mcp'",
        "retentive mcp, to its first answer",
    ]
    assert views["records"][0]["p50_ms"] > 0


def test_figures_reach_the_readme(tmp_path: Path) -> None:
    """A run replaces its own table in the page and keeps all other tables."""
    page = tmp_path / "README.md"
    before = (BENCHMARKS / "README.md").read_text(encoding="utf-8")
    page.write_text(before, encoding="utf-8")
    on = dict.fromkeys(("when", "system", "cores", "file_system", "python", "sqlite", "anthropic"), "unmistakable")
    sheet = {"title": "", "columns": ["process", "median"], "rows": [["a row", "7 ms"]], "records": []}
    run = tmp_path / "run.json"
    run.write_text(json.dumps({"benchmark": "startup", "on": on, "sheets": [sheet]}), encoding="utf-8")
    script("fill_readme.py", "--readme", page, run)
    after = page.read_text(encoding="utf-8")
    begin, end = "<!-- startup -->", "<!-- end of startup -->"
    assert "| a row | 7 ms |" in after.split(begin)[1].split(end)[0]
    assert after.split(begin)[0] == before.split(begin)[0]
    assert after.split(end)[1] == before.split(end)[1]


def test_large_stores_measures_history_and_search(tmp_path: Path) -> None:
    """The benchmark runs on SQLite and, in CI, on PostgreSQL. The edit has a ratio to a store with a short history."""
    only = () if LONG else ("--only", "sqlite")
    _, records = tiny("large_stores.py", tmp_path, *only)
    places = {record["place"] for record in records}
    assert "sqlite" in places
    what = {"log of one memory", "diff", "restore of one", "first search", "search", "create and search", "edit"}
    for place in places:
        assert what <= {record["what"] for record in records if record["place"] == place}
    assert {record["what"] for record in records if record["ratio"] is not None} == {"edit"}


def test_ranked_search_answers_more_questions_than_bm25() -> None:
    """In both halves of the English questions: in first place, among five and ten, and by mean reciprocal rank."""
    rows = [line.strip("| ").split(" | ") for line in script("search/quality.py", "--tiny").splitlines()]
    figures = {row[1]: [float(each) for each in row[3:7] + row[8:]] for row in rows if row[0] == "en"}
    assert len(figures) == 4
    ranked = figures.pop("ranked")
    for other in figures.values():
        assert all(ours > theirs for ours, theirs in zip(ranked, other, strict=True))


@pytest.mark.long
def test_search_speed_measures_an_index_and_a_scan() -> None:
    printed = script("search/speed.py", "--memories", "200")
    assert [line.split(":")[0] for line in printed.splitlines()[:-1]] == [
        "build",
        "first time",
        "again",
        "memory for texts, index and caches",
        "one search without an index",
        "command line, ranked",
        "command line, all words",
    ]
    assert len(printed.splitlines()[-1].split(" | ")) == 6


CASES_OF_SERVER = ("views", "edits", "tool views", "tool edits")


@pytest.mark.long
def test_the_server_is_measured_under_load(tmp_path: Path) -> None:
    """Each case has a highest rate and the times at half of it; idle event streams have their memory."""
    chosen = [part for name in (*CASES_OF_SERVER, "streams") for part in ("--only", name)]
    script("server.py", "--tiny", *chosen, "--dir", tmp_path, "--json", tmp_path / "run.json")
    cases, streams, _ = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))["sheets"]
    assert [record["case"] for record in cases["records"]] == [*CASES_OF_SERVER]
    assert all(record["most"] > 0 and record["half_p99_ms"] > 0 for record in cases["records"])
    assert [record["streams"] for record in streams["records"]] == [5]


@pytest.mark.long
def test_growth_measures_every_command(tmp_path: Path) -> None:
    """Each command has a ratio for a store of many memories and one of many versions; so has the peak memory."""
    script("growth.py", "--tiny", "--only", "sqlite", "--dir", tmp_path, "--json", tmp_path / "run.json")
    ratios, peaks = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))["sheets"]
    found = {(record["what"], record["store"]) for record in ratios["records"]}
    assert found == {(what, store) for what, _ in found for store in ("memories", "versions")}
    assert {"view", "view of the root", "create", "str_replace", "insert", "rename", "delete"} <= {
        what for what, _ in found
    }
    assert [len(row) for row in peaks["rows"]] == [4]


@pytest.mark.long
def test_guard_cost_measures_small_and_large_writes(tmp_path: Path) -> None:
    """Each size is measured with the guards and without them."""
    _, records = tiny("guard_cost.py", tmp_path)
    assert [record["size"] for record in records] == ["1 KB", "100 KB"]
    assert all({"share", "more_ms", "guarded", "free"} <= record.keys() for record in records)


@pytest.mark.long
def test_fairness_compares_two_trees(tmp_path: Path) -> None:
    """Both trees have figures, and each share is one of a whole. Two processes are compared with one."""
    root = str(BENCHMARKS.parent)
    _, records = tiny("fairness.py", tmp_path, "--only", "processes-1", "--only", "processes-2", root, root)
    cases = [(case, tree) for case in ("processes-1", "processes-2") for tree in ("old", "new")]
    assert [(one["case"], one["tree"]) for one in records] == cases
    assert all(0 <= float(str(one["share"])) <= 1 for one in records)
    assert [one["of_one"] is None for one in records] == [True, True, False, False]
    assert all(float(str(one["p99_of_fair"])) > 0 for one in records[2:])


@pytest.mark.long
def test_interleaved_compares_two_trees(tmp_path: Path) -> None:
    """Each case has a ratio for each location, within its spread. A tree without a package is refused."""
    root = BENCHMARKS.parent
    only = () if LONG else ("--only", "create", "--only", "list")
    _, records = tiny("interleaved.py", tmp_path, *only, str(root), str(root))
    cases = ["create", "view", "str_replace", "insert", "rename", "delete", "list", "range"]
    wanted = cases if LONG else ["create", "list"]
    assert [(one["case"], one["place"]) for one in records] == [
        (case, place) for case in wanted for place in ("sqlite", "directory")
    ]
    for one in records:
        spread = [one[name] for name in ("min", "lower", "ratio", "upper", "max")]
        assert spread == sorted(spread)  # type: ignore[type-var] # numbers, as JSON has them
        assert len(one["ratios"]) == 2  # type: ignore[arg-type] # a list
    _, (record,) = tiny(
        "interleaved.py", tmp_path, "--processor", "--place", "sqlite", "--only", "view", str(root), str(root)
    )
    assert (record["case"], record["place"]) == ("view", "sqlite")
    command = [sys.executable, str(BENCHMARKS / "interleaved.py"), str(tmp_path), str(root)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, "has 0 packages" in ended.stderr) == (2, True)


@pytest.mark.long
def test_sync_measures_three_runs_and_watching(tmp_path: Path) -> None:
    _, records = tiny("sync.py", tmp_path)
    assert [record["case"] for record in records] == ["first", "nothing", "second directory", "watch"]


@pytest.mark.long
def test_live_pages_get_every_row_of_the_benchmark(tmp_path: Path) -> None:
    _, (record,) = tiny("console_live.py", tmp_path, "--viewers", "3")
    assert (record["viewers"], record["edits_per_s"]) == (3, 100.0)
    assert float(str(record["messages_per_s"])) <= 4
