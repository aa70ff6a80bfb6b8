"""`doctor`: every promise a place makes about what rests in it, checked and, where possible, repaired."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from retentive.cli import output
from retentive.cli.exits import PROBLEMS
from retentive.cli.location import Place, pass_place

if TYPE_CHECKING:
    from retentive.doctor import Finding

_COLUMNS = ("severity", "store", "code", "what")


@click.command(cls=output.Command)
@click.option("--repair", is_flag=True, help="Repair what can be repaired for certain; then look again.")
@click.option("--quick", is_flag=True, help="Leave out the texts of older versions.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object with all that was found.")
@pass_place
def doctor(place: Place, *, repair: bool, quick: bool, as_json: bool) -> None:
    """Check everything a place keeps, in every memory store: memories, versions, texts, counts, records, files.

    Nothing is written without --repair, and others may go on working meanwhile. Each finding is a line: how bad (ok,
    note, problem, repaired), the memory store, the code, what it is; in a pipe with tabs between, and what to do about
    it at the end. Ends with status 17 if problems are left.
    """
    from retentive.doctor import check_place  # noqa: PLC0415 - not free to import

    with output.progress("Checking") as advance:
        tell = None if advance is None else lambda store, looked_at: advance(looked_at, part=store)
        findings = check_place(place.at, keys=place.given_keys(), quick=quick, repair=repair, progress=tell)
        found = list(findings if as_json or output.on_terminal() else _printed(findings))
    counts: Counter[str] = Counter(finding.severity for finding in found)
    value = {"findings": [_object(finding) for finding in found], **{name: counts[name] for name in _COUNTED}}
    output.emit(value, as_json=as_json, shown=_shown(found, counts))
    if counts["problem"]:
        raise click.exceptions.Exit(PROBLEMS)


_COUNTED = ("ok", "note", "problem", "repaired")


def _printed(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Print each as it is found: in a pipe nobody waits for the widths of columns."""
    for finding in findings:
        output.emit_row((*_row(finding), finding.kind.advice))
        yield finding


def _row(finding: Finding) -> tuple[str, ...]:
    what = f"{finding.kind.meaning} {finding.subject}".rstrip()
    plain = output.harmless(what).replace("\n", " ").replace("\t", " ")
    return finding.severity, output.harmless(finding.store_key or finding.store_id or "-"), finding.code, plain


def _shown(found: list[Finding], counts: Counter[str]) -> list[output.Piece]:
    """The table, a line of advice for each kind of finding, and the totals."""
    advice = {finding.code: finding.kind.advice for finding in found if finding.severity in {"problem", "note"}}
    return [
        output.Table(_COLUMNS, map(_row, found)),
        *(f"{code}: {text}" for code, text in advice.items() if text),
        f"{counts['problem']} problems, {counts['note']} notes, {counts['repaired']} repaired.",
    ]


def _object(finding: Finding) -> dict[str, object]:
    return {
        "severity": finding.severity,
        "store": finding.store_id,
        "key": finding.store_key,
        "code": finding.code,
        "subject": finding.subject,
        "meaning": finding.kind.meaning,
        "advice": finding.kind.advice,
        "repairable": finding.kind.mends,
    }
