"""The search for sensitive values: the same finds with and without RE2, and bounded time for every input."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from collections import Counter
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retentive.redaction import named
from retentive.redaction.built_in import BuiltInRules
from retentive.redaction.detector import KINDS, Detector
from retentive.redaction.rules import Find
from retentive.redaction.search import Scanned, Search, alternatives
from retentive.redaction.vendors import INFIXES, VENDORS
from retentive.redaction.views import _base64_runs
from support.profiles import LONG, REQUIRED

from . import sensitive_contexts as contexts
from .sensitive_values import BARE, NAMED

DEADLINE_S = 600  # a hang fails the test; all inputs take less than a minute
NEEDS_RE2 = pytest.mark.skipif(
    importlib.util.find_spec("re2") is None and not REQUIRED,
    reason="google-re2 is not installed: pip install google-re2",
)
SEVERAL_LINES = [
    "insert into people (name,\n  password)\n values ('bob', 'Xk9#mQ2zv')",
    "INSERT\nINTO t (\na, password\n) VALUES (1, 'Xk9#mQ2zv')",
    "my seed phrase\n\n- abandon ability able about above absent absorb abstract absurd abuse access accident\n",
    "password\nXk9#mQ2zv",
    "pw\npw\nsecret\r\ntoken",
    "name\tpassword\nbob\tXk9#mQ2zv\n",
]


def sample(rng: Random) -> str:
    """Text with values of every kind between words."""
    parts = []
    for makes in BARE.values():
        context = rng.choice(list(contexts.BARE.values()))
        parts.append(context.format(v=rng.choice(makes)(rng)))
    for rows in NAMED.values():
        name, key, make = rng.choice(rows)
        parts.append(rng.choice(list(contexts.NAMED.values())).format(n=name, k=key, v=make(rng)))
    rng.shuffle(parts)
    return ("\nSome ordinary words, and a paſſword of İ\u212a.\n" * rng.randrange(1, 40)).join(parts)


@NEEDS_RE2
def test_finds_are_the_same_without_re2() -> None:
    for seed in range(20 if LONG else 4):
        text = sample(Random(seed))
        fast, slow = Detector(KINDS, with_re2=True), Detector(KINDS, with_re2=False)
        found, others = fast.find(text), slow.find(text)
        assert [_shortened(one) for one in found] == [_shortened(one) for one in others]
        assert len(found) > 60


@given(
    st.lists(st.sampled_from(["A" * 23, "aZ09+/_-" * 3, "=", "==", " ", "\n", "é", "表", "\U0001f600"]), max_size=12)
)
def test_runs_of_base64_are_found(parts: list[str]) -> None:
    """The same as with a regular expression, in text of any language."""
    text = "".join(parts)
    assert list(_base64_runs(text, 0, len(text))) == [
        run.span(1) for run in re.finditer("([A-Za-z0-9+/_-]{24,})={0,2}", text)
    ]


@NEEDS_RE2
def test_the_prefilter_rules_out_only_searches_without_a_match() -> None:
    """For texts with one value each, and for parts of values."""
    rules = BuiltInRules(with_re2=True)
    rng, ruled_out = Random(7), Counter[str]()
    values = [make(rng) for makes in BARE.values() for make in makes]
    values += [
        context.format(n=name, k=key, v=make(rng))
        for rows in NAMED.values()
        for name, key, make in rows
        for context in contexts.NAMED.values()
    ]
    for text in [*values, *PARTS, *(f"é{value}\n密码" for value in values)]:
        scanned = Scanned(text)
        rules._prefilter.narrow(scanned)
        assert scanned.regions is not None
        absent = [search for search, regions in scanned.regions.items() if not regions]
        for search in absent:
            assert list(search.spans(Scanned(text))) == []
        ruled_out[f"{len(rules._searches) - len(absent)} left"] += 1
    assert len(ruled_out) > 4


@NEEDS_RE2
def test_parts_of_a_long_text_have_the_matches_of_the_whole() -> None:
    """Values at, before and after the cuts between parts, some of them over several lines, in text of any language."""
    rules = BuiltInRules(with_re2=True)
    skipped = 0
    for seed in range(20 if LONG else 3):
        rng = Random(seed)
        parts = [sample(rng), *SEVERAL_LINES, *PARTS] * 2
        rng.shuffle(parts)
        gaps = [" Ada likes tea.\n" * rng.randrange(1, 300) + rng.choice(("", "é", "表\n", "\n" * 9)) for _ in parts]
        text = "".join(part + gap for part, gap in zip(parts, gaps, strict=True))
        scanned, whole = Scanned(text), Scanned(text)
        assert rules._prefilter.narrow(scanned)
        for search in rules._searches:
            assert list(search.spans(scanned)) == list(search.spans(whole))
            skipped += len(scanned.cuts) - 1 - sum(last + 1 - first for first, last in scanned.regions_of(search))
    assert skipped > 100


@NEEDS_RE2
@pytest.mark.parametrize("text", ["path: a1b2", "pattern = 'X9#zz'", "patch pwx1 1", "bypass 7 passing"])
def test_short_words_are_no_beginnings_of_longer_ones(text: str) -> None:
    """`pat` names a token, and `path` does not: the most frequent word of documentation is no place to judge."""
    for with_re2 in (True, False):
        seek, then, short = named.SEEKS[0]
        search = Search(seek, then, short=short, lower=True, with_re2=with_re2)
        assert list(search.spans(Scanned(text))) == []
        assert len(list(search.spans(Scanned(f"{text}\npw: a1b2\nmy pats = 'X9#zz'\npw12 is x1")))) == 3


@NEEDS_RE2
def test_an_ordinary_text_is_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Search, "_in_piece", lambda *_: pytest.fail("a search runs that matches nowhere"))
    assert Detector(with_re2=True).find("Ada likes tea, and Bob likes coffee.\n" * 50) == []


def _shortened(find: Find) -> Find:
    """The find without what follows its first 300 characters: there, the two engines may end a long token elsewhere."""
    return find._replace(end=min(find.end, find.start + 300))


def test_without_re2_it_works_and_prints_no_warning() -> None:
    """In a process that cannot import RE2."""
    code = """
import sys
sys.modules["re2"] = None
from retentive.redaction import named
from retentive.redaction.built_in import BuiltInRules
from retentive.redaction.detector import Detector
print(Detector().redact("password: hunter2 and AKIAQYLPMN5HXRZW2TVB"))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == (
        "('password: [REDACTED:password] and [REDACTED:aws_access_key_id]', ['password', 'aws_access_key_id'])"
    )
    assert done.stderr == ""


@pytest.mark.parametrize("with_re2", [pytest.param(True, marks=NEEDS_RE2), False])
def test_positions_are_in_characters(with_re2: bool) -> None:
    search = Search("pass|密码|1+", lower=True, with_re2=with_re2)
    assert list(search.spans(Scanned("PaSs İ\U0001f600 11 密码\ud800 1"))) == [(0, 4), (8, 10), (11, 13), (15, 16)]
    reach = [0]
    spans = search.spans(Scanned("é pass 密码 1 1 密码"), reach)
    assert next(spans) == (2, 6)
    reach[0] = 11
    assert [span for span in spans if span[0] >= reach[0]] == [(12, 13), (14, 16)]


@pytest.mark.parametrize("with_re2", [pytest.param(True, marks=NEEDS_RE2), False])
def test_what_follows_is_on_the_same_line(with_re2: bool) -> None:
    search = Search("a+", "1[0-9]", with_re2=with_re2)
    text = "a aa 12 14 a\n15 a1\na 1 a 2\naaa16"
    assert [text[start:end] for start, end in search.spans(Scanned(text))] == ["a aa 12", "aaa16"]


def test_alternatives_prefer_the_longest() -> None:
    pattern = alternatives({"pat": "[0-9]", "pat-eu": "", "path": "", "p.": ""})
    assert [re.match(pattern, text) is not None for text in ("pat1", "pat-eu", "path", "p.", "pat", "px")] == [
        True, True, True, True, False, False,
    ]  # fmt: skip
    assert re.findall(alternatives(["a", "ab", "abc"]), "abcab a") == ["abc", "ab", "a"]


PARTS = [
    "1", "4", "4 ", "0 ", "+1 ", "A", "a@", "DE89", "12-", "eyJ.", "(", "{", "$", '"', "\\n", "%20", "[REDACTED:x]",
    "[REDACTED:password]", "[REDACTED:password]a1", "[REDACTED:", "password: [REDACTED:password]Xk9#mQ2zv",
    "password:", "password ", "Passwort ", "pat-na1-", "key ", "admin / ", " / ", "@a:", "-us1",
    "password for ", "password=", "password: '", "passphrase: word ", "seed phrase: word ", "insert into t (password",
    "| password |\n|---|\n", "a b ", "-----BEGIN PRIVATE KEY-----\n", "Private-Lines: 1\nAAAA ", "://a:b",
    "4111 1111 1111 1111 ", "datadog key ", "aws secret ", "server=;", "host= password=",
    "Bearer aaaaaaaaaaaaaaaaaaaa.", "x.y.",
    "private_key: \"-----BEGIN PRIVATE KEY-----", "authorization: token ", "curl -u ", "token",
    "密码是", "パスワードは",
    "AccountKey=", "sig=", "key-", "https://hooks.slack.com/", "basic ", "is the password ", "secret value: ",
]  # fmt: skip
HOSTILE_CHARS = 4_000
TAILS = ["", " ", "=", ': "', "\n", "|"]


def hostile() -> list[str]:
    texts = [(part + tail) * (HOSTILE_CHARS // len(part + tail)) for part in PARTS for tail in TAILS]
    texts += [
        part + tail * (HOSTILE_CHARS // len(tail))
        for part in PARTS
        for tail in ("A", " a", "a1", "1-", " ", "=", "\\n")
    ]
    starts = sorted({start for row in VENDORS for start in row[1].split()})
    texts += [start * (HOSTILE_CHARS // len(start)) for start in starts]
    return texts


@pytest.mark.long
@pytest.mark.parametrize("with_re2", [pytest.param(True, marks=NEEDS_RE2), False])
def test_every_input_ends_in_bounded_time(with_re2: bool) -> None:
    """Each input, in a process with a generous timeout."""
    code = (
        "import json, sys; from retentive.redaction.detector import KINDS, Detector; "
        f"detector = Detector(KINDS, with_re2={with_re2})\n"
        "for text in json.load(sys.stdin): print(json.dumps(text[:60]), flush=True); detector.find(text)\n"
        "print('done')"
    )
    given = json.dumps(hostile())
    running = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        said, _ = running.communicate(given, timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        running.kill()
        said, _ = running.communicate()
    assert said.splitlines()[-1] == "done", f"this takes for ever: {said.splitlines()[-1]}"


def test_every_row_of_a_table_has_a_known_kind() -> None:
    assert {row[0] for row in (*VENDORS, *INFIXES)} <= set(KINDS)
