"""Bounds of an examination: work grows with the text, however hostile, and bulk judgement misses nothing certain."""

from __future__ import annotations

import base64
import importlib
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from random import Random
from types import FrameType

import pytest

from retentive.redaction import detector, search, values
from retentive.redaction.detector import Detector, Find
from retentive.redaction.examiner import _lines
from retentive.redaction.search import MAX_JUDGED, MAX_TOKENS, Budget, Search

from .sensitive_values import ALNUM, github, of, pem

DETECTOR = Detector()
CHARS = 4_000
GROWTH = 8
MOST_GROWTH = 2 * GROWTH  # what is quadratic grows by 64
LAST_LINE = "\n'a1B2-c3D4-e5F6-g7H8'\n"  # what may follow a word: it is sought, and is on another line
FEW = 100  # places to judge in these tests
KEY_START = "-----BEGIN " + "PRIVATE KEY-----"


def lines(form: str) -> str:
    """Distinct values in a form, as many as fill the longest text."""
    rng = Random(form)
    made = (form.format(v=of(rng, ALNUM, 12) + "#4q", t=of(rng, ALNUM, 36), n=number) for number in range(3_000))
    return "".join(made)


def encoded(text: str) -> str:
    return base64.b64encode((text * 60).encode()).decode() + "\n"


TEXTS = {
    "one name": "password=",
    "pairs": "password=aaaa1 ",
    "colons": "password: ",
    "names": "password token key ",
    "prose": "the password is not 1 ",
    "value first": "is the password ",
    "passphrase": "passphrase: word ",
    "Chinese": "密码是abcd",
    "table heads": "name,password\n",
    "table": "name,password\n" + lines("user{n},{v}\n"),
    "key starts": KEY_START,
    "key start lines": KEY_START + "\n",
    "key without an end": KEY_START + "\nMIIEAAAAAAAAAAAAAAAA\n",
    "percent": "%41",
    "percent names": "%70assword%3d",
    "base64 of pairs": encoded("password=aaaa1 "),
    "base64 of percent": encoded("%41"),
    "base64 of key starts": encoded(KEY_START),
    "prefixes": "ghp_",
    "prefixes of tokens": "xoxb-",
    "short tokens": "fm2_" + "a1B2" * 15 + ",",
    "ends of tokens": "-us1",
    "middles of tokens": ":AAabcdef",
    "URLs": "://a:b@",
    "connection": "host= password=",
    "markers": "password: [REDACTED:password]Xk9#mQ2zv",
    "wrapped": "ghp_abcdefghijkl\n",
    "passwords": lines("db_password = {v}\n"),
    "passwords in a line": lines("password={v} "),
    "passwords in URLs": lines("postgres://app:{v}@db{n}/x\n"),
    "tokens": lines("ghp_{t}\n"),
    "passwords in prose": lines("the password of host {n} is {v}\n"),
}


class Metered:
    """A compiled pattern that counts the characters that it reads."""

    def __init__(self, pattern: re.Pattern[str], read: Counter[str]) -> None:
        self._pattern, self._read = pattern, read

    def __getattr__(self, name: str) -> object:
        return getattr(self._pattern, name)

    def search(self, text: str, pos: int = 0, endpos: int = sys.maxsize) -> re.Match[str] | None:
        return self._counted(self._pattern.search(text, pos, endpos), pos, min(endpos, len(text)))

    def match(self, text: str, pos: int = 0, endpos: int = sys.maxsize) -> re.Match[str] | None:
        return self._counted(self._pattern.match(text, pos, endpos), pos, pos)

    def fullmatch(self, text: str, pos: int = 0, endpos: int = sys.maxsize) -> re.Match[str] | None:
        return self._counted(self._pattern.fullmatch(text, pos, endpos), pos, pos)

    def finditer(self, text: str, pos: int = 0, endpos: int = sys.maxsize) -> Iterator[re.Match[str]]:
        self._read["chars"] += max(0, min(endpos, len(text)) - pos)
        return self._pattern.finditer(text, pos, endpos)

    def _counted(self, match: re.Match[str] | None, pos: int, end: int) -> re.Match[str] | None:
        self._read["chars"] += max(0, (match.end() if match else end) - pos)
        return match


@pytest.fixture(scope="module")
def read() -> Iterator[Counter[str]]:
    """Characters read by the patterns of the built-in rules, those of `re`; the patterns are compiled anew."""
    names = ("checks", "contacts", "named", "numbers", "search", "tables", "values", "views", "words", "detector")
    modules = [importlib.import_module(f"retentive.redaction.{name}") for name in names]
    counts: Counter[str] = Counter()
    compiled = re.compile
    with pytest.MonkeyPatch.context() as patch:
        for module in modules:
            for name, value in vars(module).items():
                if isinstance(value, re.Pattern):
                    patch.setattr(module, name, Metered(value, counts))
        patch.setattr(re, "compile", lambda *given: Metered(compiled(*given), counts))
        patch.setattr(search, "MAX_JUDGED", FEW)
        detector._built_in_rules.cache_clear()
        detector._built_in_rules(False)
        yield counts
    detector._built_in_rules.cache_clear()


def work(text: str, read: Counter[str]) -> Counter[str]:
    """Function calls, judgements of values, and characters read while a text is examined."""
    graded = {function.__code__ for function in (values.password, values.secret)}
    found = Detector(with_re2=False)
    counts: Counter[str] = Counter()
    before = read["chars"]

    def profile(frame: FrameType, event: str, _argument: object) -> None:
        counts["calls"] += event in {"call", "c_call"}
        counts["judgements"] += event == "call" and frame.f_code in graded

    sys.setprofile(profile)
    try:
        found.find(text)
    finally:
        sys.setprofile(None)
    counts["chars"] = read["chars"] - before
    return counts


@pytest.mark.long
@pytest.mark.parametrize("name", TEXTS)
def test_work_grows_with_the_text(name: str, read: Counter[str]) -> None:
    """Calls and characters for a text and one eight times as long. Places beyond the limit are not judged."""
    whole = TEXTS[name] * (GROWTH * CHARS // len(TEXTS[name]) + 1)
    short, long = (work(whole[:chars] + LAST_LINE, read) for chars in (CHARS, GROWTH * CHARS))
    for count in ("calls", "chars"):
        assert long[count] < MOST_GROWTH * short[count]
    assert long["judgements"] <= 12 * FEW


def test_no_search_repeats_a_class_without_a_bound(read: Counter[str]) -> None:
    """Such a repetition could read the whole text again from every place. A group may repeat: it starts once."""
    engine = detector._built_in_rules(False)
    searches = [one for one in vars(engine).values() if isinstance(one, Search)]
    searches += [one for rows in vars(engine).values() if isinstance(rows, tuple | list) for one in _searches(rows)]
    assert len(searches) >= 15
    for one in searches:
        for pattern in (one._pattern.pattern, one._then.pattern):
            classes = re.sub(r"\\.|\[(?:\\.|[^\]\\])*\]", lambda part: "C" if part[0][0] in "[s" else part[0], pattern)
            assert re.findall(r"(?:C|(?<!\\)\.|\\[sSwWdD])(?:[*+]|\{\d+,\})", classes) == []


def _searches(rows: Iterable[object]) -> Iterator[Search]:
    for row in rows:
        yield from (one for one in (row if isinstance(row, tuple) else (row,)) if isinstance(one, Search))


def test_no_certain_value_is_missed_after_many() -> None:
    """The last of many values, in every form, and ordinary text between them stays."""
    rng = Random(5)
    passwords = [of(rng, ALNUM, 14) + "!7z" for _ in range(3 * MAX_JUDGED)]
    ordinary = "The token of the parser is described in the manual.\n"
    key, token = pem(rng), github(rng)
    text = "".join(f'"db_password": "{value}",\n' for value in passwords[:-5]) + ordinary
    forms = ("app.secret={}", "export DB_PASSWORD='{}'", "password: {}", "https://app:{}@example.org/x")
    last = [*passwords[-5:-1], passwords[-1]]
    text += "".join(ordinary + form.format(value) + "\n" for form, value in zip(forms, last, strict=False))
    text += f"{ordinary}Authorization: Bearer {last[4]}{last[3]}\n{ordinary}{key}\n{ordinary}use {token} now\n"
    redacted, _ = DETECTOR.redact(text)
    assert [value for value in passwords if value in redacted] == []
    assert key.splitlines()[1] not in redacted
    assert token not in redacted
    assert redacted.count(ordinary.strip()) == 8


def test_no_token_is_missed_after_many() -> None:
    """Tokens of several vendors, also one with a short prefix; the words beside them stay."""
    rng = Random(6)
    tokens = [github(rng) for _ in range(MAX_TOKENS + 50)]
    tokens += ["xoxb-" + of(rng, "0123456789", 12) + "-" + of(rng, ALNUM, 24), "SK" + of(rng, "0123456789abcdef", 32)]
    words = "is in path/to/some/file or patternmatching"
    redacted, _ = DETECTOR.redact("".join(f"{token} {words}\n" for token in tokens))
    assert [token for token in tokens if token in redacted] == []
    assert redacted.count(words) == len(tokens)


def test_many_flagged_lines_are_numbered() -> None:
    """Lines that a removed value takes away are not counted."""
    finds = [Find("password", at, at + 1, likely=True) for at in range(0, 40_000, 2)]
    text = "x\n" * 20_000
    assert _lines(text, finds, [Find("secret", 0, 4)])[-1] == (19_998, "password")


def test_a_budget_ends() -> None:
    left = Budget(2)
    assert [left.take() for _ in range(4)] == [True, True, False, False]
