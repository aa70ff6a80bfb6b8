"""Texts that the guard stores without a search: short, and without a keyword of the rules."""

from __future__ import annotations

import pytest

from retentive.redaction.detector import Detector
from retentive.redaction.examiner import TextExaminer
from retentive.redaction.words import LOGIN_WORDS, PASSWORD_WORDS, SECRET_WORDS, SHORT_WORDS

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
