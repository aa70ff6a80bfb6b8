"""Bounds of an examination: time grows with the text, however hostile, and bulk judgement misses nothing certain."""

from __future__ import annotations

import base64
import sys
import time
from collections.abc import Callable
from random import Random

import pytest

from retentive.redaction import values
from retentive.redaction.detector import Detector
from retentive.redaction.search import MAX_JUDGED, Budget, has_re2
from support.profiles import REQUIRED

from .sensitive_values import ALNUM, github, of, pem

DETECTOR = Detector()
CHARS = 20_000
GROWTH = 8
MOST_GROWTH = 3 * GROWTH  # what is quadratic grows by 64
KEY_START = "-----BEGIN " + "PRIVATE KEY-----"


def lines(form: str) -> str:
    """Distinct values in a form, as many as fill the longest text."""
    rng = Random(form)
    made = (form.format(v=of(rng, ALNUM, 12) + "#4q", t=of(rng, ALNUM, 36), n=number) for number in range(12_000))
    return "".join(made)


def encoded(text: str) -> str:
    return base64.b64encode((text * 400).encode()).decode() + "\n"


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


@pytest.mark.skipif(not has_re2() and not REQUIRED, reason="google-re2 is not installed")
@pytest.mark.parametrize("name", TEXTS)
def test_time_grows_with_the_text(name: str) -> None:
    """Processor time of a text and one eight times as long, each the best of a few."""
    whole = TEXTS[name] * (GROWTH * CHARS // len(TEXTS[name]) + 1)
    short, long = whole[:CHARS], whole[: GROWTH * CHARS]
    DETECTOR.find(long)
    growth = min(_seconds(long) for _ in range(3)) / min(_seconds(short) for _ in range(5))
    assert growth < MOST_GROWTH


def _seconds(text: str) -> float:
    start = time.thread_time()
    DETECTOR.find(text)
    return time.thread_time() - start


@pytest.mark.parametrize("name", TEXTS)
def test_the_number_of_judgements_is_bounded(name: str) -> None:
    """Whatever the length; tokens have a cheap check of their own."""
    text = TEXTS[name] * (CHARS // len(TEXTS[name]) + 1)
    assert max(_judgements(text), _judgements(3 * text)) <= 12 * MAX_JUDGED


def _judgements(text: str) -> int:
    """Calls of the functions that grade a value."""
    graded: dict[Callable[..., int], None] = dict.fromkeys((values.password, values.secret))
    codes, calls = {function.__code__ for function in graded}, [0]

    def profile(frame: object, event: str, _argument: object) -> None:
        calls[0] += event == "call" and getattr(frame, "f_code", None) in codes

    sys.setprofile(profile)
    try:
        DETECTOR.find(text)
    finally:
        sys.setprofile(None)
    return calls[0]


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


def test_a_budget_ends() -> None:
    left = Budget(2)
    assert [left.take() for _ in range(4)] == [True, True, False, False]
