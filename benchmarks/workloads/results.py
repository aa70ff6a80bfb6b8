"""Tables of a run, and their place in the documentation."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from figures import Sheet, duration, figures, rate
from fill_readme import README, filled
from workloads.chart import chart
from workloads.environments import version
from workloads.operations import WORKLOADS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from workloads.adapters.base import System
    from workloads.measuring import Measured

CHART = Path(__file__).resolve().parents[2] / "docs" / "workloads.svg"
NAMES = {each.letter: f"{each.letter} {each.name}" for each in WORKLOADS}


def sheet(found: Mapping[str, Sequence[Measured]]) -> Sheet:
    """One row for each workload and system. A void figure is shown in no column but the validity."""
    rows, records = [], []
    for letter, measured in found.items():
        for one in measured:
            made = _record(letter, one)
            records.append(made)
            shown = ("", "", "")
            if made["is_valid"]:
                figure = figures(one.times_ns, span_ns=one.span_ns)
                shown = (rate(figure.per_second), duration(figure.median_ms), duration(figure.p99_ms))
            rows.append((NAMES[letter], one.system.name, *shown, str(made["validity"])))
    return Sheet("Workloads of agents", ("workload", "system", "operations/s", "p50", "p99", "validity"), rows, records)


def _record(letter: str, one: Measured) -> dict[str, object]:
    validity = f"FAILED: {one.failed[:80]}" if one.failed else one.oracle.verdict()
    made: dict[str, object] = {
        "workload": letter,
        "system": one.system.name,
        "is_valid": not one.failed and one.oracle.is_valid and bool(one.times_ns),
        "validity": validity,
        "faults": dict(one.oracle.faults),
        "refused": one.oracle.errors,
        "first_error": one.failed or one.oracle.error,
    }
    return made | (asdict(figures(one.times_ns, span_ns=one.span_ns)) if one.times_ns else {})


def offers(systems: Sequence[System], skipped: Mapping[str, str]) -> Sheet:
    """Promises of each system, and the reasons of those that did not run."""
    columns = ("system", "version", "a change is durable", "history", "precondition", "two processes", "this run")
    rows = [
        (
            each.name,
            version(each),
            each.durable,
            each.history,
            each.precondition,
            "yes" if each.is_shared else "no",
            f"skipped: {skipped[each.name]}" if each.name in skipped else "measured",
        )
        for each in systems
    ]
    return Sheet("What the systems offer", columns, rows, [asdict(each) for each in systems])


def publish(run: dict[str, object]) -> None:
    """Insert the tables of a run into benchmarks/README.md, and draw the chart that docs/comparison.md shows."""
    README.write_text(filled(README.read_text(encoding="utf-8"), run), encoding="utf-8")
    on, sheets = run["on"], run["sheets"]
    assert isinstance(on, dict)
    assert isinstance(sheets, list)
    caption = f"Operations per second, logarithmic. Measured {on['when']}."
    CHART.write_text(chart(sheets[0]["records"], NAMES, caption), encoding="utf-8")
