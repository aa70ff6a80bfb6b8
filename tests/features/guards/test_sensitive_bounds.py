"""Bounds of an examination: its time grows with the text, however hostile, and no value is missed after many."""

from __future__ import annotations

import base64
from random import Random
from time import process_time

import pytest

from retentive.redaction.detector import KINDS, Detector, Find
from retentive.redaction.examiner import _lines
from retentive.redaction.rules import data
from support.detection.draw import of
from support.detection.judge import redact
from support.detection.values import kinds

DETECTOR = Detector()
MAKE = {kind.name: kind.make for kind in kinds()}
github, pem = MAKE["github-classic"], MAKE["rsa-private-key"]
CHARS = 4_000
GROWTH = 8
MOST_GROWTH = 2.5 * GROWTH
LEAST_S = 0.001  # a shorter time is mostly noise
MANY = 1_000  # values in one text
LAST_LINE = "\n'a1B2-c3D4-e5F6-g7H8'\n"  # what may follow a word: it is sought, and is on another line
KEY_START = "-----BEGIN " + "PRIVATE KEY-----"


def lines(form: str) -> str:
    """Distinct values in a form, as many as fill the longest text."""
    rng = Random(form)
    made = (form.format(v=of(rng, "a", 12) + "#4q", t=of(rng, "a", 36), n=number) for number in range(3_000))
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


def seconds(text: str) -> float:
    """Return the least processor time of three examinations."""
    times = []
    for _ in range(3):
        before = process_time()
        DETECTOR.find(text)
        times.append(process_time() - before)
    return min(times)


@pytest.mark.long
@pytest.mark.parametrize("name", TEXTS)
def test_time_grows_with_the_text(name: str) -> None:
    """Time for a text and for one eight times as long. What is quadratic takes 64 times as long."""
    whole = TEXTS[name] * (GROWTH * CHARS // len(TEXTS[name]) + 1)
    short, long = (seconds(whole[:chars] + LAST_LINE) for chars in (CHARS, GROWTH * CHARS))
    assert long < MOST_GROWTH * max(short, LEAST_S)


def test_no_certain_value_is_missed_after_many() -> None:
    """The last of many values, in every form, and ordinary text between them stays."""
    rng = Random(6)
    passwords = [of(rng, "a", 14) + "!7z" for _ in range(2 * MANY)]
    ordinary = "The token of the parser is described in the manual.\n"
    key, token, bearer = pem(rng), github(rng), of(rng, "a", 40)
    text = "".join(f'"db_password": "{value}",\n' for value in passwords[:-4]) + ordinary
    forms = ("app.secret={}", "export DB_PASSWORD='{}'", "password: {}", "https://app:{}@example.org/x")
    last = passwords[-4:]
    text += "".join(ordinary + form.format(value) + "\n" for form, value in zip(forms, last, strict=False))
    text += f"{ordinary}Authorization: Bearer {bearer}\n{ordinary}{key}\n{ordinary}use {token} now\n"
    redacted, _ = redact(text, DETECTOR)
    assert [value for value in passwords if value in redacted] == []
    assert key.splitlines()[1] not in redacted
    assert token not in redacted
    assert bearer not in redacted
    assert redacted.count(ordinary.strip()) == 8


def test_no_token_is_missed_after_many() -> None:
    """Tokens of several vendors, also one with a short prefix; the words beside them stay."""
    rng = Random(6)
    tokens = [github(rng) for _ in range(MANY)]
    tokens += ["xoxb-" + of(rng, "d", 12) + "-" + of(rng, "a", 24), "SK" + of(rng, "hex", 32)]
    words = "is in path/to/some/file or patternmatching"
    redacted, _ = redact("".join(f"{token} {words}\n" for token in tokens), DETECTOR)
    assert [token for token in tokens if token in redacted] == []
    assert redacted.count(words) == len(tokens)


def test_many_flagged_lines_are_numbered() -> None:
    """Lines that a removed value takes away are not counted."""
    finds = [Find("password", at, at + 1, likely=True) for at in range(0, 40_000, 2)]
    text = "x\n" * 20_000
    assert _lines(text, finds, [Find("secret", 0, 4)])[-1] == (19_998, "password")


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
