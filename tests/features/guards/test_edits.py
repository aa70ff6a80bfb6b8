"""An edit is judged as the whole new text is."""

from __future__ import annotations

import base64
from random import Random
from typing import Any, TypeAlias

import pytest

import retentive
from retentive.redaction.detector import Find, Rule
from retentive.redaction.examiner import TextExaminer
from retentive.values.settings import DEFAULTS
from support.detection.draw import of

Command: TypeAlias = dict[str, Any]

A = "/memories/a.md"
CARD, PASSWORD, KEY = "5500005555555559", "MNg2DkQO5F7x9!", "AKIAYCPJCAWHSV7BT4CQ"
BODY = "".join(f"{of(Random(number), 'b64', 64)}\n" for number in range(38))
PROSE = "we met Ann at noon and talked about lunch. " * 100
LINES = "one more line of notes\n" * 200
LINES_OF_TABLE = "Ann,none\n" * 100
IN_BASE64 = base64.b64encode(f"{'x' * 1801} {KEY} {'y' * 300}".encode()).decode()
KEY_HEAD, KEY_END = "-----BEGIN RSA " + "PRIVATE KEY-----\n", "-----END RSA " + "PRIVATE KEY-----\n"
KEY_LINES = f"Proc-Type: 4,ENCRYPTED\n\n{BODY}"
WHOLE_KEY = KEY_HEAD + KEY_LINES + KEY_END
# The lines of base64 are decoded one by one. The last one has the whole end of the key, and no other has a part of it.
ENCODED_KEY = base64.encodebytes(WHOLE_KEY.rjust(45 * 57).encode()).decode()  # 57 bytes a line


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
        insert(f"Private-MAC: {of(Random(2), 'hex', 40)}\n", 40),
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


def test_rules_of_an_application_are_applied_to_the_whole_text() -> None:
    """A rule or detector can depend on text at any distance."""

    def after_a_mark(text: str) -> list[Find]:
        at = text.find("secret")
        return [Find("mark", at, at + 6)] if text.startswith("mark") and at > 0 else []

    rule = Rule("far", r"(?s)mark.*(?P<value>secret)")
    for examiner in (TextExaminer([rule]), TextExaminer(detectors=[after_a_mark])):
        text = f"none\n{LINES}secret\n"
        for before, new in ((text, "mark"), (f"mark\n{LINES}none\n", "secret"), ("mark TODO\n", f"{LINES}secret")):
            after = before.replace("TODO" if len(new) > 10 else "none", new)
            assert examiner.examine(DEFAULTS, before).text == before
            edit = examiner.examine(DEFAULTS, after, before=before)
            assert edit.text == after.replace("secret", f"[REDACTED:{edit.removed[0]}]")
