"""Text analysis for ranked search: split a text into words, and words into tokens.

A word is a run of letters, marks, digits and `_`. This follows UAX 29 without its rules for apostrophes and dots,
because those rules would keep `l'équipe` and `main.py` as single words. Chinese, Japanese, Korean, Thai, Lao, Khmer and
Burmese text is split into overlapping pairs of characters instead, and so are emoji. A token is a stem without accents,
in lower case; compatibility forms (NFKC) are equal. An identifier has a token for each of its parts and one for all.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import cache

import snowballstemmer

from retentive.search.languages import LATIN, dates, stop_words

_MARKS = (
    r"\u00ad\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    r"\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u0711\u0730-\u074a\u07a6-\u07b0\u08d3-\u08e1\u08e3-\u0963"
    r"\u0971-\u0df3\u0f35-\u0f84\u135d-\u135f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20f0\ufe20-\ufe2f"
)
_DENSE = (  # scripts that are written without spaces between words, and Hangul, where particles are part of words
    r"\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0edf\u1000-\u109f\u1100-\u11ff\u1780-\u17d3\u17d7\u17dc\u17dd"
    r"\u3005-\u3007\u3041-\u3096\u3099\u309a\u309d\u309e\u30a1-\u30fa\u30fc-\u30ff\u3105-\u312f\u3131-\u318e"
    r"\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97c\uac00-\ud7fb\uf900-\ufaff"
    r"\U0001b000-\U0001b16f\U00020000-\U000323af"
    r"\u2190-\u21ff\u2300-\u23ff\u2600-\u27bf\U0001f000-\U0001faff"  # arrows, symbols and emoji
)
_PLAIN_WORD = re.compile(r"\w+")  # in a text without the characters above
_PLAIN_WORD_OR_END = re.compile(r"\w+|\n")
_WORD = re.compile(rf"[^\W{_DENSE}][^\W{_DENSE}{_MARKS}]*(?:[{_MARKS}]+[^\W{_DENSE}]*)*")
DENSE_RUN = re.compile(rf"[{_DENSE}]+")
_SPLIT = re.compile(rf"[{_DENSE}{_MARKS}]")
_TOKEN = re.compile(rf"[{_DENSE}]+|{_WORD.pattern}")
_TOKEN_OR_END = re.compile(rf"{_TOKEN.pattern}|\n")
_PART = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_+")
_SCRIPTS = (  # first character, last character, language of the stemmer
    ("Ͱ", "Ͽ", "greek"),
    ("Ѐ", "ӿ", "russian"),
    ("Ա", "֏", "armenian"),
    ("ء", "ۿ", "arabic"),
    ("ऀ", "ॿ", "hindi"),
    ("஀", "௿", "tamil"),
)
_OTHER_SCRIPTS = frozenset({"nepali", "persian", "serbian", "yiddish"})  # used only if `search_languages` names them
_MIN_STEMMED = 4  # characters; shorter words are their own stems


def normal(text: str) -> str:
    """Return the text in Unicode NFKC."""
    return text if text.isascii() or unicodedata.is_normalized("NFKC", text) else unicodedata.normalize("NFKC", text)


def words_of(text: str, *, ends: bool = False) -> list[str]:
    """Return the words of a text as written, and the character pairs of scripts without spaces, in their order.

    With `ends`, the ends of lines are among them.
    """
    text = normal(text)
    if text.isascii() or _SPLIT.search(text) is None:  # twice as fast
        return (_PLAIN_WORD_OR_END if ends else _PLAIN_WORD).findall(text)
    found = (_TOKEN_OR_END if ends else _TOKEN).findall(text)
    return [piece for word in found for piece in (_pairs(word) if is_dense(word) else (word,))]


def _pairs(run: str) -> list[str]:
    """Return the overlapping pairs of the characters of a run, and its last character alone."""
    return [run[at : at + 2] for at in range(len(run))]


def spans(text: str) -> list[tuple[str, int, int]]:
    """Return the words of a text, as `words_of` does, each with its start and end position in the text."""
    found: list[tuple[str, int, int]] = []
    for match in _TOKEN.finditer(text):
        token, (start, end) = match[0], match.span()
        if is_dense(token):
            found += [(pair, start + at, start + at + len(pair)) for at, pair in enumerate(_pairs(token))]
        else:
            found.append((token, start, end))
    return found


def is_dense(word: str) -> bool:
    """Return whether a word belongs to a script that is split into pairs of characters."""
    return not word.isascii() and DENSE_RUN.match(word) is not None


def parts(word: str) -> tuple[str, ...]:
    """Return the folded words that a word stands for, such as the parts of an identifier.

    An ordinary word stands for itself. An identifier such as `parseDate` or `max_size` stands for each of its parts,
    and for all its parts as one word: `parsedate` or `maxsize`.
    """
    pieces = [piece.casefold() for piece in _PART.split(word) if piece]
    if len(pieces) < 2:
        return tuple(pieces)
    return ("".join(pieces), *dict.fromkeys(pieces))


@cache
def _stemmer(language: str) -> Callable[[str], str]:
    stem: Callable[[str], str] = snowballstemmer.stemmer(language).stemWord
    return stem


def token(word: str, language: str) -> str:
    """Return the token of a folded word: its stem without accents, soft hyphens and the Arabic article.

    `language` is the language of the words in Latin script; other scripts have a stemmer of their own, or none.
    """
    if len(word) >= _MIN_STEMMED and (word.isalpha() or not word.isascii()):
        stemmer = next((name for low, high, name in _SCRIPTS if low <= word[0] <= high), None)
        if (word[0] < "ɐ") != (language in _OTHER_SCRIPTS):
            stemmer = language
        word = word if stemmer is None else _stemmer(stemmer)(word)
    if word.isascii():
        return word
    letters = "".join(each for each in unicodedata.normalize("NFD", word) if not unicodedata.combining(each))
    letters = letters.replace("\u00ad", "").replace("ı", "i")
    return letters[2:] if letters.startswith("ال") and len(letters) > _MIN_STEMMED else letters


class WordTokens(dict[str, str]):
    """Tokens of each word in one language, separated by blanks. They are computed at the first use of a word."""

    def __init__(self, language: str) -> None:
        super().__init__({"\n": "\n"})
        self._language = language

    def __missing__(self, word: str) -> str:
        forms = (word,) if is_dense(word) else [token(part, self._language) for part in parts(word)]
        found = self[word] = " ".join(forms)
        return found

    def rows(self, text: str) -> list[str]:
        """Return the tokens of each line of a text, with those of a date behind its last word."""
        words = words_of(text, ends=True)
        tokens = [*map(self.__getitem__, words)]
        for _, last, found in dates(words):
            tokens[last] = " ".join([tokens[last], *found])
        return " ".join(tokens).split("\n")


def detected(words: Iterable[frozenset[str]]) -> tuple[str, ...]:
    """Detect the languages of texts in Latin script. Each text is given as the set of its folded words.

    The language of a text is clear if the text contains at least two function words of this language. Texts without a
    clear language are ignored. A language is returned if more than a tenth of the other texts are in this language. If
    all texts are ignored, the result is English.
    """
    votes: dict[str, int] = {}
    for each in words:
        counts = {language: len(stop_words(language) & each) for language in LATIN}
        best = max(LATIN, key=counts.__getitem__)
        if counts[best] >= 2:
            votes[best] = votes.get(best, 0) + 1
    enough = sum(votes.values()) / 10
    return tuple(language for language in LATIN if votes.get(language, 0) > enough) or ("english",)
