"""Texts that the guard stores without a search: short, and without a keyword of the rules."""

from __future__ import annotations

from base64 import b64encode
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retentive.redaction.detector import Detector
from retentive.redaction.examiner import TextExaminer
from retentive.redaction.words import LOGIN_WORDS, PASSWORD_WORDS, SECRET_WORDS, SHORT_WORDS

from .sensitive_values import BARE

KEYWORDS = sorted({*PASSWORD_WORDS, *SECRET_WORDS, *LOGIN_WORDS, *SHORT_WORDS})
SENTENCES = ("the {} is swordfish", "{}\nswordfish", "swordfish. {} swordfish")


def is_plain(text: str) -> bool:
    plain = TextExaminer().plain
    assert plain is not None
    return bool(plain(text))


@pytest.mark.parametrize("word", KEYWORDS)
def test_a_sentence_with_a_keyword_is_searched(word: str) -> None:
    """In lower case, upper case and title case."""
    forms = (word, word.upper(), word.title())
    assert not any(is_plain(sentence.format(form)) for sentence in SENTENCES for form in forms)


@pytest.mark.parametrize(
    "text", ["one\ntwo\n", "Ada likes tea.\n", "/memories/a/b-2024.md", "", "Call back on Monday!\n"]
)
def test_a_short_text_without_keywords_is_not_searched(text: str) -> None:
    """The search would find nothing either."""
    assert is_plain(text)
    assert Detector().find(text) == []


def test_twelve_words_are_searched() -> None:
    """They may be a seed phrase."""
    assert not is_plain("abandon " * 11 + "about")


WORDS = ("memories", "customers", "projects", "d001", "note-000001.md", "2026-11-26-meeting.md", "u_12345", "Ab9")
SLOW = Detector(detectors=[lambda _: ()])
"""Detector that searches every text: with a detector of the application, there is no quick check."""


@given(st.integers(0, 10_000), st.lists(st.sampled_from(WORDS), min_size=1, max_size=8), st.sampled_from("/ _\n"))
def test_the_quick_check_finds_what_the_search_finds(seed: int, words: list[str], between: str) -> None:
    """Paths and texts of words that may look like base64, with a value of some kind, plain or in base64."""
    rng = Random(seed)
    value = rng.choice(rng.choice(list(BARE.values())))(rng)
    encoded = b64encode(value.encode()).decode()
    for part in ("", value, encoded, encoded.replace("+", "-").replace("/", "_")):
        text = between.join([*words, part, *words])
        for in_path in (False, True):
            assert Detector().find(text, in_path=in_path) == SLOW.find(text, in_path=in_path)
