"""The engine of the built-in rules: bounded time for every input, and the same finds in any text."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retentive.redaction.detector import KINDS, Detector
from retentive.redaction.engine import alternatives
from retentive.redaction.rules import data
from retentive.redaction.views import _base64_runs
from support.detection.values import kinds

DEADLINE_S = 600  # a hang fails the test; all inputs take less than a minute


@given(
    st.lists(st.sampled_from(["A" * 23, "aZ09+/_-" * 3, "=", "==", " ", "\n", "é", "表", "\U0001f600"]), max_size=12)
)
def test_runs_of_base64_are_found(parts: list[str]) -> None:
    """The same as with a regular expression, in text of any language."""
    text = "".join(parts)
    assert list(_base64_runs(text)) == [run.span(1) for run in re.finditer("([A-Za-z0-9+/_-]{24,})={0,2}", text)]


def test_finds_do_not_depend_on_the_text_around_them() -> None:
    """A value of each kind alone, and in a long text between all others: each rule runs wherever its literal is."""
    rng, detector = Random(7), Detector()
    values = [kind.make(rng) for kind in kinds() if kind.group in {"bare", "key file"}]
    whole = "\n\nSome ordinary words, and a pa\u017fsword of \u0130\u212a.\n\n".join(values)
    found = {whole[find.start : find.end] for find in detector.find(whole)}
    missed = [value for value in values if not all(value[at.start : at.end] in found for at in detector.find(value))]
    assert missed == []
    assert len(found) >= len(values)


def test_alternatives_prefer_the_longest() -> None:
    pattern = alternatives(["pat-eu", "pat", "path", "p."])
    assert [match[0] for match in re.finditer(pattern, "pat-eu path p. patx px")] == ["pat-eu", "path", "p.", "pat"]
    assert re.findall(alternatives(["a", "ab", "abc"]), "abcab a") == ["abc", "ab", "a"]


def test_re2_is_not_needed() -> None:
    """The same finds in a process that cannot import it."""
    code = """
import sys
sys.modules["re2"] = None
from retentive.redaction.detector import Detector
print([find.kind for find in Detector().find("password: hunter2 and AKIAQYLPMN5HXRZW2TVB")])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "['password', 'aws_access_key_id']"
    assert done.stderr == ""


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
    starts = sorted({start for row in data()["vendors"] for start in row[1].split()})
    starts += [literal for row in data()["forms"] for literal in row[1].split("|")]
    texts += [start * (HOSTILE_CHARS // len(start)) for start in starts]
    return texts


@pytest.mark.long
def test_every_input_ends_in_bounded_time() -> None:
    """Each input, in a process with a generous timeout."""
    code = (
        "import json, sys; from retentive.redaction.detector import KINDS, Detector; detector = Detector(KINDS)\n"
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
    tables = data()
    assert {row[0] for table in ("vendors", "forms", "named") for row in tables[table]} <= set(KINDS)
