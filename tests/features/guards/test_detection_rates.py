"""Rates of detection on generated texts: the share of values that is found, and of benign documents that is changed.

`benchmarks/sensitive_values.py` measures the same on larger samples and on real documents. The texts are generated from
a seed at run time. Half of them are `unseen`: the rules are developed with the other half, so failures must not print
an unseen text. The assertions therefore compare numbers, because pytest prints the operands of an assertion.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import pytest

from retentive.redaction.detector import Detector
from support.detection.benign import Document, documents
from support.detection.cases import HALVES, Case, cases
from support.detection.draw import password
from support.detection.judge import Judge, Verdict, redact
from support.detection.phrases import PROSE
from support.profiles import sized

SEED = 20
PER_KIND = sized(quick=5, long=10, full=20)
MIN_RECALL = 0.97
MAX_CHANGED = 0.002
MAX_FLAGGED = 0.02
SHOWN = 40


@pytest.fixture(scope="module")
def judge() -> Iterator[Judge]:
    with Judge() as made:
        yield made


@pytest.fixture(scope="module")
def judged(judge: Judge) -> list[tuple[Case, Verdict]]:
    """Return every text of the sample with its verdict."""
    return [(case, judge(case.text)) for case in cases(SEED, per_kind=PER_KIND)]


@pytest.fixture(scope="module")
def benign(judge: Judge) -> list[tuple[Document, Verdict]]:
    """Return every generated benign document with its verdict."""
    return [(document, judge(document.text)) for document in documents(SEED, per_kind=3 * PER_KIND)]


def shown(half: str, texts: Sequence[str]) -> list[str]:
    """Return the first texts for a failure message, or no texts if they belong to the unseen half."""
    return list(texts[:SHOWN]) if half == "seen" else []


def test_the_sample_is_large_and_the_same_in_every_run() -> None:
    """Each half has at least 500 values of 80 kinds. There are at least 500 benign documents of 30 kinds."""
    sample = cases(SEED, per_kind=PER_KIND)
    assert sample == cases(SEED, per_kind=PER_KIND)
    for half in HALVES:
        own = [case for case in sample if case.half == half]
        assert len(own) >= 500
        assert len({case.kind for case in own}) >= 80
    assert all(case.survives_in(case.text) for case in sample)
    made = list(documents(SEED, per_kind=3 * PER_KIND))
    assert len(made) >= 500
    assert len({document.kind for document in made}) >= 30


@pytest.mark.long
@pytest.mark.parametrize("half", HALVES)
def test_sensitive_values_are_found(judged: list[tuple[Case, Verdict]], half: str) -> None:
    """A value counts as found if it is redacted as a certain or as a likely find."""
    own = [(case, verdict) for case, verdict in judged if case.half == half]
    left = [f"{case.kind}, {case.context}: {case.text!r}" for case, verdict in own if case.survives_in(verdict.both)]
    recall = 1 - len(left) / len(own)
    assert recall >= MIN_RECALL, shown(half, left)


@pytest.mark.long
@pytest.mark.parametrize("half", HALVES)
def test_benign_documents_are_not_changed_and_rarely_flagged(benign: list[tuple[Document, Verdict]], half: str) -> None:
    own = [(document.name, verdict) for document, verdict in benign if document.half == half]
    changed = [name for name, verdict in own if verdict.changed]
    flagged = [name for name, verdict in own if verdict.flagged]
    shares = len(changed) / len(own), len(flagged) / len(own)
    assert shares[0] <= MAX_CHANGED, shown(half, changed)
    assert shares[1] <= MAX_FLAGGED, shown(half, flagged)


@pytest.mark.parametrize("language", sorted(PROSE))
def test_a_password_in_prose_is_kept_and_flagged_by_default(judge: Judge, language: str) -> None:
    """The text is stored unchanged, and the reply names the line."""
    text = f"# Notes\n\n{PROSE[language][0].format(v=password(Random(language)))}\n"
    assert judge(text).certain == text
    note = judge.note(text)
    assert note.startswith("Note: line 3 may hold a sensitive value (")
    assert note.endswith("). Remove it unless it belongs here.")


DETECTOR = Detector()
FINDABLE = (Path(__file__).parent / "findable.txt").read_text("utf-8").splitlines()
BENIGN = [
    line.replace("⏎", "\n")
    for line in (Path(__file__).parent / "benign.txt").read_text("utf-8").split("\n")
    if line.strip()
]


def test_lines_as_people_write_them_are_found() -> None:
    """Short texts in five languages and a dozen notations, each with at least one value."""
    left = [line for line in FINDABLE if not DETECTOR.find(line)]
    assert len(FINDABLE) >= 150
    assert len(left) <= 0.05 * len(FINDABLE), left


def test_benign_texts_are_unchanged() -> None:
    changed = [text for text in BENIGN if DETECTOR.find(text)]
    assert len(BENIGN) >= 350
    assert len(changed) <= 0.005 * len(BENIGN), changed


def test_generated_values_are_found() -> None:
    """In every context, and nothing is found in the redacted text. `test_detection_rates.py` has larger samples."""
    sample = cases(3, per_kind=2)
    redacted = [redact(case.text, DETECTOR)[0] for case in sample]
    left = [case for case, text in zip(sample, redacted, strict=True) if case.survives_in(text)]
    assert len(left) <= 0.03 * len(sample), [case.text for case in left if case.half == "seen"]
    assert len([text for text in redacted if DETECTOR.find(text)]) == 0
