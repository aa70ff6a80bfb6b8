"""The tables of the platforms are those of the recorded results, and every result belongs to a test that exists."""

from __future__ import annotations

import re
from datetime import date

from support.pages import ROOT
from support.recorded import results

from .platforms import PAGE, PROOFS, TABLES, cell, filled

PASSED = {"result": "passed", "date": "2026-11-25"}
OLDER = {"result": "passed", "date": "2026-11-23"}
SKIPPED = {"result": "not run", "date": "2026-11-25", "reason": "no root"}
FAILED = {"result": "failed", "date": "2026-11-25"}


def test_the_tables_are_current() -> None:
    """If this fails, run: make docs"""
    page = PAGE.read_text("utf-8")
    assert filled(page, results()) == page


def test_every_result_is_of_a_test_that_exists() -> None:
    for name, found in results().items():
        file, _, function = name.partition("::")
        assert f"def {function.partition('[')[0]}(" in (ROOT / file).read_text("utf-8"), name
        assert found["result"] in {"passed", "failed", "not run"}
        assert date.fromisoformat(found["date"]) <= date.today()
        assert found["machine"]


def test_every_cell_is_of_a_test_that_exists() -> None:
    """The tables ask for results by the names of tests; a renamed test would be "not run" for ever."""
    asked = set[str]()

    class Asked(dict[str, dict[str, str]]):
        def get(self, key: str, default: object = None) -> dict[str, str]:
            asked.add(key)
            return PASSED

    for table in TABLES.values():
        assert all("not run" not in line for line in table(Asked()))
    assert len(asked) > 100
    for name in {each.partition("[")[0] for each in asked}:
        file, _, function = name.partition("::")
        assert f"def {function}(" in (ROOT / file).read_text("utf-8"), name
    targets = (ROOT / "Makefile").read_text("utf-8")
    assert [command for command, _ in PROOFS.values() if f"\n{command.removeprefix('make ')}:" not in targets] == []


def test_a_cell_is_no_better_than_its_worst_test() -> None:
    found = {"a": PASSED, "b": OLDER, "c": SKIPPED, "d": FAILED}
    assert cell(found, ["a", "b"]) == "passed 2026-11-23"
    assert cell(found, ["a", "c"]) == "not run: no root"
    assert cell(found, ["a", "missing"]) == "not run"
    assert cell(found, ["c", "d", "a"]) == "**failed**"


def test_no_result_is_written_by_hand() -> None:
    """Outside of the generated tables, the page has no cell with a result."""
    page = PAGE.read_text("utf-8")
    for name in TABLES:
        page = re.sub(rf"<!-- {name} -->.*?<!-- end of {name} -->", "", page, flags=re.DOTALL)
    assert re.findall(r"\| *passed", page) == []
