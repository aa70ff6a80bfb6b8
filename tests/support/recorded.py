"""Plugin of pytest that keeps the results of tests in tests/environments/results.json, if RETENTIVE_RECORD is set.

The tables of docs/platforms.md are made from this file. A result replaces the earlier one of the same test.
"""

from __future__ import annotations

import json
import os
import platform
from datetime import UTC, datetime
from typing import Any

import pytest

from .pages import ROOT

RESULTS = ROOT / "tests" / "environments" / "results.json"


def results() -> dict[str, dict[str, str]]:
    """The last result of each test: `result`, `date`, `machine` and, if it was not run, `reason`."""
    found: dict[str, dict[str, str]] = json.loads(RESULTS.read_text("utf-8"))
    return found


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Write the result of a test as soon as it is known: a long run may be interrupted."""
    if "PYTEST_XDIST_WORKER" not in os.environ and (report.when == "call" or report.outcome != "passed"):
        _keep(report.nodeid, _entry(report))


def _entry(report: pytest.TestReport) -> dict[str, str]:
    release = ".".join(platform.release().split(".")[:2])
    found = {
        "result": "not run" if report.outcome == "skipped" else report.outcome,
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.system()} {release}, Python {platform.python_version()}",
    }
    if report.outcome == "skipped":
        reason: Any = report.longrepr
        found["reason"] = (
            str(reason[2] if isinstance(reason, tuple) else reason).removeprefix("Skipped: ").replace("\n", " ")
        )
    return found


def _keep(name: str, entry: dict[str, str]) -> None:
    kept = results() if RESULTS.exists() else {}
    kept[name] = entry
    new = RESULTS.with_suffix(".new")
    new.write_text(json.dumps(dict(sorted(kept.items())), indent=1, ensure_ascii=False) + "\n", "utf-8")
    new.replace(RESULTS)
