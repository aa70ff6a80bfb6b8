"""The engine of the built-in rules: bounded time for every input, and the same finds in any text."""

from __future__ import annotations

from random import Random

import pytest

from retentive.redaction.detector import KINDS, Detector
from retentive.redaction.rules import data
from support.detection.values import kinds

from .test_sensitive_bounds import CHARS, GROWTH, LEAST_S, MOST_GROWTH, seconds


def test_finds_do_not_depend_on_the_text_around_them() -> None:
    """A value of each kind alone, and in a long text between all others: each rule runs wherever its literal is."""
    rng, detector = Random(7), Detector()
    values = [kind.make(rng) for kind in kinds() if kind.group in {"bare", "key file"}]
    whole = "\n\nSome ordinary words, and a pa\u017fsword of \u0130\u212a.\n\n".join(values)
    found = {whole[find.start : find.end] for find in detector.find(whole)}
    missed = [value for value in values if not all(value[at.start : at.end] in found for at in detector.find(value))]
    assert missed == []
    assert len(found) >= len(values)


def test_every_row_of_a_table_has_a_known_kind() -> None:
    tables = data()
    assert {row[0] for table in ("vendors", "forms", "named") for row in tables[table]} <= set(KINDS)


@pytest.mark.long
@pytest.mark.parametrize("part", range(8))
def test_time_grows_with_the_literals(part: int) -> None:
    """What the rules search for, one literal again and again."""
    tables = data()
    starts = sorted({start for row in tables["vendors"] for start in row[1].split()})
    starts += [literal for row in tables["forms"] for literal in row[1].split("|")]
    whole = "".join(start * 20 for start in starts[part::8]) * 20
    short, long = (seconds(whole[:chars]) for chars in (CHARS, GROWTH * CHARS))
    assert long < MOST_GROWTH * max(short, LEAST_S)
