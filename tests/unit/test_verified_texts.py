"""Large texts are verified by comparison once they matched their hash."""

import hashlib

import pytest

from retentive.errors import Damaged
from retentive.values.text import count_lines, line_start, verified

LARGE = b"one line\n" * 20_000


def test_damage_is_found_in_a_large_text_that_was_read_before() -> None:
    """A changed byte is found in the first read, and in a read after the text matched."""
    digest = hashlib.sha256(LARGE).hexdigest()
    damaged = LARGE[:-2] + b"X\n"
    with pytest.raises(Damaged):
        verified(damaged, digest, None, "/memories/a.md")
    assert verified(LARGE, digest, None, "/memories/a.md") is LARGE
    assert verified(bytes(bytearray(LARGE)), digest, None, "/memories/a.md") == LARGE
    for wrong in (damaged, LARGE[:-1], LARGE + b"\n", b"", None):
        with pytest.raises(Damaged):
            verified(wrong, digest, None, "/memories/a.md")


def test_the_start_of_a_line_is_the_same_from_every_earlier_line() -> None:
    """Short and long distances, from the start, from the end and from a known line."""
    text = "".join("x" * (number % 7) + "\n" for number in range(30_000)) + "last"
    lines = count_lines(text)
    starts = [0, *(at + 1 for at, char in enumerate(text) if char == "\n")]
    for known in (1, 2, 900, 14_000, lines - 1):
        for line in (known, known + 1, min(known + 1_001, lines), min(known + 12_345, lines), lines):
            assert line_start(text, line, lines, after=(known, starts[known - 1])) == starts[line - 1]
    assert line_start(text, lines + 1, lines, after=(5, starts[4])) == len(text)
