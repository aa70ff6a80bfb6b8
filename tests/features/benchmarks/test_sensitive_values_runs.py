"""The benchmark of detection rates runs in its smallest size. No rate or time is checked."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "sensitive_values.py"
PACKAGE = {
    "METADATA": "Name: example\nSummary: Reads the password of a store from the vault.\n" + "A line of text.\n" * 20,
    "package.json": json.dumps({"name": "example", "dependencies": {"left": "^1.2.3"}, "notes": ["text"] * 60}),
    "main.py": "def login(user: str, password: str) -> None:\n    check(user, password=password)\n" * 5,
    "key.yaml": "key: |\n  -----BEGIN RSA " + "PRIVATE KEY-----\n" + "x: 1\n" * 60,
    "short.md": "Too short.\n",
}


def run(folder: Path, *options: str) -> tuple[str, list[dict[str, object]]]:
    """Return the output and the records of a tiny run."""
    command = [
        sys.executable,
        str(SCRIPT),
        "--tiny",
        "--dir",
        str(folder),
        "--json",
        str(folder / "run.json"),
        *options,
    ]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    (sheet,) = json.loads((folder / "run.json").read_text(encoding="utf-8"))["sheets"]
    return ended.stdout, sheet["records"]


def test_values_have_a_recall_by_kind(tmp_path: Path) -> None:
    """The chosen half has at least 80 kinds, and the table has a row for all kinds together."""
    printed, records = run(tmp_path, "--part", "values", "--half", "seen")
    assert len({record["kind"] for record in records if not str(record["kind"]).startswith("all ")}) >= 80
    assert {record["half"] for record in records} == {"seen"}
    assert "all kinds" in printed


def test_benign_documents_are_counted_by_kind(tmp_path: Path) -> None:
    """The documents are files below a folder. Files that contain a key and files that are too short are omitted."""
    package = tmp_path / "package"
    package.mkdir()
    for name, text in PACKAGE.items():
        (package / name).write_text(text, encoding="utf-8")
    printed, records = run(tmp_path, "--part", "benign", "--root", str(package), "--only-root", "--show")
    real = {record["kind"]: record["documents"] for record in records if record["source"] == "real"}
    assert {kind: count for kind, count in real.items() if not str(kind).startswith("all")} == {
        "METADATA": 1,
        "manifest": 1,
        "python": 1,
    }
    assert "1 holds a key or token" in printed
    assert "1 short" in printed


@pytest.mark.long
def test_speed_is_measured_for_both_engines(tmp_path: Path) -> None:
    _, records = run(tmp_path, "--part", "speed", "--only-text", "prose", "--only-text", "spaces")
    found = [(record["engine"], record["text"]) for record in records]
    assert found == [(engine, text) for engine in ("re2", "re") for text in ("prose", "spaces")]
