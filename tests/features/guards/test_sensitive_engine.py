"""The search for sensitive values: the same finds with and without RE2, and bounded time for every input."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from random import Random

import pytest

from retentive.redaction import detector
from retentive.redaction.detector import KINDS, Detector
from retentive.redaction.prefilter import Anchor, prefilter
from support.profiles import LONG

from . import sensitive_contexts as contexts
from .sensitive_values import BARE, NAMED

DEADLINE_S = 120  # a hang fails the test; the slowest input takes some seconds
HAS_RE2 = importlib.util.find_spec("re2") is not None


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


@pytest.mark.skipif(not HAS_RE2, reason="google-re2 is not installed: pip install google-re2")
def test_finds_are_the_same_without_re2() -> None:
    for seed in range(20 if LONG else 4):
        text = sample(Random(seed))
        fast, slow = Detector(KINDS), Detector(KINDS)
        fast._with_re2, slow._with_re2 = True, False
        assert fast.find(text) == slow.find(text)
        assert len(fast.find(text)) > 60


def test_without_re2_it_works() -> None:
    """In a process that cannot import RE2."""
    code = """
import sys
sys.modules["re2"] = None
from retentive.redaction.detector import Detector
print(Detector().redact("password: hunter2 and AKIAQYLPMN5HXRZW2TVB"))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == (
        "('password: [REDACTED:password] and [REDACTED:aws_access_key_id]', ['password', 'aws_access_key_id'])"
    )


@pytest.mark.parametrize(
    "with_re2", [pytest.param(True, marks=pytest.mark.skipif(not HAS_RE2, reason="no re2")), False]
)
def test_the_prefilter_misses_no_anchor(with_re2: bool) -> None:
    anchors = [
        Anchor("ghp_"),
        Anchor("pass", any_case=True),
        Anchor(r"\d{3}-\d{2}", is_pattern=True),
        Anchor("密码", any_case=True),
    ]
    match = prefilter(anchors, with_re2=with_re2)

    def found(text: str) -> list[int]:
        return sorted(match(text.encode("utf-8", "replace")) or ())

    assert found("GHP_ PaSs 123-45 密码") == [1, 2, 3]
    assert found("ghp_\ud800") == [0]
    assert found("nothing") == []


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
PARTS_OF_HOSTILE = 16
TAILS = ["", " ", "=", ': "', "\n", "|"]


def hostile() -> list[str]:
    texts = [(part + tail) * (100_000 // len(part + tail)) for part in PARTS for tail in TAILS]
    texts += [
        part + tail * (100_000 // len(tail)) for part in PARTS for tail in ("A", " a", "a1", "1-", " ", "=", "\\n")
    ]
    starts = sorted({start for rule in detector._own_rules() for start in (*rule.starts, *rule.holds)})
    texts += [start * (100_000 // len(start)) for start in starts]
    return texts


@pytest.mark.long
@pytest.mark.parametrize("part", range(PARTS_OF_HOSTILE))
def test_every_input_ends_in_bounded_time(part: int) -> None:
    """100 KB of each input, in a process with a generous timeout."""
    code = (
        "import json, sys; from retentive.redaction.detector import KINDS, Detector; "
        "detector = Detector(KINDS)\n"
        "for text in json.load(sys.stdin): print(json.dumps(text[:60]), flush=True); detector.find(text)\n"
        "print('done')"
    )
    given = json.dumps(hostile()[part::PARTS_OF_HOSTILE])
    running = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        said, _ = running.communicate(given, timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        running.kill()
        said, _ = running.communicate()
    assert said.splitlines()[-1] == "done", f"this takes for ever: {said.splitlines()[-1]}"


def test_every_kind_has_a_rule_and_every_rule_a_kind() -> None:
    rules = detector._own_rules()
    assert {rule.name for rule in rules} | {"secret"} == set(KINDS)
    for rule in rules:
        assert rule.compiled.pattern
        assert rule.starts or rule.holds or rule.gate
