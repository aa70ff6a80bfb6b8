"""An edit is judged as the whole new text is, although often only the changed part of it is examined."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import pytest

import retentive
from retentive.redaction.built_in import BuiltInRules
from retentive.redaction.changes import LONG_LINE, around
from retentive.redaction.detector import Detector, Find, Rule, reaches_far
from retentive.redaction.examiner import AHEAD_CHARS, Examined, TextExaminer
from retentive.redaction.search import has_re2
from retentive.values.settings import DEFAULTS, Settings
from support.profiles import sized

from . import sensitive_contexts as contexts
from .sensitive_values import ALNUM, BARE, BASE64, HEX, NAMED, card, of, password, pem

Command: TypeAlias = dict[str, Any]

A = "/memories/a.md"
CARD, PASSWORD, KEY = "5500005555555559", "MNg2DkQO5F7x9!", "AKIAYCPJCAWHSV7BT4CQ"
BODY = "".join(f"{of(Random(number), BASE64, 64)}\n" for number in range(38))
PROSE = "we met Ann at noon and talked about lunch. " * 100
LINES = "one more line of notes\n" * 200
LINES_OF_TABLE = "Ann,none\n" * 100
IN_BASE64 = base64.b64encode(f"{'x' * 1801} {KEY} {'y' * 300}".encode()).decode()
KEY_HEAD, KEY_END = "-----BEGIN RSA " + "PRIVATE KEY-----\n", "-----END RSA " + "PRIVATE KEY-----\n"
KEY_LINES = f"Proc-Type: 4,ENCRYPTED\n\n{BODY}"
WHOLE_KEY = KEY_HEAD + KEY_LINES + KEY_END
# The lines of base64 are decoded one by one. The last one has the whole end of the key, and no other has a part of it.
ENCODED_KEY = base64.encodebytes(WHOLE_KEY.rjust(45 * 57).encode()).decode()  # 57 bytes a line
TOKEN = of(Random(1), ALNUM, 40)
FINDABLE = (Path(__file__).parent / "findable.txt").read_text("utf-8").splitlines()
TIMES = sized(quick=250, long=3_000, full=15_000) // (1 if has_re2() else 10)


def create(text: str) -> Command:
    return {"command": "create", "file_text": text}


def insert(text: str, line: int = 0) -> Command:
    return {"command": "insert", "insert_line": line, "insert_text": text}


def replace(old: str, new: str) -> Command:
    return {"command": "str_replace", "old_str": old, "new_str": new}


# Each edit once saved a secret that is removed if the new text is written at once.
EDITS: dict[str, tuple[str, Command, str]] = {
    "a word for a card": (f"Number {CARD}\nfor lunch\n", replace("Number", "Credit card number"), "payment_card"),
    "a sign of an assignment": (f"password {PASSWORD}\n", replace("password ", "password = "), "password"),
    "the end of a key": (KEY_HEAD + KEY_LINES, insert(KEY_END, 41), "private_key"),
    "the start of a key": (KEY_LINES + KEY_END, insert(KEY_HEAD), "private_key"),
    "the end of a key of PuTTY": (
        f"Encryption: none\nPrivate-Lines: 38\n{BODY}",
        insert(f"Private-MAC: {of(Random(2), HEX, 40)}\n", 40),
        "private_key",
    ),
    "base64 in a long line": (f"{IN_BASE64[:2410]}*{IN_BASE64[2410:]}", replace("*", ""), "aws_access_key_id"),
    "base64 in several lines": (f"{ENCODED_KEY[:-40]}*{ENCODED_KEY[-40:]}", replace("*", ""), "private_key"),
    "a word before a long text": ("password = TODO\n", replace("TODO", f"{PASSWORD}\n{PROSE}"), "password"),
    "a value before a long text": (
        "Credit card number:\n", replace("number:", f"number: {CARD}\n{PROSE}"), "payment_card"
    ),
    "the heading of a table": (
        f"name,number\n{LINES_OF_TABLE}Bob,{CARD}\n", replace("name,number", "name,card number"), "payment_card"
    ),
    "a row of a statement": (
        "INSERT INTO users (name, password) VALUES\n" + "('Ann', 'none'),\n" * 100 + "('Bob', 'none');\n",
        replace("('Bob', 'none')", f"('Bob', '{PASSWORD}')"),
        "password",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", EDITS)
@pytest.mark.parametrize("mode", ["redact", "reject"])
def test_a_secret_that_an_edit_completes_is_not_saved(name: str, mode: str) -> None:
    text, edit, kind = EDITS[name]
    with retentive.open("sqlite://") as location:
        store = location.store()
        store.change_settings({"sensitive": mode})
        assert store.execute({"path": A} | create(text)).is_error is False
        assert store.read(A) == text
        reply = store.execute({"path": A} | edit)
        assert kind in reply.text
        assert reply.is_error is (mode == "reject")
        assert (store.read(A) == text) is (mode == "reject")
        assert (f"[REDACTED:{kind}]" in store.read(A)) is (mode == "redact")


def table(rng: Random) -> str:
    """A table or a statement with some rows, and a value in the last one."""
    rows = rng.choice([1, 5, 60, 300])
    value = rng.choice([password, card])(rng)
    return rng.choice(
        [
            "name,{head}\n" + "Ann,none\n" * rows + "Bob,{value}\n",
            "| name | {head} |\n|---|---|\n" + "| Ann | none |\n" * rows + "| Bob | {value} |\n",
            "INSERT INTO t (name, {head}) VALUES\n" + "('Ann', 'none'),\n" * rows + "('Bob', '{value}');\n",
        ]
    ).format(head=rng.choice(["password", "card number", "number"]), value=value)


def secret(rng: Random) -> str:
    """A text with a sensitive value, maybe encoded, split in lines, or longer than the part that is examined."""
    make = rng.choice([make for made in BARE.values() for make in made])
    named = rng.choice(list(contexts.NAMED.values()))
    name, key, named_value = rng.choice([row for rows in NAMED.values() for row in rows])
    texts: list[Callable[[], str]] = [
        lambda: make(rng),
        lambda: rng.choice(FINDABLE),
        lambda: named.format(n=name, k=key, v=named_value(rng)),
        lambda: pem(rng),
        lambda: f"Authorization: Bearer {of(rng, ALNUM, rng.choice([40, 1_500, 3_500]))}",
        lambda: f"sk-ant-api03-{of(rng, ALNUM, rng.choice([95, 600, 2_500]))}AA",
        lambda: table(rng),
    ]
    return in_some_form(rng.choice(texts)(), rng)


def in_some_form(text: str, rng: Random) -> str:
    """The text itself, in two lines, URL-encoded, or in base64 on one line or several."""
    sort = rng.randrange(8)
    if sort == 0:
        return "".join(f"%{byte:02X}" for byte in text.encode()[:600])
    if sort == 1 and "\n" not in text and len(text) > 20:  # a token in two lines
        at = rng.randrange(6, len(text) - 1)
        return f"{text[:at]}\n{text[at:]}"
    if sort in (2, 3):
        pad = of(rng, ALNUM, rng.choice([0, 31, 300, 1_801, 2_600]))
        encoded = base64.b64encode(f"{pad} {text} {of(rng, ALNUM, rng.choice([0, 50, 2_500]))}".encode()).decode()
        width = rng.choice([60, 64, 75, 76]) if sort == 3 else len(encoded)
        return "\n".join(encoded[at : at + width] for at in range(0, len(encoded), width))
    return text


def filler(rng: Random, length: int) -> str:
    words = [
        "the quick brown fox",
        "notes about lunch",
        "- item",
        "# Title",
        "x" * 300,
        "a, b; c",
        "| a | b |",
        "2026-11-05",
    ]
    parts, size = list[str](), 0
    while size < length:
        parts.append(rng.choice(words) + rng.choice(["\n", " ", "\n\n"]))
        size += len(parts[-1])
    return "".join(parts)[:length]


def edited(rng: Random) -> tuple[str, str]:
    """A text in which a secret is broken, and the text after an edit that completes it."""
    value = secret(rng)
    at = rng.randrange(1, len(value))
    rest = rng.choice([f"{rng.choice(['#', '!!', ' zzz '])}{value[at:]}", value[at + rng.randrange(1, 6) :], ""])
    broken = rng.choice([value[:at] + rest, value[at:]])
    between = rng.choice(["\n", "\n", " ", ""])
    start, end = (filler(rng, rng.choice([0, 50, 3_000, 9_000])) for _ in range(2))
    return f"{start}{between}{broken}{between}{end}", f"{start}{between}{value}{between}{end}"


def brought(rng: Random) -> tuple[str, str, str]:
    """A text, the text after an edit, and the long text that the edit brings, which has only a part of a secret."""
    value, long = secret(rng), filler(rng, AHEAD_CHARS + rng.choice([100, 1_000, 6_000]))
    at = rng.randrange(1, len(value))
    new, (start, end) = rng.choice(
        [(f"{long}\n{value[:at]}", ("", value[at:])), (f"{value[at:]}\n{long}", (value[:at], ""))]
    )
    start, end = f"{filler(rng, 50)}\n{start}", f"{end}\n{filler(rng, 100)}"
    return f"{start}TODO{end}", f"{start}{new}{end}", new


MODES = [
    DEFAULTS,
    DEFAULTS.changed({"sensitive_likely": "redact"}),
    DEFAULTS.changed({"sensitive": "reject", "sensitive_likely": "reject"}),
]


def judge(
    settings: Settings, before: str, text: str, new: str | None, detectors: dict[Any, Detector]
) -> tuple[Examined, Examined] | None:
    """Return how the edit and how the whole new text is judged. None if the text before has sensitive values too."""
    examiner = TextExaminer(_detectors=detectors)
    if examiner.examine(settings, before) != Examined(before):
        return None
    ahead = examiner if new is None else examiner.prepared(settings, new)
    edit = ahead.examine(settings, text, before=before)
    return edit, TextExaminer(_detectors=detectors).examine(settings, text)


@pytest.mark.parametrize("is_long", [False, True])
def test_an_edit_is_judged_as_the_whole_new_text_is(is_long: bool) -> None:
    """Also if the edit brings a long text, which is examined before the write lock is taken."""
    detectors: dict[Any, Detector] = {}
    judged = 0
    for seed in range(TIMES):
        rng = Random(seed)
        before, text, new = brought(rng) if is_long else (*edited(rng), None)
        result = judge(rng.choice(MODES), before, text, new, detectors)
        if result is not None:
            judged += result[1] != Examined(text)
            assert result[0] == result[1], seed
    assert judged > TIMES // 8


def test_rules_of_an_application_are_applied_to_the_whole_text() -> None:
    """A rule or detector can depend on text at any distance, and the text that an edit brings is only a part."""

    def after_a_mark(text: str) -> list[Find]:
        at = text.find("secret")
        return [Find("mark", at, at + 6)] if text.startswith("mark") and at > 0 else []

    rule = Rule("far", r"(?s)mark.*(?P<value>secret)")
    for examiner in (TextExaminer([rule]), TextExaminer(detectors=[after_a_mark])):
        text = f"none\n{LINES}secret\n"
        for before, new in ((text, "mark"), (f"mark\n{LINES}none\n", "secret"), ("mark TODO\n", f"{LINES}secret")):
            after = before.replace("TODO" if len(new) > 10 else "none", new)
            assert examiner.examine(DEFAULTS, before).text == before
            edit = examiner.prepared(DEFAULTS, new).examine(DEFAULTS, after, before=before)
            assert edit.text == after.replace("secret", f"[REDACTED:{edit.removed[0]}]")


DISTANT = [
    WHOLE_KEY, ENCODED_KEY, "Private-Lines: 38\n", "Insert\ninto t", "|pin|\n|---|\n", f"card\n{CARD}", "a 536-22-1234",
    f"WALLET{' ' * 90}: {'oven pear ' * 6}"
]  # fmt: skip


@pytest.mark.parametrize("text", DISTANT)
def test_texts_with_distant_context_are_recognized_without_re2(text: str) -> None:
    assert BuiltInRules(with_re2=False).reach_far(text)
    assert reaches_far(text)


def test_notes_have_no_distant_context_unless_they_have_invisible_characters() -> None:
    assert not BuiltInRules(with_re2=False).reach_far(LINES + PROSE)
    assert not reaches_far(LINES + PROSE)
    assert reaches_far(f"{LINES}a\u200bb")


def test_long_lines_are_cut_at_spaces_far_from_the_change() -> None:
    """A token is examined whole, with the words before it. A line without spaces is examined whole too."""
    line = f"{'word ' * 2_000}Bearer {TOKEN * 100} {'word ' * 2_000}"
    at = line.index(TOKEN) + 70 * len(TOKEN)
    part, start = around(line, at, at)
    assert part.split(" ")[-1] == part.split(" ")[0] == "word"
    assert f" Bearer {TOKEN * 100} " in part
    assert line[start:].startswith(part)
    assert len(part) < len(TOKEN) * 100 + 4 * LONG_LINE
    assert around("x" * 9_000, 4_500, 4_500) == ("x" * 9_000, 0)
    assert around(f"{LINES}{'x' * 9_000}\n{LINES}", 9_000, 9_000)[0].count("x") == 9_000
