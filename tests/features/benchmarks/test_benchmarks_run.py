"""Each benchmark script runs in its smallest size. No time is checked."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
ROOT = str(BENCHMARKS.parent)
SIZE = ["--tasks", "1", "--documents", "8", "--sessions", "2", "--tokens", "800", "--window", "4800"]
SCRIPTS: dict[str, list[str]] = {
    "peers.py": [], "floor.py": [], "clients.py": [], "console.py": [], "startup.py": [], "mcp_server.py": [],
    "guard_cost.py": [], "sync.py": [], "sealed.py": [],
    "places.py": ["--only", "sqlite"], "large_stores.py": ["--only", "sqlite"], "growth.py": ["--only", "sqlite"],
    "server.py": ["--only", "views", "--only", "streams"],
    "fairness.py": ["--only", "processes-1", ROOT, ROOT], "interleaved.py": ["--only", "create", ROOT, ROOT],
    "simulation.py": ["--commands", "30"], "sensitive_values.py": ["--part", "values", "--half", "seen"],
    "workloads/run.py": ["--only", "A", "--system", "retentive, SQLite"],
}  # fmt: skip


def script(name: str, *arguments: str | Path) -> str:
    """Run a benchmark script to its end and return its output."""
    command = [sys.executable, str(BENCHMARKS / name), *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.long
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_writes_its_tables_and_no_other_file(name: str, tmp_path: Path) -> None:
    script(name, "--tiny", "--dir", tmp_path, "--json", tmp_path / "run.json", *SCRIPTS[name])
    assert [each.name for each in tmp_path.iterdir()] == ["run.json"]
    sheets = json.loads((tmp_path / "run.json").read_text("utf-8"))["sheets"]
    assert all(sheet["rows"] for sheet in sheets)


@pytest.mark.long
def test_other_scripts_run() -> None:
    assert "for all words as written" in script("search/speed.py", "--memories", "200")
    assert script("straight.py", "--rounds", "5").count(", ratio ") == 2
    assert json.loads(script("memory_value.py", *SIZE, "--json"))


@pytest.mark.long
def test_no_acknowledged_edit_is_lost(tmp_path: Path) -> None:
    """The table of the README. The script fails if an edit of retentive is lost."""
    command = [sys.executable, str(BENCHMARKS / "lost_edits.py"), "--tiny"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True)
    assert "| retentive, directory | 12 | 12 |\n| retentive, SQLite | 12 | 12 |" in done.stdout
    assert list(tmp_path.iterdir()) == []


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


def test_ranked_search_answers_more_questions_than_bm25() -> None:
    """In both halves of the English questions: in first place, among five and ten, and by mean reciprocal rank."""
    rows = [line.strip("| ").split(" | ") for line in script("search/quality.py", "--tiny").splitlines()]
    figures = {row[1]: [float(each) for each in row[3:7] + row[8:]] for row in rows if row[0] == "en"}
    assert len(figures) == 4
    ranked = figures.pop("ranked")
    for other in figures.values():
        assert all(ours > theirs for ours, theirs in zip(ranked, other, strict=True))
