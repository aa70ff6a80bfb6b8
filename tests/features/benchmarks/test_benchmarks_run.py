"""Each benchmark script runs in its smallest size. No time is checked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
SCRIPTS: dict[str, list[str]] = {
    "lost_edits.py": ["--only", "directory"],
    "peers.py": [], "callers.py": ["--only", "processes 1"], "startup.py": [],
    "search/speed.py": [], "places.py": ["--only", "sqlite"], "growth.py": ["--only", "sqlite"],
    "history.py": ["--only", "sqlite"], "prompts.py": [],
    "server.py": ["--only", "views", "--only", "streams"],
    "sensitive_values.py": ["--part", "values", "--half", "seen"],
}  # fmt: skip


def script(name: str, *arguments: str | Path) -> str:
    """Run a benchmark script to its end and return its output."""
    command = [sys.executable, str(BENCHMARKS / name), *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.long
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_prints_its_tables_and_leaves_no_file(name: str, tmp_path: Path) -> None:
    printed = script(name, "--tiny", "--dir", tmp_path, *SCRIPTS[name])
    tables = [table.splitlines() for table in printed.split("\n\n") if table.startswith("| ")]
    assert tables
    assert all(len(table) > 2 for table in tables)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_the_straight_line_runs() -> None:
    assert script("straight.py", "--rounds", "5").count(", ratio ") == 2


def test_a_run_replaces_its_own_table_in_the_page() -> None:
    """And keeps all other tables."""
    before = (BENCHMARKS / "README.md").read_text(encoding="utf-8")
    code = "import sys, figures; print(figures.inserted(sys.stdin.read(), 'startup', '| a row |'), end='')"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=BENCHMARKS, input=before, capture_output=True, text=True, check=True)
    begin, end = "<!-- startup -->\n", "<!-- end of startup -->\n"
    assert done.stdout.split(begin)[1].split(end)[0] == "| a row |\n"
    assert done.stdout.split(begin)[0] == before.split(begin)[0]
    assert done.stdout.split(end)[1] == before.split(end)[1]


@pytest.mark.long
def test_ranked_search_answers_more_questions_than_bm25() -> None:
    """In both halves of the English questions: in first place, among five and ten, and by mean reciprocal rank."""
    rows = [line.strip("| ").split(" | ") for line in script("search/quality.py", "--tiny").splitlines()]
    figures = {row[1]: [float(each) for each in row[3:7] + row[8:]] for row in rows if row[0] == "en"}
    assert len(figures) == 4
    ranked = figures.pop("ranked")
    for other in figures.values():
        assert all(ours > theirs for ours, theirs in zip(ranked, other, strict=True))
