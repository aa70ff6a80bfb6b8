"""Recall and precision: random values of every kind are found in many contexts, and benign texts are unchanged."""

from __future__ import annotations

from pathlib import Path

from retentive.redaction.detector import Detector
from support.detection.cases import cases
from support.detection.redaction import redact

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
