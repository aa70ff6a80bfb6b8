"""The benchmark of encryption runs in its smallest size. No time is checked."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "sealed.py"


def test_sealed_measures_every_case_bare_and_sealed(tmp_path: Path) -> None:
    """Each case has a figure for each kind of store and, if the store is encrypted, a cost. No other file is left."""
    command = [sys.executable, str(SCRIPT), "--tiny", "--dir", str(tmp_path), "--json", str(tmp_path / "run.json")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["run.json"]
    (sheet,) = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))["sheets"]
    kinds = ("bare", "sealed", "sealed paths")
    found = [(record["case"], record["kind"]) for record in sheet["records"]]
    assert found == [(case, kind) for case in ("edit", "view", "list") for kind in kinds]
    assert {record["kind"] for record in sheet["records"] if record["cost"] is None} == {"bare"}
    assert "bare = 1" in ended.stdout
